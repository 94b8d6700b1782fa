//! Digests and sizes of the prompt's parts: tools, system blocks, messages.
//!
//! Two forms that make the same prompt get the same digest: content as a string or as a list of one
//! text block, members in any order, `cache_control` or a null member present or not. The block
//! that older Claude Code versions put first (`x-anthropic-billing-header: …`, another one on
//! every request) is left out, as vLLM leaves it out. Every part ends in [`Section::part`]; what
//! wants each part's digest and size (a prefix chain) hooks in there.

use super::{BodyError, cursor::Cursor, digest, text::Text};

type Result<T> = std::result::Result<T, BodyError>;

/// Digest and size of some piece of the prompt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    digest: u64,
    bytes: u64,
}

/// A run of parts in prompt order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Section {
    /// Chain over the parts' digests.
    pub digest: u64,
    /// Prompt text in bytes.
    pub bytes: u64,
    /// How many parts.
    pub parts: u32,
}

impl Default for Section {
    fn default() -> Self {
        Self {
            digest: digest::START,
            bytes: 0,
            parts: 0,
        }
    }
}

impl Section {
    /// Appends a part.
    fn part(&mut self, piece: Piece) {
        self.digest = digest::chain(self.digest, piece.digest);
        self.bytes += piece.bytes;
        self.parts = self.parts.saturating_add(1);
    }
}

/// The messages (or input items) of a prompt.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Turns {
    /// All of them.
    pub all: Section,
    /// Of these, the system messages at the front.
    pub front: Section,
    /// The chain through the first one of the assistant's.
    pub through_first_assistant: Option<u64>,
}

/// Who a message is from, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Author {
    /// Roles `system` and `developer`.
    System,
    /// Role `assistant`, and the output items of the Responses API.
    Assistant,
    Other,
}

/// The value of `tools`.
pub(super) fn tools(cursor: &mut Cursor<'_>) -> Result<Section> {
    let mut section = Section::default();
    if cursor.peek()? != b'[' {
        if !cursor.null()? {
            section.part(opaque(cursor)?);
        }
        return Ok(section);
    }
    let mut list = cursor.open()?;
    while cursor.element(&mut list)? {
        section.part(tool(cursor)?);
    }
    Ok(section)
}

/// The value of `system` or `instructions`.
pub(super) fn system(cursor: &mut Cursor<'_>) -> Result<Section> {
    content(cursor, true).map(Option::unwrap_or_default)
}

/// The value of `messages` or `input`, a list of `key`'s.
pub(super) fn turns(cursor: &mut Cursor<'_>, key: &'static str) -> Result<Turns> {
    let wrong = BodyError::WrongType {
        key,
        expected: "an array of objects",
    };
    let mut turns = Turns::default();
    if cursor.null()? {
        return Ok(turns);
    }
    if cursor.peek()? != b'[' {
        return Err(wrong);
    }
    let mut list = cursor.open()?;
    while cursor.element(&mut list)? {
        if cursor.peek()? != b'{' {
            return Err(wrong);
        }
        let (author, piece) = message(cursor)?;
        turns.all.part(piece);
        if author == Author::System && turns.front.parts + 1 == turns.all.parts {
            turns.front.part(piece);
        }
        if author == Author::Assistant && turns.through_first_assistant.is_none() {
            turns.through_first_assistant = Some(turns.all.digest);
        }
    }
    Ok(turns)
}

/// A prompt that is no list of messages: a string, or what only the engine understands (token ids).
pub(super) fn plain(cursor: &mut Cursor<'_>) -> Result<Turns> {
    let mut turns = Turns::default();
    if cursor.peek()? == b'"' {
        turns.all.part(text(&cursor.string()?));
    } else if !cursor.null()? {
        turns.all.part(opaque(cursor)?);
    }
    Ok(turns)
}

fn tool(cursor: &mut Cursor<'_>) -> Result<Piece> {
    if cursor.peek()? != b'{' {
        return opaque(cursor);
    }
    let mut piece = Piece {
        digest: 0,
        bytes: 0,
    };
    let mut object = cursor.open()?;
    while let Some(key) = cursor.member(&mut object)? {
        let value = opaque(cursor)?;
        if key.raw != "cache_control" {
            piece.digest = piece
                .digest
                .wrapping_add(digest::member(key.raw, value.digest));
            piece.bytes += key.raw.len() as u64 + value.bytes;
        }
    }
    Ok(piece)
}

fn message(cursor: &mut Cursor<'_>) -> Result<(Author, Piece)> {
    let mut author = Author::Other;
    let mut piece = Piece {
        digest: 0,
        bytes: 0,
    };
    let mut object = cursor.open()?;
    while let Some(key) = cursor.member(&mut object)? {
        let is_string = cursor.peek()? == b'"';
        let value = match key.raw {
            "role" | "type" if is_string => {
                let word = cursor.string()?;
                author = author_of(key.raw, word.raw).unwrap_or(author);
                Some(Piece {
                    digest: digest::of(word.raw),
                    bytes: 0,
                })
            }
            // Codex gives equal messages another id in every session.
            "id" => {
                cursor.skip()?;
                None
            }
            _ => member(cursor, &key)?,
        };
        if let Some(value) = value {
            piece.digest = piece
                .digest
                .wrapping_add(digest::member(key.raw, value.digest));
            piece.bytes += value.bytes;
        }
    }
    Ok((author, piece))
}

