//! States and deaths in the words of the page, the 503 messages and the log.

use vllm::serve::{FailureCause, Phase};

use super::machine::{Death, Then};

/// How far a start has come.
pub(super) fn phase(phase: Phase) -> String {
    match phase {
        Phase::Starting => "starting vLLM".to_owned(),
        Phase::LoadingWeights => "loading weights".to_owned(),
        Phase::Compiling => "weights are loaded; compiling and measuring memory".to_owned(),
        Phase::KvCache { tokens } => {
            format!("KV cache of {tokens} tokens per replica; warming up")
        }
        Phase::Serving => "its API server starts".to_owned(),
    }
}

/// What an engine that ends does, and what follows.
pub(super) fn ending(what: &str, then: Then) -> String {
    match then {
        Then::Stop => what.to_owned(),
        Then::Start => format!("{what}, then starting again"),
        Then::Bury => format!("{what} after a failure"),
    }
}

/// A death in one sentence, with the hint of its cause.
pub(super) fn short(death: &Death, cause: Option<FailureCause>) -> String {
    let what = match death {
        Death::Exited { code: Some(code) } => format!("vLLM ended (exit code {code})"),
        Death::Exited { code: None } => "vLLM was ended by a signal".to_owned(),
        Death::NotSpawned(why) => why.clone(),
        Death::StartTimedOut => "vLLM did not serve in time".to_owned(),
        Death::Unresponsive => "vLLM stopped answering".to_owned(),
    };
    match cause {
        Some(cause) => format!("{what}. {}", cause.hint()),
        None => what,
    }
}

/// The same, with what it printed last.
pub(super) fn death(death: &Death, cause: Option<FailureCause>, last: &[String]) -> String {
    let what = short(death, cause);
    if last.is_empty() {
        return what;
    }
    format!("{what}\nThe last lines of its log:\n{}", last.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_is_told_with_its_hint_and_the_last_lines() {
        let exit = Death::Exited { code: Some(1) };
        let told = death(
            &exit,
            Some(FailureCause::PortTaken),
            &["a".to_owned(), "b".to_owned()],
        );
        assert!(
            told.starts_with("vLLM ended (exit code 1). The engine's port is taken"),
            "{told}"
        );
        assert!(told.ends_with("The last lines of its log:\na\nb"), "{told}");
        assert_eq!(death(&exit, None, &[]), "vLLM ended (exit code 1)");
    }
}
