//! A vLLM that the warden starts: defaults, errors, what it shares with others of its kind.

use super::*;

const SIMULATED: &str = r#"
[[models]]
name = "m"
[models.engine]
kind = "simulated"
"#;

const VLLM: &str = r#"
[[models]]
name = "m"
[models.engine]
kind = "vllm"
model = "Qwen/Qwen3-4B-Instruct-2507"
data_parallel_size = 2
gpus = [0, 1]
"#;

#[test]
fn a_vllm_engine_has_a_default_for_all_but_its_model() {
    let config = parse(VLLM).unwrap();
    let Engine::Vllm(engine) = &config.models[0].engine else {
        panic!("{config:?}");
    };
    assert_eq!(engine.tool_call_parser.as_deref(), Some("hermes"));
    assert_eq!((engine.servers(), engine.ranks_per_server()), (1, 2));
    assert_eq!(engine.idle_stop, None);
    assert_eq!(parse(&config.to_toml()).unwrap(), config);
    let demand =
        format!("{VLLM}layout = \"servers\"\nstart = \"on-demand\"\nargs = [\"--seed\", \"1\"]");
    let config = parse(&demand).unwrap();
    let Engine::Vllm(engine) = &config.models[0].engine else {
        panic!("{config:?}");
    };
    assert_eq!((engine.servers(), engine.ranks_per_server()), (2, 1));
    assert_eq!(engine.idle_stop, Some(std::time::Duration::from_secs(1800)));
    assert_eq!(parse(&config.to_toml()).unwrap(), config);
}

#[test]
fn a_vllm_engines_errors_name_the_key_the_value_and_the_mend() {
    for (more, parts) in [
        (
            "gpus = [0]",
            &["engine.gpus", "[0]", "2 x tensor_parallel_size 1 needs 2"][..],
        ),
        ("gpus = [1, 1]", &["engine.gpus", "card 1 twice"]),
        ("gpus = [0, -1]", &["engine.gpus", "-1", "nvidia-smi"]),
        ("port = 80", &["engine.port", "80", "1024 to 65535"]),
        (
            "tool_call_parser = \"a b\"",
            &["tool_call_parser", "\"a b\"", "\"auto\""],
        ),
        (
            "args = [\"--port=1\"]",
            &["engine.args", "--port", "set by the warden"],
        ),
        (
            "args = [\"--api-key\", \"x\"]",
            &["engine.args", "api_key_env"],
        ),
        (
            "env = { VLLM_API_KEY = \"x\" }",
            &["VLLM_API_KEY", "api_key_env"],
        ),
        ("idle_stop_s = 60", &["idle_stop_s", "60", "always"]),
        ("start_s_max = 1", &["start_s_max", "1", "10 to"]),
        (
            "profile = \"demo\"",
            &["engine.profile", "vllm", "remove it"],
        ),
    ] {
        let without = if more.starts_with("gpus") {
            VLLM.replace("gpus = [0, 1]\n", "")
        } else {
            VLLM.to_owned()
        };
        check(&format!("{without}{more}\n"), parts);
    }
    check(
        &VLLM.replace("model = \"Qwen/Qwen3-4B-Instruct-2507\"\n", ""),
        &["engine.model", "missing"],
    );
}

#[test]
fn models_that_run_at_the_same_time_share_neither_cards_nor_ports() {
    let second = |more: &str| {
        format!(
            "{VLLM}port = 9000\n{}{more}\n",
            VLLM.replace("\"m\"", "\"n\"")
                .replace("gpus = [0, 1]\n", "")
        )
    };
    check(
        &second("gpus = [2, 1]"),
        &["models[1].engine.gpus", "card 1", "\"m\"", "on-demand"],
    );
    check(
        &second("gpus = [2, 3]\nport = 9000"),
        &["models[1].engine.port", "9000", "\"m\""],
    );
    check(
        &second("gpus = [2, 1]\nstart = \"on-demand\""),
        &["models[1].engine.gpus", "\"m\" always runs on card 1"],
    );
    parse(&second("gpus = [2, 3]")).unwrap();
    let both = second("gpus = [0, 1]\nstart = \"on-demand\"");
    parse(&both.replacen("port = 9000", "start = \"on-demand\"", 1)).unwrap();
}

#[test]
fn what_only_a_vllm_started_here_has_is_named_with_its_value() {
    for (more, part) in [
        ("gpus = [0, 1]", "engine.gpus = [0, 1]: has no meaning"),
        ("layout = \"servers\"", "engine.layout = \"servers\":"),
        ("start = \"on-demand\"", "engine.start = \"on-demand\":"),
        ("port = 9000", "engine.port = 9000:"),
    ] {
        for engine in [ATTACHED, SIMULATED] {
            check(&format!("{engine}{more}\n"), &[part, "remove it"]);
        }
    }
    let error = parse(&format!("{ATTACHED}env = {{ HF_TOKEN = \"hush\" }}\n"));
    assert!(!error.unwrap_err().to_string().contains("hush"));
}
