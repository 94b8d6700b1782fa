//! The report as one HTML file, which opens without a network: a page of the web pages' build with
//! the data put in.

use super::Report;

/// Where the page has room for the data.
const SLOT: &str = "<script id=\"report\" type=\"application/json\">null</script>";

/// The report's HTML.
pub fn html(report: &Report) -> String {
    let json = serde_json::to_string(report).expect("a report has no maps with odd keys");
    // No data may end the element that holds it, whatever a model is called.
    let json = json.replace('<', "\\u003c");
    let page = assets::report_page();
    debug_assert_eq!(
        page.matches(SLOT).count(),
        1,
        "the page has one place for data"
    );
    page.replacen(SLOT, &SLOT.replace("null", &json), 1)
}
