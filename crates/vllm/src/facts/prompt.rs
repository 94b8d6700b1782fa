//! Digests and sizes of the prompt's parts: tools, system blocks, messages.
//!
//! Two forms that make the same prompt get the same digest: content as a string or as a list of one
//! text block, members in any order, `cache_control` or a null member present or not. The block
//! that older Claude Code versions put first (`x-anthropic-billing-header: …`, another one on
//! every request) is left out, as vLLM leaves it out, and kept by itself.

use super::{
    BodyError, Bookmark, Digests,
    chain::{PromptSection, Trail},
    cursor::{Cursor, Open},
    digest,
    parts::{Head, Piece, Section, Turns},
    text::Text,
};

type Result<T> = std::result::Result<T, BodyError>;

/// Who a message is from, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Author {
    /// Roles `system` and `developer`.
    System,
    /// Role `assistant`, and the output items of the Responses API.
    Assistant,
    Other,
}

/// Reads one top-level part of the prompt.
#[derive(Debug)]
pub(super) struct Reader<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
    digests: Digests,
    /// Whether the digest of what comes is wanted.
    hashing: bool,
    billing: Option<u64>,
    /// Whether the message being read has a `cache_control`.
    is_marked: bool,
}

/// The messages up to a boundary that the next turn leaves as it is, and where that is.
pub(super) type Stable = (usize, Turns);

impl<'c, 'a> Reader<'c, 'a> {
    /// A reader of the value that comes next.
    pub(super) fn new(cursor: &'c mut Cursor<'a>, digests: Digests) -> Self {
        Self {
            cursor,
            digests,
            hashing: true,
            billing: None,
            is_marked: false,
        }
    }

    /// The value of `tools`.
    pub(super) fn tools(&mut self) -> Result<Head> {
        let mut head = Head::default();
        if self.cursor.peek()? != b'[' {
            if !self.cursor.null()? {
                let piece = self.opaque()?;
                self.head_part(PromptSection::Tools, &mut head, piece);
            }
            return Ok(head);
        }
        let mut list = self.cursor.open()?;
        while self.cursor.element(&mut list)? {
            let piece = self.tool()?;
            self.head_part(PromptSection::Tools, &mut head, piece);
        }
        Ok(head)
    }

    /// The value of `system` or `instructions`.
    pub(super) fn system(&mut self) -> Result<Head> {
        let mut head = Head::default();
        self.content(true, |reader, piece| {
            reader.head_part(PromptSection::System, &mut head, piece);
        })?;
        head.billing = self.billing;
        Ok(head)
    }

    fn head_part(&self, section: PromptSection, head: &mut Head, piece: Piece) {
        head.all.part(piece);
        if self.digests == Digests::Prompt {
            head.trail.mark(section, head.all.digest, head.all.bytes);
        }
    }

    /// The value of `messages` or `input`, a list of `key`'s.
    pub(super) fn turns(&mut self, key: &'static str) -> Result<(Turns, Option<Stable>)> {
        let mut turns = Turns::default();
        if self.cursor.null()? {
            return Ok((turns, None));
        }
        if self.cursor.peek()? != b'[' {
            return Err(no_messages(key));
        }
        turns.trail = (self.digests == Digests::Prompt).then(Trail::default);
        let list = self.cursor.open()?;
        self.turns_on(key, turns, list)
    }

    /// The rest of the list, after the messages that `turns` has.
    pub(super) fn turns_on(
        &mut self,
        key: &'static str,
        mut turns: Turns,
        mut list: Open,
    ) -> Result<(Turns, Option<Stable>)> {
        let mut stable = None;
        loop {
            let end = self.cursor.offset();
            if !self.cursor.element(&mut list)? {
                let stable = stable.or_else(|| self.stable(end, &turns));
                return Ok((turns, stable));
            }
            if self.cursor.peek()? != b'{' {
                return Err(no_messages(key));
            }
            self.is_marked = false;
            let (author, piece) = self.message()?;
            if self.is_marked && stable.is_none() {
                stable = self.stable(end, &turns);
            }
            turns.all.part(piece);
            if let Some(trail) = &mut turns.trail {
                trail.mark(PromptSection::Messages, turns.all.digest, turns.all.bytes);
            }
            if author == Author::System && turns.front.parts + 1 == turns.all.parts {
                turns.front.part(piece);
            }
            if author == Author::Assistant && turns.through_first_assistant.is_none() {
                turns.through_first_assistant = Some(turns.all.digest);
                self.hashing = self.digests == Digests::Prompt;
            }
        }
    }

    /// What a scan of the next turn needs to go on here.
    fn stable(&self, offset: usize, turns: &Turns) -> Option<Stable> {
        let is_wanted = self.digests == Digests::Prompt && offset >= Bookmark::BYTES_MIN;
        is_wanted.then(|| (offset, turns.clone()))
    }

    /// A prompt that is no list of messages: a string, or what only the engine understands (token ids).
    pub(super) fn plain(&mut self) -> Result<Turns> {
        // Such a prompt has neither lineage nor turns.
        self.hashing = self.digests == Digests::Prompt;
        let mut turns = Turns::default();
        if self.cursor.peek()? == b'"' {
            let string = self.cursor.string()?;
            turns.all.part(self.text(&string));
        } else if !self.cursor.null()? {
            turns.all.part(self.opaque()?);
        }
        Ok(turns)
    }

