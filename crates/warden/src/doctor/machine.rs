//! Cards, limits and the clock.

use std::{
    process::Command,
    time::{Duration, SystemTime},
};

use nix::sys::resource::{Resource, getrlimit};

use super::{Finding, vllm_engines};
use crate::{
    config::Config,
    gpus::{Card, Look},
};

/// Two descriptors for each request, and vLLM's own sockets and files.
const OPEN_FILES_MIN: u64 = 16_384;

pub(super) fn cards(config: &Config, look: &Look) -> Vec<Finding> {
    let (cards, driver) = match look {
        Look::Nothing(why) => return vec![no_cards(config, why)],
        Look::Cards { cards, driver } => (cards, driver),
    };
    let driver = driver.as_deref().unwrap_or("of unknown version");
    let mut findings = vec![Finding::ok("driver", format!("NVIDIA driver {driver}"))];
    findings.extend(cards.iter().map(|card| Finding::ok("card", describe(card))));
    for (model, engine) in vllm_engines(config) {
        for number in engine.cards() {
            if cards.iter().all(|card| card.number != number) {
                let there = cards.iter().map(|card| card.number.to_string());
                findings.push(Finding::problem(
                    "card",
                    format!("model \"{model}\" needs card {number}, which is not there"),
                    format!(
                        "name cards that are there in gpus ({}), or lower data_parallel_size x tensor_parallel_size",
                        there.collect::<Vec<_>>().join(", ")
                    ),
                ));
            }
        }
    }
    findings
}

fn no_cards(config: &Config, why: &str) -> Finding {
    if vllm_engines(config).next().is_none() {
        return Finding::ok("driver", format!("{why}; no model here needs a card"));
    }
    if vllm_engines(config).any(|(_, engine)| engine.gpus.is_some()) {
        return Finding::problem(
            "driver",
            why,
            "install NVIDIA's driver and check that nvidia-smi lists the cards; or leave gpus out for a vLLM that runs without them",
        );
    }
    Finding::warning(
        "driver",
        why,
        "vLLM can then only run on the CPU, which is for tests: install NVIDIA's driver",
    )
}

fn describe(card: &Card) -> String {
    let name = card.name.as_deref().unwrap_or("unnamed");
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let memory = card.memory_used_bytes.zip(card.memory_bytes);
    let parts = [
        Some(format!("{}: {name}", card.number)),
        memory.map(|(used, all)| format!("{:.1} of {:.1} GiB in use", gib(used), gib(all))),
        card.temperature_c.map(|celsius| format!("{celsius:.0} °C")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

pub(super) fn open_files() -> Finding {
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((soft, _)) if soft >= OPEN_FILES_MIN => {
            Finding::ok("limits", format!("{soft} open files"))
        }
        Ok((soft, hard)) => Finding::warning(
            "limits",
            format!("only {soft} open files are allowed (at most {hard})"),
            format!(
                "raise it: `ulimit -n {OPEN_FILES_MIN}`, or LimitNOFILE={OPEN_FILES_MIN} in the systemd unit"
            ),
        ),
        Err(error) => Finding::warning(
            "limits",
            format!("the limit of open files is unknown ({error})"),
            "check it with `ulimit -n`",
        ),
    }
}

/// A clock that is wrong makes keys expire and histories lie.
pub(super) fn time() -> Finding {
    let binary = std::env::current_exe().and_then(|path| path.metadata()?.modified());
    let behind = binary
        .ok()
        .and_then(|built| built.duration_since(SystemTime::now()).ok());
    if let Some(behind) = behind.filter(|behind| *behind > Duration::from_secs(60)) {
        return Finding::problem(
            "time",
            format!(
                "the clock is at least {} s behind: this program is younger",
                behind.as_secs()
            ),
            "set the clock (timedatectl set-ntp true)",
        );
    }
    let asked = Command::new("timedatectl")
        .args(["show", "--property=NTPSynchronized", "--value"])
        .output();
    match asked.map(|answer| String::from_utf8_lossy(&answer.stdout).trim().to_owned()) {
        Ok(answer) if answer == "yes" => Finding::ok("time", "the clock is synchronised"),
        Ok(answer) if answer == "no" => Finding::warning(
            "time",
            "the clock is not synchronised",
            "turn synchronisation on: timedatectl set-ntp true",
        ),
        _ => Finding::ok(
            "time",
            "the clock is plausible; whether it is synchronised is unknown",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::Overrides, doctor::Level};

    fn config(engine: &str) -> Config {
        let text = format!("[[models]]\nname = \"m\"\n[models.engine]\n{engine}");
        let overrides = Overrides {
            data_dir: Some("/state".into()),
            ..Overrides::default()
        };
        Config::parse(&text, &overrides).expect("a good configuration")
    }

    fn card(number: u32) -> Card {
        Card {
            number,
            name: Some("RTX".to_owned()),
            memory_bytes: Some(24 << 30),
            memory_used_bytes: Some(12 << 30),
            utilisation: None,
            temperature_c: Some(41.0),
            power_w: None,
        }
    }

    #[test]
    fn a_card_that_is_not_there_is_a_problem() {
        let look = Look::Cards {
            cards: vec![card(0)],
            driver: Some("570.1".to_owned()),
        };
        let two = config("kind = \"vllm\"\nmodel = \"x\"\ndata_parallel_size = 2");
        let found = cards(&two, &look);
        assert_eq!(found[1].message, "0: RTX, 12.0 of 24.0 GiB in use, 41 °C");
        assert_eq!(found[2].level, Level::Problem);
        assert!(found[2].message.contains("needs card 1"), "{found:?}");
        assert!(
            cards(&config("kind = \"vllm\"\nmodel = \"x\""), &look)
                .iter()
                .all(|f| f.level == Level::Ok)
        );
    }

    #[test]
    fn no_card_matters_as_much_as_the_configuration_needs_one() {
        let nothing = Look::Nothing("no NVIDIA driver".to_owned());
        for (engine, level) in [
            ("kind = \"simulated\"", Level::Ok),
            ("kind = \"vllm\"\nmodel = \"x\"", Level::Warning),
            ("kind = \"vllm\"\nmodel = \"x\"\ngpus = [0]", Level::Problem),
        ] {
            assert_eq!(cards(&config(engine), &nothing)[0].level, level, "{engine}");
        }
    }
}
