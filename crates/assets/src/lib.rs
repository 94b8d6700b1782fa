//! The built pages, embedded in the binary.
//!
//! Knows which file answers which path, and what the browser may keep. Leaves out HTTP: whoever
//! serves an [`Asset`] chooses between its two forms and answers conditional requests. Which paths
//! are pages stands here and not in a catch-all, so that a mistyped path stays a 404.

/// One file of the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asset {
    /// Its path below the pages' root, without a leading slash.
    pub path: &'static str,
    /// Its content.
    pub body: &'static [u8],
    /// Its content compressed with gzip, where that is worth sending.
    pub gzip: Option<&'static [u8]>,
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// Whether the name carries a hash of the content, so that it can be kept forever.
    pub immutable: bool,
    /// The value of `ETag` for [`Asset::body`], quotes included.
    pub etag: &'static str,
}

impl Asset {
    /// The value of `Cache-Control`. What is not immutable is asked for again each time (and
    /// answered by its `ETag`), so that a new binary's pages appear at the next load.
    pub fn cache_control(&self) -> &'static str {
        if self.immutable {
            "public, max-age=31536000, immutable"
        } else {
            "no-cache"
        }
    }
}

static FILES: &[Asset] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The file that answers a request's path (`/`, `/stats`, `/assets/index-Bd9s.js`), percent-encoded
/// as it came and without its query. A page's path gives the one document that all pages share.
///
/// `None` where there is neither a file nor a page: answer 404.
pub fn get(path: &str) -> Option<Asset> {
    let path = path.strip_prefix('/')?;
    let name = if is_page(path) { "index.html" } else { path };
    FILES.iter().find(|asset| asset.path == name).copied()
}

/// The page of the bench's report: one self-contained document with the element
/// `<script id="report" type="application/json">`, whose `null` gives way to the data.
pub fn report_page() -> &'static str {
    include_str!(concat!(env!("OUT_DIR"), "/report.html"))
}

/// Whether the pages' own router knows the path.
fn is_page(path: &str) -> bool {
    match path.split_once('/') {
        None => matches!(
            path,
            "" | "stats" | "models" | "conversations" | "requests" | "keys"
        ),
        Some(("models" | "conversations", name)) => !name.is_empty() && !name.contains('/'),
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{FILES, get, report_page};

    #[test]
    fn every_page_gets_the_one_document() {
        let root = get("/").expect("there is always a page");
        assert_eq!(root.content_type, "text/html; charset=utf-8");
        assert_eq!(root.cache_control(), "no-cache");
        for page in [
            "/stats",
            "/models/demo",
            "/models/Qwen%2FQwen3-4B",
            "/conversations",
            "/conversations/3f2a9c0d11e2b4a7",
            "/requests",
            "/keys",
        ] {
            assert_eq!(get(page), Some(root), "{page}");
        }
    }

    #[test]
    fn what_is_neither_file_nor_page_is_not_found() {
        for path in [
            "",
            "stats",
            "/stat",
            "/models/",
            "/models/demo/x",
            "/conversations/a/b",
            "/requests/1",
            "/api/v1/models",
            "/assets/missing.js",
            "/../Cargo.toml",
            "/index.html.gz",
        ] {
            assert_eq!(get(path), None, "{path}");
        }
    }

    #[test]
    fn the_report_has_one_place_for_data_and_needs_nothing_else() {
        let page = report_page();
        let slot = "<script id=\"report\" type=\"application/json\">";
        let (_, data) = page.split_once(slot).expect("one place for data");
        assert!(!data.contains(slot));
        let (data, _) = data.split_once("</script>").expect("it is closed");
        assert_eq!(data.trim(), "null");
        for outside in [
            "<link rel=\"stylesheet\"",
            "<script src",
            "src=\"/",
            "href=\"/",
        ] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn only_hashed_names_are_kept_forever() {
        for asset in FILES {
            assert_eq!(get(&format!("/{}", asset.path)), Some(*asset));
            assert_eq!(asset.immutable, asset.path.starts_with("assets/"));
            assert!(asset.etag.starts_with('"') && asset.etag.ends_with('"'));
            if let Some(gzip) = asset.gzip {
                assert!(gzip.starts_with(&[0x1f, 0x8b]) && gzip.len() < asset.body.len());
            }
        }
    }
}
