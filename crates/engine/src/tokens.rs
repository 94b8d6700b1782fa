//! Text to tokens and back: four bytes of text make one token, counted from the start of each part.
//!
//! Each part of a prompt (a message's text, a tool's schema) is cut from its own start, so a reply
//! that a client sends back in its next request has the tokens it was generated with, and equal
//! prefixes give equal blocks, as with a real tokenizer. A token's id *is* its bytes, which makes
//! the way back exact and needs no vocabulary.

/// Bytes of text per token.
pub(crate) const BYTES_PER_TOKEN: usize = 4;

/// Opens a message. The special ids hold bytes that never occur in UTF-8.
pub(crate) const MESSAGE_START: u32 = 0xFFFF_FF01;
/// Closes a message; as the last generated token it is the stop token.
pub(crate) const MESSAGE_END: u32 = 0xFFFF_FF02;
/// One piece of an image.
pub(crate) const IMAGE: u32 = 0xFFFF_FF03;

/// Appends the tokens of one part.
pub(crate) fn push_text(tokens: &mut Vec<u32>, text: &str) {
    tokens.extend(text.as_bytes().chunks(BYTES_PER_TOKEN).map(token_of));
}

/// The id of one piece of at most [`BYTES_PER_TOKEN`] bytes.
fn token_of(piece: &[u8]) -> u32 {
    let mut bytes = [0; BYTES_PER_TOKEN];
    bytes[..piece.len()].copy_from_slice(piece);
    u32::from_le_bytes(bytes)
}

/// The text of tokens; special tokens show as vLLM's chat markers do.
pub(crate) fn text_of(tokens: &[u32]) -> String {
    let mut bytes = Vec::with_capacity(tokens.len() * BYTES_PER_TOKEN);
    for &token in tokens {
        match token {
            MESSAGE_START => bytes.extend_from_slice(b"<|im_start|>"),
            MESSAGE_END => bytes.extend_from_slice(b"<|im_end|>"),
            IMAGE => bytes.extend_from_slice(b"<|image_pad|>"),
            _ => bytes.extend(token.to_le_bytes().into_iter().filter(|&byte| byte != 0)),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What a stream shows for each token of `text`: its piece, moved to whole characters. A token
/// that ends inside a character shows nothing of it; the next one does.
pub(crate) fn visible_pieces(text: &str) -> impl Iterator<Item = &str> {
    let count = text.len().div_ceil(BYTES_PER_TOKEN);
    let floor = |index: usize| {
        let mut end = (index * BYTES_PER_TOKEN).min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        end
    };
    (0..count).map(move |index| &text[floor(index)..floor(index + 1)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_the_way_there_and_back() {
        for text in ["", "a", "abcd", "abcde", "grüße, 世界 👋"] {
            let mut tokens = Vec::new();
            push_text(&mut tokens, text);
            assert_eq!(tokens.len(), text.len().div_ceil(4));
            assert_eq!(text_of(&tokens), text);
            let pieces: Vec<_> = visible_pieces(text).collect();
            assert_eq!(pieces.len(), tokens.len());
            assert_eq!(pieces.concat(), text);
        }
    }

    #[test]
    fn parts_are_cut_from_their_own_start() {
        let mut one = Vec::new();
        push_text(&mut one, "abcdef");
        push_text(&mut one, "ghij");
        let mut other = Vec::new();
        push_text(&mut other, "ghij");
        assert_eq!(one[2..], other[..]);
    }
}
