//! The file format of a profile: every number is a table of value, basis and source.

use super::Profile;
use serde::Deserialize;

/// How a number was come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Measured on such a machine.
    Measured,
    /// Chosen by the fit to the published measurement.
    Fitted,
    /// From data sheets: work over throughput, at a usual efficiency.
    Roofline,
    /// Given by the model's, the card's or vLLM's documentation.
    Published,
    /// An estimate.
    Guess,
    /// A free choice, where there is no machine to be true to.
    Chosen,
}

/// Where one number of a profile comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// The number's name.
    pub field: &'static str,
    /// How it was come by.
    pub basis: Basis,
    /// From what.
    pub source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sourced<T> {
    value: T,
    basis: Basis,
    source: String,
}

impl<T> Sourced<T> {
    fn take(self, field: &'static str, provenance: &mut Vec<Provenance>) -> T {
        provenance.push(Provenance {
            field,
            basis: self.basis,
            source: self.source,
        });
        self.value
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileFile {
    name: String,
    step_overhead_ms: Sourced<f64>,
    prefill_ms_per_token: Sourced<f64>,
    attention_us_per_token_per_1k: Sourced<f64>,
    weights_read_ms: Sourced<f64>,
    kv_read_ms_per_1k: Sourced<f64>,
    kv_bytes_per_token: Sourced<u64>,
    kv_tokens: Sourced<u64>,
    host_read_gb_per_s: Sourced<f64>,
    max_num_seqs: Sourced<u32>,
    max_num_batched_tokens: Sourced<u32>,
    max_model_len: Sourced<u32>,
}

pub(super) fn parse(text: &str) -> Result<Profile, toml::de::Error> {
    let file: ProfileFile = toml::from_str(text)?;
    let mut sources = Vec::new();
    Ok(Profile {
        name: file.name,
        step_overhead_ms: file.step_overhead_ms.take("step_overhead_ms", &mut sources),
        prefill_ms_per_token: file
            .prefill_ms_per_token
            .take("prefill_ms_per_token", &mut sources),
        attention_us_per_token_per_1k: file
            .attention_us_per_token_per_1k
            .take("attention_us_per_token_per_1k", &mut sources),
        weights_read_ms: file.weights_read_ms.take("weights_read_ms", &mut sources),
        kv_read_ms_per_1k: file
            .kv_read_ms_per_1k
            .take("kv_read_ms_per_1k", &mut sources),
        kv_bytes_per_token: file
            .kv_bytes_per_token
            .take("kv_bytes_per_token", &mut sources),
        kv_tokens: file.kv_tokens.take("kv_tokens", &mut sources),
        host_read_gb_per_s: file
            .host_read_gb_per_s
            .take("host_read_gb_per_s", &mut sources),
        host_kv_tokens: 0,
        max_num_seqs: file.max_num_seqs.take("max_num_seqs", &mut sources),
        max_num_batched_tokens: file
            .max_num_batched_tokens
            .take("max_num_batched_tokens", &mut sources),
        max_model_len: file.max_model_len.take("max_model_len", &mut sources),
        provenance: sources,
    })
}
