//! The pass over the top level of a body.
//!
//! Ids count at exactly their paths from the root; the same words inside a prompt are text.

use std::{borrow::Cow, ops::Range};

use super::{
    BodyError, BodyFacts, Digests, MODEL_BYTES_MAX,
    bookmark::Boundary,
    chain::{PromptChain, Trail},
    cursor::{Cursor, Open},
    digest, metadata_session,
    parts::{Head, Turns},
    prompt::{Reader, Stable},
};
use crate::Dialect;

/// Longest raw form of an id that is looked at, in bytes. Ids that count are at most 256 bytes,
/// but `metadata.user_id` wraps one in JSON.
const ID_BYTES_MAX: usize = 4096;

/// A known key is written in at most this many bytes, each of its characters as `\u0000`.
const KEY_BYTES_MAX: usize = 6 * "max_completion_tokens".len();

type Result<T> = std::result::Result<T, BodyError>;

/// What the pass has found so far; a key that comes again replaces what it gave before.
#[derive(Debug, Clone, Default)]
pub(super) struct Found<'a> {
    model: Option<(Cow<'a, str>, Range<usize>)>,
    stream: bool,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    metadata_session: Option<Cow<'a, str>>,
    prompt_cache_key: Option<Cow<'a, str>>,
    cache_salt: Option<Cow<'a, str>>,
    tools: Head,
    system: Head,
    turns: Turns,
}

/// The facts, and the last boundary at which the scan of the next turn may go on. `resumed` is one of
/// an earlier body that begins with the same bytes.
pub(super) fn scan(
    dialect: Dialect,
    digests: Digests,
    body: &[u8],
    resumed: Option<Boundary>,
) -> Result<(BodyFacts<'_>, Option<Boundary>)> {
    let mut cursor = Cursor::new(body)?;
    let mut scan = Scan {
        dialect,
        digests,
        found: Found::default(),
        boundary: None,
    };
    let mut object = match resumed {
        Some(boundary) => scan.resume(boundary, &mut cursor)?,
        None => outermost(&mut cursor)?,
    };
    while let Some(key) = cursor.member(&mut object)? {
        let key = key.decode(KEY_BYTES_MAX).unwrap_or_default();
        scan.member(&key, &mut cursor)?;
    }
    cursor.end()?;
    let facts = scan.found.facts(dialect, digests)?;
    Ok((facts, scan.boundary))
}

fn outermost(cursor: &mut Cursor<'_>) -> Result<Open> {
    if cursor.peek()? == b'{' {
        return cursor.open();
    }
    cursor.skip()?;
    cursor.end()?;
    Err(BodyError::NotAnObject)
}

/// One pass over a body.
struct Scan<'a> {
    dialect: Dialect,
    digests: Digests,
    found: Found<'a>,
    boundary: Option<Boundary>,
}

impl<'a> Scan<'a> {
    /// Goes on in the list of messages; what stays open is the outermost object.
    fn resume(&mut self, boundary: Boundary, cursor: &mut Cursor<'a>) -> Result<Open> {
        let Boundary {
            offset,
            list: key,
            found,
        } = boundary;
        self.found = found;
        let turns = std::mem::take(&mut self.found.turns);
        let [object, list] = cursor.go_into_list(offset, turns.all.parts == 0);
        let read = Reader::new(cursor, self.digests).turns_on(key, turns, list)?;
        self.turns(key, read);
        Ok(object)
    }

    fn turns(&mut self, key: &'static str, (turns, stable): (Turns, Option<Stable>)) {
        self.boundary = stable.and_then(|(offset, turns)| {
            let found = self.found.to_owned_with(turns, ID_BYTES_MAX)?;
            Some(Boundary {
                offset,
                list: key,
                found,
            })
        });
        self.found.turns = turns;
    }

    /// Reads one top-level member's value.
    fn member(&mut self, key: &str, cursor: &mut Cursor<'a>) -> Result<()> {
        use Dialect::{ChatCompletions, Completions, Messages, Other, Responses};
        let (found, digests) = (&mut self.found, self.digests);
        match (key, self.dialect) {
            ("model", _) => found.model = model(cursor)?,
            ("stream", _) => found.stream = boolean(cursor, "stream")?,
            ("max_tokens", Messages | ChatCompletions | Completions)
            | ("max_output_tokens", Responses) => found.max_tokens = count(cursor)?,
            ("max_completion_tokens", ChatCompletions) => {
                found.max_completion_tokens = count(cursor)?;
            }
            ("metadata", _) => found.metadata_session = session_of_metadata(cursor)?,
            ("prompt_cache_key", _) => found.prompt_cache_key = id(cursor)?,
            ("cache_salt", _) => {
                let range = cursor.skip()?;
                let salt = Some(cursor.slice(&range)).filter(|salt| *salt != "null");
                found.cache_salt = salt.map(Cow::Borrowed);
            }
            ("tools", Messages | ChatCompletions | Responses) => {
                found.tools = Reader::new(cursor, digests).tools()?;
            }
            ("system", Messages) | ("instructions", Responses) => {
                found.system = Reader::new(cursor, digests).system()?;
            }
            ("messages", Messages | ChatCompletions) => {
                let read = Reader::new(cursor, digests).turns("messages")?;
                self.turns("messages", read);
            }
            ("input", Responses) if cursor.peek()? != b'"' => {
                let read = Reader::new(cursor, digests).turns("input")?;
                self.turns("input", read);
            }
            ("input", Responses)
            | ("prompt", Completions)
            | ("prompt" | "messages" | "input", Other) => {
                found.turns = Reader::new(cursor, digests).plain()?;
                self.boundary = None;
            }
            _ => {
                cursor.skip()?;
            }
        }
        Ok(())
    }
}

impl<'a> Found<'a> {
    /// A copy that outlives the body, with these messages; `None` where a string is longer than this.
    fn to_owned_with(&self, turns: Turns, bytes_max: usize) -> Option<Found<'static>> {
        let own = |text: &Option<Cow<'a, str>>| match text {
            Some(text) if text.len() > bytes_max => None,
            text => Some(text.as_deref().map(|text| Cow::Owned(text.to_owned()))),
        };
        let model = self.model.as_ref().map(|(name, span)| {
            let name = Cow::Owned(name.clone().into_owned());
            (name, span.clone())
        });
        Some(Found {
            model,
            stream: self.stream,
            max_tokens: self.max_tokens,
            max_completion_tokens: self.max_completion_tokens,
            metadata_session: own(&self.metadata_session)?,
            prompt_cache_key: own(&self.prompt_cache_key)?,
            cache_salt: own(&self.cache_salt)?,
            tools: self.tools.clone(),
            system: self.system.clone(),
            turns,
        })
    }

    /// Memory held besides itself, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let model = self.model.as_ref().map(|(name, _)| name);
        let strings = [
            model,
            self.metadata_session.as_ref(),
            self.prompt_cache_key.as_ref(),
            self.cache_salt.as_ref(),
        ];
        let strings: usize = strings.iter().flatten().map(|text| text.len()).sum();
        let trails = [&self.tools.trail, &self.system.trail].into_iter();
        let trails = trails.chain(&self.turns.trail).map(Trail::memory_bytes);
        strings + trails.sum::<usize>()
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
