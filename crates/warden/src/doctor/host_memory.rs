//! Host memory for evicted KV cache: whether what is set is there, and what could be set.
//!
//! How much the conversations need is no matter of the machine: `lm-warden simulate plan` says that.
//! Here stands what the machine can give.

use std::fs;

use super::{Finding, vllm_engines};
use crate::config::Config;

/// Part of the memory that is free now which evicted KV cache may take: the page cache, in which the
/// models' files lie, and vLLM's own processes need the rest.
const SHARE_MAX: f64 = 0.5;

pub(super) fn findings(config: &Config) -> Vec<Finding> {
    let Some(available_gib) = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| available_gib(&text))
    else {
        return Vec::new();
    };
    vllm_engines(config)
        .map(|(model, engine)| {
            let replicas = u32::from(engine.data_parallel_size.max(1));
            finding(model, (engine.kv_offload_gib, replicas), available_gib)
        })
        .collect()
}

/// GiB of memory that can be had without swapping.
fn available_gib(meminfo: &str) -> Option<f64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / f64::from(1 << 20))
}

fn finding(model: &str, (gib, replicas): (u32, u32), available_gib: f64) -> Finding {
    let most = (available_gib * SHARE_MAX / f64::from(replicas)).floor();
    let in_all = f64::from(gib) * f64::from(replicas);
    if in_all > available_gib {
        return Finding::problem(
            "host memory",
            format!(
                "model \"{model}\" sets aside {gib} GiB for each of {replicas} replicas; \
                 {available_gib:.0} GiB are free"
            ),
            format!("lower kv_offload_gib to {most:.0}, or stop what takes the memory"),
        );
    }
    if gib > 0 {
        let message = format!(
            "model \"{model}\": {in_all:.0} of {available_gib:.0} GiB for evicted KV cache"
        );
        return Finding::ok("host memory", message);
    }
    Finding::ok(
        "host memory",
        format!(
            "model \"{model}\": evicted KV cache is lost (kv_offload_gib = 0); up to {most:.0} would fit, and \
             lm-warden simulate plan says how much the conversations need"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn what_is_set_must_be_there_and_what_could_be_set_is_told() {
        let meminfo = "MemTotal:       131072000 kB\nMemAvailable:   104857600 kB\n";
        let free = available_gib(meminfo).expect("a number");
        assert!((free - 100.0).abs() < 1e-9);
        let none = finding("m", (0, 4), free);
        assert!(none.message.contains("up to 12 would fit"), "{none:?}");
        assert_eq!(finding("m", (16, 4), free).level, Level::Ok);
        let much = finding("m", (32, 4), free);
        assert_eq!(much.level, Level::Problem);
        assert!(format!("{much:?}").contains("lower kv_offload_gib to 12"));
        assert_eq!(available_gib("MemTotal: 1 kB\n"), None);
    }
}
