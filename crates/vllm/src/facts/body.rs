//! The pass over the top level of a body.
//!
//! Ids count at exactly their paths from the root; the same words inside a prompt are text.

use std::{borrow::Cow, ops::Range};

use super::{
    BodyError, BodyFacts, Digests, MODEL_BYTES_MAX,
    chain::PromptChain,
    cursor::Cursor,
    digest, metadata_session,
    prompt::{Head, Reader, Turns},
};
use crate::Dialect;

/// Longest raw form of an id that is looked at, in bytes. Ids that count are at most 256 bytes,
/// but `metadata.user_id` wraps one in JSON.
const ID_BYTES_MAX: usize = 4096;

/// A known key is written in at most this many bytes, each of its characters as `\u0000`.
const KEY_BYTES_MAX: usize = 6 * "max_completion_tokens".len();

type Result<T> = std::result::Result<T, BodyError>;

/// What the pass has found so far; a key that comes again replaces what it gave before.
#[derive(Debug, Default)]
struct Found<'a> {
    model: Option<(Cow<'a, str>, Range<usize>)>,
    stream: bool,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    metadata_session: Option<Cow<'a, str>>,
    prompt_cache_key: Option<Cow<'a, str>>,
    cache_salt: Option<&'a str>,
    tools: Head,
    system: Head,
    turns: Turns,
}

pub(super) fn scan(dialect: Dialect, digests: Digests, body: &[u8]) -> Result<BodyFacts<'_>> {
    let mut cursor = Cursor::new(body)?;
    if cursor.peek()? != b'{' {
        cursor.skip()?;
        cursor.end()?;
        return Err(BodyError::NotAnObject);
    }
    let mut found = Found::default();
    let mut object = cursor.open()?;
    while let Some(key) = cursor.member(&mut object)? {
        let key = key.decode(KEY_BYTES_MAX).unwrap_or_default();
        found.member(dialect, digests, &key, &mut cursor)?;
    }
    cursor.end()?;
    found.facts(dialect, digests)
}

impl<'a> Found<'a> {
    /// Reads one top-level member's value.
    fn member(
        &mut self,
        dialect: Dialect,
        digests: Digests,
        key: &str,
        cursor: &mut Cursor<'a>,
    ) -> Result<()> {
        use Dialect::{ChatCompletions, Completions, Messages, Other, Responses};
        match (key, dialect) {
            ("model", _) => self.model = model(cursor)?,
            ("stream", _) => self.stream = boolean(cursor, "stream")?,
            ("max_tokens", Messages | ChatCompletions | Completions)
            | ("max_output_tokens", Responses) => self.max_tokens = count(cursor)?,
            ("max_completion_tokens", ChatCompletions) => {
                self.max_completion_tokens = count(cursor)?;
            }
            ("metadata", _) => self.metadata_session = session_of_metadata(cursor)?,
            ("prompt_cache_key", _) => self.prompt_cache_key = id(cursor)?,
            ("cache_salt", _) => {
                let range = cursor.skip()?;
                self.cache_salt = Some(cursor.slice(&range)).filter(|salt| *salt != "null");
            }
            ("tools", Messages | ChatCompletions | Responses) => {
                self.tools = Reader::new(cursor, digests).tools()?;
            }
            ("system", Messages) | ("instructions", Responses) => {
                self.system = Reader::new(cursor, digests).system()?;
            }
            ("messages", Messages | ChatCompletions) => {
                self.turns = Reader::new(cursor, digests).turns("messages")?;
            }
            ("input", Responses) => {
                self.turns = match cursor.peek()? {
                    b'"' => Reader::new(cursor, digests).plain()?,
                    _ => Reader::new(cursor, digests).turns("input")?,
                };
            }
            ("prompt", Completions) | ("prompt" | "messages" | "input", Other) => {
                self.turns = Reader::new(cursor, digests).plain()?;
            }
            _ => {
                cursor.skip()?;
            }
        }
        Ok(())
    }

