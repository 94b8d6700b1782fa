//! Tokens estimated from bytes, until the engine has measured them.

/// Tokens per byte before any measurement: about four bytes each, in English and in code.
const TOKENS_PER_BYTE_INITIAL: f64 = 0.25;

/// Weight of the newest measurement.
const WEIGHT: f64 = 0.05;

/// Prompts below this say more about the chat template than about the text.
const MEASURED_BYTES_MIN: u64 = 1024;

/// No text has more tokens than bytes, and none that agents send has so few.
const TOKENS_PER_BYTE_RANGE: std::ops::RangeInclusive<f64> = 0.01..=1.0;

/// What a byte of prompt weighs in this model's tokens: a moving average over finished requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenRate(f64);

impl TokenRate {
    pub(crate) fn new() -> Self {
        Self(TOKENS_PER_BYTE_INITIAL)
    }

    /// Tokens that so many bytes will be.
    pub(crate) fn estimate(self, bytes: u64) -> u32 {
        // A float casts to the nearest integer in range, so this saturates.
        (bytes as f64 * self.0) as u32
    }

    /// Takes note of a measured prompt. Figures that no tokenizer gives are left out.
    pub(crate) fn learn(&mut self, bytes: u64, tokens: u64) {
        let measured = tokens as f64 / bytes.max(1) as f64;
        if bytes >= MEASURED_BYTES_MIN && TOKENS_PER_BYTE_RANGE.contains(&measured) {
            self.0 += WEIGHT * (measured - self.0);
        }
    }
}
