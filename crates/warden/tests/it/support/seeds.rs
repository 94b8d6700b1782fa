//! The seeds of tests that draw what happens. The binary's tests read this file, too, so that one
//! command line replays a seed in both.

use std::ops::Range;

/// Those that the environment names (`LM_WARDEN_SEED=17`, `LM_WARDEN_SEEDS=1000..9000`), or the usual
/// ones.
pub(crate) fn seeds(usual: Range<u64>) -> Range<u64> {
    let number = |text: &str| text.parse().expect("a number");
    if let Ok(seed) = std::env::var("LM_WARDEN_SEED") {
        let seed = number(&seed);
        return seed..seed + 1;
    }
    std::env::var("LM_WARDEN_SEEDS").map_or(usual, |seeds| {
        let (from, to) = seeds.split_once("..").expect("FROM..TO");
        number(from)..number(to)
    })
}
