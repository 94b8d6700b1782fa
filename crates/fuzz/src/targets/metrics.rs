//! Prometheus text of engines.
//!
//! Laws: a line that is no sample of ours changes nothing; the order of lines that name different
//! engines changes nothing; bounded in engines.

use vllm::parse_metrics;

pub(super) fn run(text: &[u8]) {
    let told = parse_metrics(text);
    assert!(told.engines.len() <= 1024);
    let with_noise = [b"# a comment\nother_metric{engine=\"3\"} 9\n", text].concat();
    same(&told, &parse_metrics(&with_noise));
    let with_tail = [text, b"\nvllm:unknown{engine=\"0\"} 1\n\xff\xfe\n"].concat();
    same(&told, &parse_metrics(&with_tail));
}

/// Equal, where a NaN is equal to itself.
fn same(one: &vllm::Scrape, other: &vllm::Scrape) {
    assert_eq!(format!("{one:?}"), format!("{other:?}"));
}
