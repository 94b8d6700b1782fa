//! Replacing the model's name, the one change the gateway makes to a body.

use std::ops::Range;

/// The body in three pieces (before, new value, after) with the value of `model` replaced;
/// everything else stays byte for byte. `span` is [`super::BodyFacts::model_span`] of this body; a
/// span outside of it is clipped.
pub fn splice_model<'a>(
    body: &'a [u8],
    span: &Range<usize>,
    model: &str,
) -> (&'a [u8], String, &'a [u8]) {
    let (before, rest) = body.split_at(span.start.min(body.len()));
    let after = &rest[span.len().min(rest.len())..];
    (before, serde_json::Value::from(model).to_string(), after)
}
