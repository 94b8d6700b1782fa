//! The one place that reads a clock: wall time of the start plus a monotonic clock, so that times
//! are meaningful across restarts and never run backwards within one. The monotonic clock is the
//! runtime's, so that a test that steps time steps this too.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use routing::Time;
use tokio::time::Instant;

static START: OnceLock<(u64, Instant)> = OnceLock::new();

/// Now, in microseconds since the Unix epoch.
pub fn now() -> Time {
    let (wall_us, instant) = *START.get_or_init(|| {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        (
            u64::try_from(wall.as_micros()).unwrap_or(u64::MAX),
            Instant::now(),
        )
    });
    Time(wall_us).plus(instant.elapsed())
}

/// Seconds since the Unix epoch, as the operators' API gives times.
pub fn epoch_s(time: Time) -> f64 {
    time.0 as f64 / 1e6
}
