//! The report as one HTML file, which opens without a network: a page of the web pages' build with
//! the data put in.

use super::Report;

/// The element that holds the data, `null` before.
const OPEN: &str = "<script id=\"report\" type=\"application/json\">";
const CLOSE: &str = "</script>";

/// The report's HTML.
pub fn html(report: &Report) -> String {
    let json = serde_json::to_string(report).expect("a report has no maps with odd keys");
    // No data may end the element that holds it, whatever a model is called.
    let json = json.replace('<', "\\u003c");
    let parts = assets::report_page().split_once(OPEN);
    let (before, rest) = parts.expect("a test of the assets holds that the element is there");
    let (_, after) = rest.split_once(CLOSE).expect("the element is closed");
    [before, OPEN, &json, CLOSE, after].concat()
}