    fn facts(self, dialect: Dialect, digests: Digests) -> Result<BodyFacts<'a>> {
        let (model, model_span) = self.model.ok_or(BodyError::MissingModel)?;
        let Self {
            tools,
            system,
            turns,
            ..
        } = self;
        let head = digest::chain(tools.all.digest, system.all.digest);
        let head_bytes = tools.all.bytes + system.all.bytes;
        let has_head = tools.all.parts > 0 || system.all.parts > 0 || turns.front.parts > 0;
        let is_chat = !matches!(dialect, Dialect::Completions | Dialect::Other);
        let chain = turns.trail.map(|messages| {
            let trails = [tools.trail, system.trail, messages];
            Box::new(PromptChain::new(trails, turns.front.parts, system.billing))
        });
        Ok(BodyFacts {
            model,
            model_span,
            stream: self.stream,
            max_tokens: self.max_completion_tokens.or(self.max_tokens),
            metadata_session: self.metadata_session,
            prompt_cache_key: self.prompt_cache_key,
            cache_salt: self.cache_salt,
            prompt_bytes: head_bytes + turns.all.bytes,
            shared_bytes: head_bytes + turns.front.bytes,
            lineage: if has_head {
                digest::chain(head, turns.front.digest)
            } else {
                0
            },
            first_turn_hash: turns
                .through_first_assistant
                .filter(|_| is_chat)
                .map(|through| digest::chain(head, through)),
            prompt_hash: (digests == Digests::Prompt)
                .then(|| digest::chain(head, turns.all.digest)),
            messages: turns.all.parts,
            chain,
        })
    }
}

fn model<'a>(cursor: &mut Cursor<'a>) -> Result<Option<(Cow<'a, str>, Range<usize>)>> {
    if cursor.peek()? != b'"' {
        cursor.skip()?;
        return Ok(None);
    }
    let start = cursor.offset();
    let name = cursor
        .string()?
        .decode(MODEL_BYTES_MAX)
        .ok_or(BodyError::WrongType {
            key: "model",
            expected: "a name of at most 1024 bytes",
        })?;
    Ok((!name.is_empty()).then_some((name, start..cursor.offset())))
}

fn boolean(cursor: &mut Cursor<'_>, key: &'static str) -> Result<bool> {
    let range = cursor.skip()?;
    match cursor.slice(&range) {
        "true" => Ok(true),
        "false" | "null" => Ok(false),
        _ => Err(BodyError::WrongType {
            key,
            expected: "true or false",
        }),
    }
}

/// A whole number; anything else is the engine's to judge.
fn count(cursor: &mut Cursor<'_>) -> Result<Option<u64>> {
    let range = cursor.skip()?;
    Ok(cursor.slice(&range).parse().ok())
}

fn id<'a>(cursor: &mut Cursor<'a>) -> Result<Option<Cow<'a, str>>> {
    if cursor.peek()? == b'"' {
        return Ok(cursor.string()?.decode(ID_BYTES_MAX));
    }
    cursor.skip()?;
    Ok(None)
}

fn session_of_metadata<'a>(cursor: &mut Cursor<'a>) -> Result<Option<Cow<'a, str>>> {
    if cursor.peek()? != b'{' {
        cursor.skip()?;
        return Ok(None);
    }
    let mut user_id = None;
    let mut object = cursor.open()?;
    while let Some(key) = cursor.member(&mut object)? {
        if key.decode(KEY_BYTES_MAX).as_deref() == Some("user_id") {
            user_id = id(cursor)?;
        } else {
            cursor.skip()?;
        }
    }
    Ok(match user_id {
        Some(Cow::Borrowed(user_id)) => metadata_session(user_id),
        Some(Cow::Owned(user_id)) => {
            metadata_session(&user_id).map(|session| Cow::Owned(session.into_owned()))
        }
        None => None,
    })
}
