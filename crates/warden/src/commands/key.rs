//! What `lm-warden key` reads and prints: dates, and keys as a table or as JSON.

use jiff::{
    SignedDuration, Timestamp,
    civil::{Date, Time},
    tz::Offset,
};
use serde::Serialize;

use super::table;
use crate::keys::{Key, Limits, Secret};

/// From when on a key is not taken any more, in epoch seconds: the end of a day in UTC, or a
/// moment.
pub fn expiry(text: &str) -> Result<i64, String> {
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment.as_second());
    }
    text.parse::<Date>()
        .and_then(Date::tomorrow)
        .and_then(|next| Offset::UTC.to_timestamp(next.to_datetime(Time::midnight())))
        .map(Timestamp::as_second)
        .map_err(|_| {
            "must be a day such as 2027-03-31 or a moment such as 2027-03-31T12:00:00Z".to_owned()
        })
}

/// A key as JSON.
#[derive(Serialize)]
struct Shown<'a> {
    name: &'a str,
    id: String,
    role: api::KeyRole,
    created: i64,
    expires: Option<i64>,
    expired: bool,
    limits: Limits,
    /// Only once.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
}

fn shown<'a>(key: &'a Key, secret: Option<&'a Secret>) -> Shown<'a> {
    Shown {
        name: &key.name,
        id: key.id.to_string(),
        role: key.role,
        created: key.created_s,
        expires: key.expires_s,
        expired: key.has_expired(now_s()),
        limits: key.limits,
        key: secret.map(Secret::reveal),
    }
}

/// A new key, with its secret.
pub fn added_json(key: &Key, secret: &Secret) -> String {
    json(&shown(key, Some(secret)))
}

/// All keys.
pub fn list_json(keys: &[Key]) -> String {
    #[derive(Serialize)]
    struct List<'a> {
        keys: Vec<Shown<'a>>,
    }
    let keys = keys.iter().map(|key| shown(key, None)).collect();
    json(&List { keys })
}

/// What was revoked.
pub fn revoked_json(name: &str) -> String {
    #[derive(Serialize)]
    struct Revoked<'a> {
        revoked: &'a str,
    }
    json(&Revoked { revoked: name })
}

fn json(value: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(value);
    text.expect("keys are plain JSON") + "\n"
}

/// All keys as a table.
pub fn list(keys: &[Key]) -> String {
    if keys.is_empty() {
        return "There are no keys. Make one: lm-warden key add --name NAME [--admin]\n".to_owned();
    }
    let headings = [
        "name", "role", "created", "expires", "req/min", "at once", "tok/min",
    ];
    let rows: Vec<_> = keys.iter().map(row).collect();
    let mut out = String::new();
    table(&headings, &rows, &mut out);
    out
}

fn row(key: &Key) -> [String; 7] {
    let limit =
        |limit: Option<u32>| limit.map_or_else(|| "–".to_owned(), |limit| limit.to_string());
    let expires = key.expires_s.map_or_else(
        || "never".to_owned(),
        |expires_s| {
            let day = moment(expires_s);
            if key.has_expired(now_s()) {
                format!("{day} (expired)")
            } else {
                day
            }
        },
    );
    let role = match key.role {
        api::KeyRole::Client => "client",
        api::KeyRole::Admin => "admin",
    };
    [
        key.name.clone(),
        role.to_owned(),
        moment(key.created_s),
        expires,
        limit(key.limits.requests_per_min),
        limit(key.limits.concurrent_requests),
        limit(key.limits.tokens_per_min),
    ]
}

/// In UTC, to the minute.
fn moment(epoch_s: i64) -> String {
    let time = Timestamp::UNIX_EPOCH.checked_add(SignedDuration::from_secs(epoch_s));
    time.map_or_else(
        |_| "–".to_owned(),
        |time| time.strftime("%Y-%m-%d %H:%MZ").to_string(),
    )
}

fn now_s() -> i64 {
    crate::clock::epoch_s(crate::clock::now()) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_lasts_to_the_end_of_its_last_day() {
        assert_eq!(expiry("2027-03-31"), Ok(1_806_537_600));
        assert_eq!(moment(1_806_537_600), "2027-04-01 00:00Z");
        assert_eq!(expiry("2027-03-31T12:00:00Z"), Ok(1_806_494_400));
        assert_eq!(expiry("2027-03-31T12:00:00+02:00"), Ok(1_806_487_200));
        for wrong in ["", "tomorrow", "31.3.2027", "2027-02-30"] {
            assert!(expiry(wrong).unwrap_err().contains("2027-03-31"), "{wrong}");
        }
    }
}
