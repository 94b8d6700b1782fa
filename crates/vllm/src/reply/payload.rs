//! The few members of replies and events that matter here.
//!
//! Values are kept raw and read one by one, so that one of an unexpected type hides no other; what
//! is no JSON object counts as one without members.

use memchr::memmem;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::usage::UsageObject;

/// A JSON object, of whatever dialect.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Payload<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "even_null")]
    stop_reason: Option<&'a RawValue>,
}

/// Null and absent are told apart, which an [`Option`] by itself would not do.
fn even_null<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl<'a> Payload<'a> {
    /// `None` where it is no JSON object.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        // Without the check `serde` would take a list for an object's values in order.
        let is_object = bytes.trim_ascii_start().starts_with(b"{");
        is_object
            .then(|| serde_json::from_slice(bytes).ok())
            .flatten()
    }

    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Self::parse(bytes).unwrap_or_default()
    }

    /// `type`.
    pub(super) fn kind(&self) -> Option<&'a str> {
        plain(self.kind)
    }

    /// `status`.
    pub(super) fn status(&self) -> Option<&'a str> {
        plain(self.status)
    }

    pub(super) fn usage(&self) -> Option<UsageObject> {
        let usage = self.usage?.get();
        usage
            .starts_with('{')
            .then(|| serde_json::from_str(usage).ok())
            .flatten()
    }

    pub(super) fn message(&self) -> Option<Self> {
        Self::parse(self.message?.get().as_bytes())
    }

    pub(super) fn response(&self) -> Option<Self> {
        Self::parse(self.response?.get().as_bytes())
    }

    /// `stop_reason` as written, of the object itself or of its `delta`.
    pub(super) fn stop_reason(&self) -> Option<&'a str> {
        let in_delta = || Self::parse(self.delta?.get().as_bytes())?.stop_reason;
        self.stop_reason.or_else(in_delta).map(RawValue::get)
    }

    /// Whether it says that something failed, in the form of any API.
    pub(super) fn is_error(&self) -> bool {
        self.kind() == Some("error") || plain(self.object) == Some("error") || self.error.is_some()
    }
}

/// A string's text, as long as nothing in it is escaped.
fn plain(value: Option<&RawValue>) -> Option<&str> {
    value?
        .get()
        .strip_prefix('"')?
        .strip_suffix('"')
        .filter(|text| !text.contains('\\'))
}

/// Whether a choice ended with `finish_reason: "abort"`, which no request of the client's own
/// causes.
pub(super) fn is_aborted(json: &[u8]) -> bool {
    memmem::find_iter(json, b"\"abort\"").any(|at| {
        let before = json[..at]
            .trim_ascii_end()
            .strip_suffix(b":")
            .unwrap_or_default();
        before.trim_ascii_end().ends_with(b"\"finish_reason\"")
    })
}
