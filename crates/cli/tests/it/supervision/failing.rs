//! Engines that do not come up, however often they are started.

use std::fs;

use super::warden::{Place, soon};

/// What vLLM prints last, and the word by which the hint is known.
const CAUSES: [(&str, &str, &str); 5] = [
    (
        "memory",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "--gpu-memory-utilization",
    ),
    (
        "port",
        "OSError: [Errno 98] Address already in use",
        "set another port",
    ),
    (
        "missing",
        "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name'",
        "check the name or folder",
    ),
    (
        "context",
        "ValueError: 1.75 GiB KV cache is needed, which is larger than the available KV cache memory (0.5 GiB).",
        "--max-model-len",
    ),
    (
        "heads",
        "Value error, Total number of attention heads (4) must be divisible by tensor parallel size (3).",
        "must divide",
    ),
];

#[test]
fn after_five_deaths_in_a_row_a_model_has_failed_and_says_why_until_it_is_started() {
    let place = Place::new("");
    let folder = |name: &str| place.model().with_file_name(name);
    let tables = CAUSES.map(|(name, line, _)| {
        fs::create_dir(folder(name)).unwrap();
        fs::write(folder(name).join("fail"), format!("{line}\n")).unwrap();
        let tables = place.model_tables(name, "args = [\"--speed\", \"0\"]");
        tables.replace(
            &format!("\"{}\"", place.model().display()),
            &format!("\"{}\"", folder(name).display()),
        )
    });
    place.configure_models(&tables);
    let warden = place.serve(&["--stop-engines"]);
    for (name, line, hint) in CAUSES {
        let reason = soon("it has failed", || {
            let (state, reason) = warden.state_of(name);
            (state == "failed").then_some(reason)
        });
        assert!(
            reason.contains(hint) && reason.contains(line),
            "{name}: {reason}"
        );
        assert_eq!(warden.turn_with(name, "a").status, 503);
    }
    let starts = place.log().matches("vLLM starts").count();
    assert_eq!(starts, 5 * CAUSES.len(), "and then no more");

    let (name, ..) = CAUSES[0];
    fs::remove_file(folder(name).join("fail")).unwrap();
    assert_eq!(
        warden.post(&format!("/api/v1/models/{name}/start")).status,
        200
    );
    soon("it serves", || {
        (warden.state_of(name).0 == "ready").then_some(())
    });
    warden.end(nix::sys::signal::Signal::SIGTERM);
}
