//! The session id that Claude Code puts inside `metadata.user_id`.

use std::borrow::Cow;

use serde::Deserialize;

/// The session id inside a Claude Code `metadata.user_id`: the `session_id` of a JSON string (2.1),
/// or what follows `_session_` (2.0). Any other form names none: it is a user, whose conversations
/// would all pile up on one replica.
pub fn metadata_session(user_id: &str) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct UserId<'a> {
        #[serde(borrow)]
        session_id: Cow<'a, str>,
    }

    let session = if user_id.trim_start().starts_with('{') {
        serde_json::from_str::<UserId<'_>>(user_id).ok()?.session_id
    } else {
        let (_, session) = user_id.rsplit_once("_session_")?;
        Cow::Borrowed(session)
    };
    (!session.trim().is_empty()).then_some(session)
}
