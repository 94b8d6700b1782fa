//! The words that stand in the file for routes, ends and marks: the API's own, so that a look at it
//! with `sqlite3` reads like the pages.

use api::{MarkKind, RequestEnd, Route};

pub(super) const ROUTES: [(Route, &str); 6] = [
    (Route::Sticky, "sticky"),
    (Route::New, "new"),
    (Route::Spilled, "spilled"),
    (Route::Moved, "moved"),
    (Route::Pinned, "pinned"),
    (Route::Balanced, "balanced"),
];

pub(super) const ENDS: [(RequestEnd, &str); 9] = [
    (RequestEnd::Complete, "complete"),
    (RequestEnd::Refused, "refused"),
    (RequestEnd::EngineError, "engine_error"),
    (RequestEnd::Cut, "cut"),
    (RequestEnd::Lost, "lost"),
    (RequestEnd::ClientGone, "client_gone"),
    (RequestEnd::Timeout, "timeout"),
    (RequestEnd::Shutdown, "shutdown"),
    (RequestEnd::Internal, "internal"),
];

pub(super) const MARKS: [(MarkKind, &str); 3] = [
    (MarkKind::WardenStarted, "warden_started"),
    (MarkKind::EngineStarted, "engine_started"),
    (MarkKind::SettingChanged, "setting_changed"),
];

/// The word for a value.
pub(super) fn word<T: PartialEq>(words: &[(T, &'static str)], value: &T) -> Option<&'static str> {
    let found = words.iter().find(|(one, _)| one == value);
    found.map(|(_, word)| *word)
}

/// The value of a word; `None` for one of a later version.
pub(super) fn value<T: Copy>(words: &[(T, &str)], word: &str) -> Option<T> {
    let found = words.iter().find(|(_, one)| *one == word);
    found.map(|(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_the_apis() {
        let json = |value| serde_json::to_value(value).unwrap();
        for (route, word) in ROUTES {
            assert_eq!(json(serde_json::to_value(route).unwrap()), word);
        }
        for (end, word) in ENDS {
            assert_eq!(json(serde_json::to_value(end).unwrap()), word);
        }
        for (kind, word) in MARKS {
            assert_eq!(json(serde_json::to_value(kind).unwrap()), word);
        }
    }
}
