//! Turns `web/dist/pages` into a table of embedded files, so that the service is one binary.
//!
//! Where the pages were not built (Node is not needed to build the warden), the table holds one
//! plain page that says how to build them. The build of the pages writes a `.gz` beside each file
//! worth compressing; it is embedded as that file's second form, not as a file of its own.

use std::{
    env,
    fmt::Write as _,
    fs,
    hash::{DefaultHasher, Hasher},
    io,
    path::{Path, PathBuf},
};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let dist = root.join("../../web/dist");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", dist.display());
    println!("cargo::rerun-if-changed=src/unbuilt.html");
    println!("cargo::rerun-if-changed=src/unbuilt-report.html");

    let pages = dist.join("pages");
    let mut files = Vec::new();
    if pages.join("index.html").is_file() {
        collect(&pages, &pages, &mut files)?;
        files.sort();
    } else {
        files.push(("index.html".to_owned(), root.join("src/unbuilt.html")));
    }

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("files.rs"), table(&files)?)?;
    let report = dist.join("report/report.html");
    let report = if report.is_file() {
        report
    } else {
        root.join("src/unbuilt-report.html")
    };
    fs::copy(report, out.join("report.html")).map(|_| ())
}

/// All files below `folder`, by their path from `base`, but for the compressed forms.
fn collect(base: &Path, folder: &Path, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(base, &path, files)?;
        } else if path.extension().is_none_or(|extension| extension != "gz") {
            let name = path.strip_prefix(base).expect("it was found below base");
            let name = name.to_str().expect("the pages' build writes ASCII names");
            files.push((name.replace('\\', "/"), path));
        }
    }
    Ok(())
}

fn table(files: &[(String, PathBuf)]) -> io::Result<String> {
    let mut table = String::from("&[\n");
    for (name, path) in files {
        let path = path.to_str().expect("the checkout's path is UTF-8");
        let compressed = format!("{path}.gz");
        let gzip = if Path::new(&compressed).is_file() {
            format!("Some(include_bytes!({compressed:?}))")
        } else {
            "None".to_owned()
        };
        // Vite puts what carries a hash of its content in its name into `assets/`.
        let immutable = name.starts_with("assets/");
        writeln!(
            table,
            "Asset {{ path: {name:?}, body: include_bytes!({path:?}), gzip: {gzip}, \
             content_type: {:?}, immutable: {immutable}, etag: {:?} }},",
            content_type(name),
            etag(&fs::read(path)?),
        )
        .expect("writing to a string cannot fail");
    }
    table.push(']');
    Ok(table)
}

/// A validator, not a proof: 64 bits tell two builds of the same file apart.
fn etag(body: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(body);
    format!("\"{:016x}\"", hasher.finish())
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("woff2") => "font/woff2",
        Some("json") => "application/json",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