/// What a message's `role`, or an item's `type`, tells of its author.
fn author_of(key: &str, value: &str) -> Option<Author> {
    match (key, value) {
        ("role", "system" | "developer") => Some(Author::System),
        ("role", "assistant") => Some(Author::Assistant),
        // `function_call`, `custom_tool_call`, `web_search_call`, …
        ("type", _) if value == "reasoning" || value.ends_with("_call") => Some(Author::Assistant),
        _ => None,
    }
}

/// The value of one member of a message or block; `None` where it does not belong to the prompt.
fn member(cursor: &mut Cursor<'_>, key: &Text<'_>) -> Result<Option<Piece>> {
    if cursor.null()? {
        return Ok(None);
    }
    Ok(match key.raw {
        "content" => content(cursor, false)?.map(|section| Piece {
            digest: section.digest,
            bytes: section.bytes,
        }),
        "cache_control" => {
            cursor.skip()?;
            None
        }
        _ => {
            let value = opaque(cursor)?;
            let bytes = if is_prompt_text(key.raw) {
                value.bytes
            } else {
                0
            };
            Some(Piece { bytes, ..value })
        }
    })
}

/// Whether a member's value becomes prompt text: not what links and signs items, nor image data,
/// whose length in base64 says nothing about its tokens.
fn is_prompt_text(key: &str) -> bool {
    !matches!(
        key,
        "id" | "type"
            | "role"
            | "status"
            | "call_id"
            | "tool_use_id"
            | "tool_call_id"
            | "signature"
            | "encrypted_content"
            | "source"
            | "image_url"
            | "input_audio"
            | "file"
            | "file_data"
    )
}

/// The content of a message or of a tool's result; `None` for null.
fn content(cursor: &mut Cursor<'_>, is_system: bool) -> Result<Option<Section>> {
    let mut section = Section::default();
    match cursor.peek()? {
        b'"' => {
            let string = cursor.string()?;
            if !(is_system && is_billing(&string)) {
                section.part(text(&string));
            }
        }
        b'[' => {
            let mut list = cursor.open()?;
            while cursor.element(&mut list)? {
                if let Some(piece) = block(cursor, is_system)? {
                    section.part(piece);
                }
            }
        }
        b'n' => {
            cursor.null()?;
            return Ok(None);
        }
        _ => section.part(opaque(cursor)?),
    }
    Ok(Some(section))
}

/// One content block; `None` for the billing block among the system's.
fn block(cursor: &mut Cursor<'_>, is_system: bool) -> Result<Option<Piece>> {
    match cursor.peek()? {
        b'{' => {}
        b'"' => return Ok(Some(text(&cursor.string()?))),
        _ => return opaque(cursor).map(Some),
    }
    let mut piece = Piece {
        digest: 0,
        bytes: 0,
    };
    let mut only_text = None;
    let mut is_plain = true;
    let mut object = cursor.open()?;
    while let Some(key) = cursor.member(&mut object)? {
        let is_string = cursor.peek()? == b'"';
        let value = match key.raw {
            "text" if is_string => {
                let string = cursor.string()?;
                if is_system && is_billing(&string) {
                    while cursor.member(&mut object)?.is_some() {
                        cursor.skip()?;
                    }
                    return Ok(None);
                }
                *only_text.insert(text(&string))
            }
            "type" if is_string => {
                let kind = cursor.string()?.raw;
                is_plain &= matches!(kind, "text" | "input_text" | "output_text");
                Piece {
                    digest: digest::of(kind),
                    bytes: 0,
                }
            }
            _ => {
                let Some(value) = member(cursor, &key)? else {
                    continue;
                };
                is_plain = false;
                value
            }
        };
        piece.digest = piece
            .digest
            .wrapping_add(digest::member(key.raw, value.digest));
        piece.bytes += value.bytes;
    }
    Ok(Some(only_text.filter(|_| is_plain).unwrap_or(piece)))
}

fn is_billing(text: &Text<'_>) -> bool {
    text.raw.starts_with("x-anthropic-billing-header:")
}

fn text(text: &Text<'_>) -> Piece {
    Piece {
        digest: digest::of(text.raw),
        bytes: text.decoded_len(),
    }
}

/// A value whose inside does not matter.
fn opaque(cursor: &mut Cursor<'_>) -> Result<Piece> {
    if cursor.peek()? == b'"' {
        return cursor.string().map(|string| text(&string));
    }
    let range = cursor.skip()?;
    Ok(Piece {
        digest: digest::of(cursor.slice(&range)),
        bytes: range.len() as u64,
    })
}