    fn tool(&mut self) -> Result<Piece> {
        if self.cursor.peek()? != b'{' {
            return self.opaque();
        }
        let mut piece = Piece::default();
        let mut object = self.cursor.open()?;
        while let Some(key) = self.cursor.member(&mut object)? {
            let value = self.opaque()?;
            if key.raw != "cache_control" {
                self.add(&mut piece, &key, value);
                piece.bytes += key.raw.len() as u64;
            }
        }
        Ok(piece)
    }

    fn message(&mut self) -> Result<(Author, Piece)> {
        let mut author = Author::Other;
        let mut piece = Piece::default();
        let mut object = self.cursor.open()?;
        while let Some(key) = self.cursor.member(&mut object)? {
            let is_string = self.cursor.peek()? == b'"';
            let value = match key.raw {
                "role" | "type" if is_string => {
                    let word = self.cursor.string()?;
                    author = author_of(key.raw, word.raw).unwrap_or(author);
                    Some(Piece {
                        digest: self.digest(word.raw),
                        bytes: 0,
                    })
                }
                // Codex gives equal messages another id in every session.
                "id" => {
                    self.cursor.skip()?;
                    None
                }
                _ => self.member(&key)?,
            };
            if let Some(value) = value {
                self.add(&mut piece, &key, value);
            }
        }
        Ok((author, piece))
    }

    /// The value of one member of a message or block; `None` where it does not belong to the prompt.
    fn member(&mut self, key: &Text<'_>) -> Result<Option<Piece>> {
        if self.cursor.null()? {
            return Ok(None);
        }
        Ok(match key.raw {
            "content" => {
                let mut section = Section::default();
                let is_some = self.content(false, |_, piece| section.part(piece))?;
                is_some.then_some(Piece {
                    digest: section.digest,
                    bytes: section.bytes,
                })
            }
            "cache_control" => {
                self.is_marked = true;
                self.cursor.skip()?;
                None
            }
            _ => {
                let value = self.opaque()?;
                let bytes = if is_prompt_text(key.raw) {
                    value.bytes
                } else {
                    0
                };
                Some(Piece { bytes, ..value })
            }
        })
    }

    /// The content of a message, of a tool's result or of the system prompt, part by part; false
    /// for null.
    fn content(&mut self, is_system: bool, mut part: impl FnMut(&Self, Piece)) -> Result<bool> {
        match self.cursor.peek()? {
            b'"' => {
                let string = self.cursor.string()?;
                if is_system && is_billing(&string) {
                    self.billing = Some(self.digest(string.raw));
                } else {
                    part(self, self.text(&string));
                }
            }
            b'[' => {
                let mut list = self.cursor.open()?;
                while self.cursor.element(&mut list)? {
                    if let Some(piece) = self.block(is_system)? {
                        part(self, piece);
                    }
                }
            }
            b'n' => {
                self.cursor.null()?;
                return Ok(false);
            }
            _ => {
                let piece = self.opaque()?;
                part(self, piece);
            }
        }
        Ok(true)
    }

    /// One content block; `None` for the billing block among the system's.
    fn block(&mut self, is_system: bool) -> Result<Option<Piece>> {
        match self.cursor.peek()? {
            b'{' => {}
            b'"' => {
                let string = self.cursor.string()?;
                return Ok(Some(self.text(&string)));
            }
            _ => return self.opaque().map(Some),
        }
        let mut piece = Piece::default();
        let mut only_text = None;
        let mut is_plain = true;
        let mut object = self.cursor.open()?;
        while let Some(key) = self.cursor.member(&mut object)? {
            let is_string = self.cursor.peek()? == b'"';
            let value = match key.raw {
                "text" if is_string => {
                    let string = self.cursor.string()?;
                    if is_system && is_billing(&string) {
                        self.billing = Some(self.digest(string.raw));
                        while self.cursor.member(&mut object)?.is_some() {
                            self.cursor.skip()?;
                        }
                        return Ok(None);
                    }
                    *only_text.insert(self.text(&string))
                }
                "type" if is_string => {
                    let kind = self.cursor.string()?.raw;
                    is_plain &= matches!(kind, "text" | "input_text" | "output_text");
                    Piece {
                        digest: self.digest(kind),
                        bytes: 0,
                    }
                }
                _ => {
                    let Some(value) = self.member(&key)? else {
                        continue;
                    };
                    is_plain = false;
                    value
                }
            };
            self.add(&mut piece, &key, value);
        }
        Ok(Some(only_text.filter(|_| is_plain).unwrap_or(piece)))
    }

    fn text(&self, text: &Text<'_>) -> Piece {
        Piece {
            digest: self.digest(text.raw),
            bytes: text.decoded_len(),
        }
    }

    /// A value whose inside does not matter.
    fn opaque(&mut self) -> Result<Piece> {
        if self.cursor.peek()? == b'"' {
            let string = self.cursor.string()?;
            return Ok(self.text(&string));
        }
        let range = self.cursor.skip()?;
        Ok(Piece {
            digest: self.digest(self.cursor.slice(&range)),
            bytes: range.len() as u64,
        })
    }

    /// Adds an object's member to it.
    fn add(&self, object: &mut Piece, key: &Text<'_>, value: Piece) {
        if self.hashing {
            let member = digest::member(key.raw, value.digest);
            object.digest = object.digest.wrapping_add(member);
        }
        object.bytes += value.bytes;
    }

    fn digest(&self, text: &str) -> u64 {
        if self.hashing { digest::of(text) } else { 0 }
    }
}

fn no_messages(key: &'static str) -> BodyError {
    BodyError::WrongType {
        key,
        expected: "an array of objects",
    }
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

fn is_billing(text: &Text<'_>) -> bool {
    text.raw.starts_with("x-anthropic-billing-header:")
}
