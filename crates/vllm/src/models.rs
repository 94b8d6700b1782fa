//! Bodies of `GET /v1/models` and `GET /v1/models/{id}`.
//!
//! One object carries the fields of both dialects, since a client says nowhere which it speaks:
//! OpenAI's `object`, `created`, `owned_by`, Anthropic's `type`, `display_name`, `created_at`, and
//! vLLM's `max_model_len`.

use jiff::Timestamp;
use serde::Serialize;

/// What is told of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCard {
    /// What clients ask for.
    pub id: String,
    /// Epoch seconds.
    pub created_s: i64,
    /// Longest prompt and reply together, in tokens, where known.
    pub max_model_len: Option<u64>,
}

#[derive(Serialize)]
struct Model<'a> {
    id: &'a str,
    object: &'static str,
    created: i64,
    owned_by: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    display_name: &'a str,
    created_at: String,
    max_model_len: Option<u64>,
}

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Model<'a>>,
    has_more: bool,
    first_id: Option<&'a str>,
    last_id: Option<&'a str>,
}

impl<'a> From<&'a ModelCard> for Model<'a> {
    fn from(card: &'a ModelCard) -> Self {
        Self {
            id: &card.id,
            object: "model",
            created: card.created_s,
            owned_by: "lm-warden",
            kind: "model",
            display_name: &card.id,
            created_at: Timestamp::from_second(card.created_s)
                .unwrap_or_default()
                .to_string(),
            max_model_len: card.max_model_len,
        }
    }
}

/// The list, cut off after `limit` models where one was asked for.
pub fn models_body(cards: &[ModelCard], limit: Option<usize>) -> Vec<u8> {
    let shown = &cards[..limit.unwrap_or(cards.len()).min(cards.len())];
    to_json(&List {
        object: "list",
        data: shown.iter().map(Model::from).collect(),
        has_more: shown.len() < cards.len(),
        first_id: shown.first().map(|card| card.id.as_str()),
        last_id: shown.last().map(|card| card.id.as_str()),
    })
}

/// One model.
pub fn model_body(card: &ModelCard) -> Vec<u8> {
    to_json(&Model::from(card))
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("strings and numbers serialise")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(body: Vec<u8>) -> String {
        String::from_utf8(body).unwrap()
    }

    fn cards() -> [ModelCard; 2] {
        ["demo", "claude \"x\""].map(|id| ModelCard {
            id: id.into(),
            created_s: 1_795_972_212,
            max_model_len: (id == "demo").then_some(32_768),
        })
    }

    #[test]
    fn one_object_for_both_dialects() {
        insta::assert_snapshot!("model", text(model_body(&cards()[0])));
    }

    #[test]
    fn the_list_is_cut_at_the_limit() {
        insta::assert_snapshot!("list", text(models_body(&cards(), None)));
        insta::assert_snapshot!("list-limit-1", text(models_body(&cards(), Some(1))));
        insta::assert_snapshot!("list-empty", text(models_body(&[], Some(1000))));
    }
}
