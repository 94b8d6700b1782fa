//! The text of a session: made from a seed, told apart by it, and as long in tokens as its script
//! says.
//!
//! The words are of three letters with a space behind: one token each in every common vocabulary
//! (and in the simulated engine's), so that a script's tokens are words and no tokenizer is needed.
//! What the engine counts is what the figures use.

use serde_json::{Value, json};
use sim::{random::Random, workload::Turn};

const WORDS: [&str; 64] = [
    "act", "age", "air", "arm", "art", "ask", "bag", "bar", "bed", "big", "bit", "box", "boy",
    "bus", "buy", "car", "cat", "cup", "cut", "day", "dog", "dry", "eat", "egg", "end", "eye",
    "far", "few", "fit", "fly", "fun", "gap", "gas", "get", "hat", "hot", "ice", "job", "key",
    "kid", "law", "leg", "let", "lot", "low", "man", "map", "mix", "net", "new", "oil", "old",
    "own", "pay", "pen", "red", "run", "sea", "sky", "sun", "top", "van", "war", "way",
];

/// What the prompts of an API look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// Anthropic's `/v1/messages`.
    Messages,
    /// `OpenAI`'s `/v1/chat/completions`.
    Chat,
}

/// So many words, which are as many tokens. The last one ends in a full stop.
pub(super) fn words(random: &mut Random, tokens: u32) -> String {
    let mut text = String::with_capacity(tokens as usize * 4);
    for index in 0..tokens {
        text.push_str(WORDS[random.below(WORDS.len() as u64) as usize]);
        text.push(if index + 1 == tokens { '.' } else { ' ' });
    }
    text
}

#[derive(Debug, Clone)]
struct Message {
    is_answer: bool,
    text: String,
    tokens: u32,
}

/// A session's messages so far.
#[derive(Debug, Clone)]
pub(super) struct Transcript {
    system: String,
    shared_tokens: u32,
    messages: Vec<Message>,
    random: Random,
}

impl Transcript {
    /// A session that begins with this system prompt; its own text comes from `random`.
    pub(super) fn new(system: String, shared_tokens: u32, random: Random) -> Self {
        Self {
            system,
            shared_tokens,
            messages: Vec::new(),
            random,
        }
    }

    fn tokens(&self) -> u32 {
        self.shared_tokens + self.messages.iter().map(|m| m.tokens).sum::<u32>()
    }

    /// The user's next message; what the script does not keep of the conversation is cut off its end.
    pub(super) fn ask(&mut self, turn: &Turn) {
        self.keep(turn.kept_tokens);
        let text = words(&mut self.random, turn.new_tokens.max(1));
        let tokens = turn.new_tokens.max(1);
        match self.messages.last_mut() {
            Some(last) if !last.is_answer => {
                last.text.push_str(&text);
                last.tokens += tokens;
            }
            _ => self.messages.push(Message {
                is_answer: false,
                text,
                tokens,
            }),
        }
    }

    fn keep(&mut self, kept_tokens: u32) {
        while self.tokens() > kept_tokens {
            let excess = self.tokens() - kept_tokens;
            let Some(last) = self.messages.last_mut() else {
                return; // the shared prompt stays whole
            };
            if last.tokens <= excess {
                self.messages.pop();
                continue;
            }
            let kept = last.tokens - excess;
            let bytes = last.text.len() as u64 * u64::from(kept) / u64::from(last.tokens);
            // Whole words, so that what is kept is the same tokens as before.
            let mut end = bytes as usize / 4 * 4;
            while !last.text.is_char_boundary(end) {
                end -= 1;
            }
            last.text.truncate(end);
            last.tokens = kept;
        }
    }

    /// Takes up the model's answer. An answer of nothing but reasoning or calls has no text; the
    /// APIs refuse an empty message, so it stands as a dot.
    pub(super) fn answered(&mut self, text: String, tokens: u32) {
        let text = if text.trim().is_empty() {
            ".".to_owned()
        } else {
            text
        };
        self.messages.push(Message {
            is_answer: true,
            text,
            tokens,
        });
    }

    /// The request's body.
    pub(super) fn body(&self, api: Api, model: &str, max_tokens: u32) -> Value {
        let message = |message: &Message| {
            let role = if message.is_answer {
                "assistant"
            } else {
                "user"
            };
            json!({ "role": role, "content": message.text })
        };
        let mut messages: Vec<Value> = self.messages.iter().map(message).collect();
        let mut body = json!({ "model": model, "max_tokens": max_tokens, "stream": true });
        match api {
            Api::Messages => {
                if !self.system.is_empty() {
                    body["system"] = json!([{ "type": "text", "text": self.system }]);
                }
            }
            Api::Chat => {
                body["stream_options"] = json!({ "include_usage": true });
                if !self.system.is_empty() {
                    messages.insert(0, json!({ "role": "system", "content": self.system }));
                }
            }
        }
        body["messages"] = Value::Array(messages);
        body
    }
}

impl Api {
    pub(super) fn path(self) -> &'static str {
        match self {
            // As Claude Code asks.
            Self::Messages => "/v1/messages?beta=true",
            Self::Chat => "/v1/chat/completions",
        }
    }

    pub(super) fn dialect(self) -> vllm::Dialect {
        match self {
            Self::Messages => vllm::Dialect::Messages,
            Self::Chat => vllm::Dialect::ChatCompletions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(kept_tokens: u32, new_tokens: u32) -> Turn {
        Turn {
            kept_tokens,
            new_tokens,
            output_tokens: 8,
            stops: false,
            think_us: 0,
        }
    }

    #[test]
    fn text_follows_from_its_seed_and_has_a_token_per_word() {
        let text = words(&mut Random::new(7), 100);
        assert_eq!(text, words(&mut Random::new(7), 100));
        assert_ne!(text, words(&mut Random::new(8), 100));
        assert_eq!(text.split_whitespace().count(), 100);
        assert_eq!(text.len(), 400);
    }

    #[test]
    fn a_turn_extends_the_conversation_or_keeps_a_part_of_it() {
        let mut transcript = Transcript::new("sys.".to_owned(), 1, Random::new(1));
        transcript.ask(&turn(u32::MAX, 10));
        let first = transcript.messages[0].text.clone();
        transcript.answered("abc def ghi.".to_owned(), 3);
        transcript.ask(&turn(u32::MAX, 4));
        let body = transcript.body(Api::Messages, "demo", 256);
        assert_eq!(body["messages"].as_array().unwrap().len(), 3);
        assert_eq!(body["messages"][0]["content"], first);
        assert_eq!(body["messages"][1]["content"], "abc def ghi.");
        assert_eq!(body["system"][0]["text"], "sys.");

        transcript.ask(&turn(6, 2));
        let body = transcript.body(Api::Chat, "demo", 256);
        let messages = body["messages"].as_array().unwrap();
        assert_eq!(
            (messages.len(), &messages[0]["content"]),
            (2, &json!("sys."))
        );
        let text = messages[1]["content"].as_str().unwrap();
        assert_eq!(text.split_whitespace().count(), 7);
        assert!(text.starts_with(&first[..20]) && !first.starts_with(text));
    }
}
