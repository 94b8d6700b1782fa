//! Request bodies of every API.
//!
//! Laws: what the scan accepts is JSON and what it refuses as broken is not, by `serde_json`'s
//! judgement; replacing the model changes that value and nothing that is read otherwise; no count
//! of prompt bytes exceeds the body; a scan begun at the bookmark of an earlier body, this one or
//! one that ends otherwise, reads the same as a whole one.

use serde_json::value::RawValue;
use vllm::{BodyError, BodyFacts, Bookmark, Dialect, Digests, scan, scan_on, splice_model};

pub(super) const DIALECTS: [Dialect; 5] = [
    Dialect::Messages,
    Dialect::ChatCompletions,
    Dialect::Completions,
    Dialect::Responses,
    Dialect::Other,
];

pub(super) fn run(body: &[u8]) {
    for dialect in DIALECTS {
        for digests in [Digests::Identity, Digests::Prompt] {
            let facts = scan(dialect, digests, body);
            verdict(&facts, body);
            if let Ok(facts) = facts {
                accepted(dialect, digests, &facts, body);
            }
        }
    }
    if let Some(rest) = body.strip_prefix(b"{") {
        // White space, so that the body is long enough to get a bookmark.
        let space = vec![b' '; Bookmark::BYTES_MIN];
        let long = [b"{", space.as_slice(), rest].concat();
        resumed(DIALECTS[body.len() % DIALECTS.len()], long);
    }
}

fn resumed(dialect: Dialect, mut body: Vec<u8>) {
    let Ok((_, bookmark)) = scan_on(dialect, &body, None, 0) else {
        return;
    };
    let check = |body: &[u8]| {
        let facts = scan_on(dialect, body, bookmark.as_deref(), 0).map(|(facts, _)| facts);
        assert_eq!(facts, scan(dialect, Digests::Prompt, body));
    };
    check(&body);
    let end = body.len();
    body.swap(end - 1, end - 2);
    check(&body);
}

/// Whether it is JSON by the grammar alone.
fn is_json(body: &[u8]) -> bool {
    std::str::from_utf8(body).is_ok_and(|text| serde_json::from_str::<&RawValue>(text).is_ok())
}

fn verdict(facts: &Result<BodyFacts<'_>, BodyError>, body: &[u8]) {
    match facts {
        Err(BodyError::Json { offset }) => {
            assert!(!is_json(body), "JSON refused at {offset}");
            assert!(*offset <= body.len());
        }
        // What is refused for these reasons is not read to its end.
        Err(BodyError::WrongType { .. } | BodyError::TooDeep { .. }) => {}
        Ok(_) | Err(BodyError::NotAnObject | BodyError::MissingModel) => {
            assert!(is_json(body), "accepted, but no JSON");
        }
    }
}

fn accepted(dialect: Dialect, digests: Digests, facts: &BodyFacts<'_>, body: &[u8]) {
    assert!(facts.shared_bytes <= facts.prompt_bytes);
    assert!(facts.prompt_bytes <= body.len() as u64);
    let told: String = serde_json::from_slice(&body[facts.model_span.clone()])
        .expect("the span of the model is a JSON string");
    assert_eq!(told, facts.model);
    let (before, name, after) = splice_model(body, &facts.model_span, "eng\"ine");
    let spliced = [before, name.as_bytes(), after].concat();
    let again = scan(dialect, digests, &spliced).expect("still a request");
    let expected = BodyFacts {
        model: "eng\"ine".into(),
        model_span: again.model_span.clone(),
        ..facts.clone()
    };
    assert_eq!(again, expected);
}
