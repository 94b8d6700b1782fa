//! Every setting's default, range and error message.

use super::*;

mod vllm;

fn parse(text: &str) -> Result<Config, ConfigError> {
    let overrides = Overrides {
        data_dir: Some("/state".into()),
        ..Overrides::default()
    };
    Config::parse(text, &overrides)
}

const ATTACHED: &str = r#"
[[models]]
name = "m"
[models.engine]
kind = "attached"
url = "http://127.0.0.1:8000/"
data_parallel_size = 2
max_num_seqs = 32
"#;

#[test]
fn the_demo_answers_to_claude_codes_models_on_four_replicas() {
    insta::assert_snapshot!(parse(DEMO).unwrap().to_toml(), @r#"
    [server]
    listen = "127.0.0.1:8484"
    data_dir = "/state"
    body_bytes_max = 67108864
    buffered_bytes_max = 1073741824
    stop_engines = false

    [auth]
    required = false
    cache_salt = false

    [history]
    days_max = 30
    bytes_max = 2147483648

    [[models]]
    name = "demo"
    aliases = ["claude-*"]

    [models.engine]
    kind = "simulated"
    data_parallel_size = 4
    max_num_seqs = 32
    profile = "demo"
    speed = 1.0

    [models.routing]
    affinity = true
    spill_threshold = "auto"
    leases = "auto"
    lease_turns = "auto"
    queue_wait_s_max = 240
    session_idle_s = 3600
    "#);
}

#[test]
fn what_check_prints_is_a_configuration_that_comes_to_the_same() {
    let urls = ATTACHED
        .replace(
            "url = \"http://127.0.0.1:8000/\"",
            "urls = [\"http://a:1\", \"http://b\"]",
        )
        .replace("data_parallel_size = 2", "")
        + "[models.routing]\nspill_threshold = 5\naffinity = false\nleases = \"off\"\nlease_turns = 7\nqueue_wait_s_max = 30\nsession_idle_s = 60\n";
    for text in [DEMO, ATTACHED, &urls] {
        let config = parse(text).unwrap();
        assert_eq!(parse(&config.to_toml()).unwrap(), config);
    }
}

#[test]
fn the_command_line_goes_before_the_file() {
    let overrides = Overrides {
        listen: Some("127.0.0.1:0".parse().unwrap()),
        data_dir: Some("/elsewhere".into()),
        stop_engines: true,
    };
    let text = format!("[server]\nlisten = \"0.0.0.0:1\"\ndata_dir = \"/file\"\n{ATTACHED}");
    let server = Config::parse(&text, &overrides).unwrap().server;
    assert_eq!(server.listen, overrides.listen.unwrap());
    assert_eq!(server.data_dir, Path::new("/elsewhere"));
    assert!(server.stop_engines);
}

/// A change to a good configuration: this becomes that, and the error has all of these.
const CASES: &[(&str, &str, &[&str])] = &[
    (
        "name = \"m\"",
        "name = \"\"",
        &["models[0].name", "\"\"", "256 bytes"],
    ),
    (
        "name = \"m\"",
        "name = \"m*\"",
        &["models[0].name", "m*", "aliases"],
    ),
    ("name = \"m\"", "", &["missing field `name`"]),
    (
        "name = \"m\"",
        "name = 3",
        &["name = 3", "expected a string"],
    ),
    (
        "name = \"m\"",
        "name = \"m\"\naliases = [\"m\"]",
        &["aliases", "\"m\"", "taken"],
    ),
    (
        "name = \"m\"",
        "name = \"m\"\ncolour = 1",
        &["unknown field `colour`", "aliases"],
    ),
    (
        "\"attached\"",
        "\"vllm\"",
        &["models[0].engine.url", "vllm", "remove it"],
    ),
    (
        "max_num_seqs = 32",
        "max_num_seqs = 32\nlayout = \"servers\"",
        &["engine.layout", "no meaning", "attached"],
    ),
    ("\"attached\"", "\"tgi\"", &["tgi", "attached", "simulated"]),
    (
        "\"attached\"",
        "\"simulated\"",
        &["engine.url", "simulated", "remove"],
    ),
    (
        "http://127.0.0.1:8000/",
        "127.0.0.1:8000",
        &["engine.url", "http://host:port"],
    ),
    (
        "http://127.0.0.1:8000/",
        "https://a:1",
        &["engine.url", "https://a:1"],
    ),
    (
        "http://127.0.0.1:8000/",
        "http://a:1/v1",
        &["engine.url", "/v1", "without a path"],
    ),
    (
        "http://127.0.0.1:8000/",
        "http://a:99999",
        &["engine.url", "99999"],
    ),
    (
        "http://127.0.0.1:8000/",
        "http://me@a:1",
        &["engine.url", "me@a"],
    ),
    (
        "url = \"http://127.0.0.1:8000/\"",
        "",
        &["engine.url", "missing", "8000"],
    ),
    (
        "url = ",
        "urls = [\"http://a:1\"]\nurl = ",
        &["engine.url", "does not go with urls"],
    ),
    (
        "url = \"http://127.0.0.1:8000/\"",
        "urls = [\"http://a:1\"]",
        &["data_parallel_size", "2"],
    ),
    (
        "url = \"http://127.0.0.1:8000/\"\ndata_parallel_size = 2",
        "urls = []",
        &["engine.urls = []", "1 to 256"],
    ),
    (
        "data_parallel_size = 2",
        "data_parallel_size = 0",
        &["data_parallel_size", "0", "1 to 256"],
    ),
    (
        "max_num_seqs = 32",
        "",
        &["max_num_seqs", "missing", "--max-num-seqs"],
    ),
    (
        "max_num_seqs = 32",
        "max_num_seqs = -1",
        &["max_num_seqs", "-1", "1 to 65536"],
    ),
    (
        "max_num_seqs = 32",
        "max_num_seqs = 32\nspeed = 2.0",
        &["engine.speed", "2.0", "attached"],
    ),
    (
        "max_num_seqs = 32",
        "max_num_seqs = 32\napi_key_env = \"LM_WARDEN_NO_SUCH\"",
        &["api_key_env", "LM_WARDEN_NO_SUCH", "not set"],
    ),
    (
        "[[models]]",
        "[server]\nlisten = \"8484\"\n[[models]]",
        &["server.listen", "\"8484\"", "port"],
    ),
    (
        "[[models]]",
        "[server]\nbody_bytes_max = 1\n[[models]]",
        &["server.body_bytes_max", "1", "1024"],
    ),
    (
        "[[models]]",
        "[server]\nbuffered_bytes_max = 2048\n[[models]]",
        &["server.buffered_bytes_max", "2048", "67108864"],
    ),
    (
        "[[models]]",
        "[server]\ndata_dir = \"\"\n[[models]]",
        &["server.data_dir", "must name a directory"],
    ),
    (
        "[[models]]",
        "[server.tls]\ncert = \"a\"\n[[models]]",
        &["missing field `key`"],
    ),
    (
        "[[models]]",
        "[server]\nlisten = \"0.0.0.0:8484\"\n[auth]\nrequired = false\n[[models]]",
        &["auth.required", "false", "0.0.0.0:8484", "must be true"],
    ),
    ("[[models]]", "[[models]", &["line 2", "]"]),
];

#[test]
fn errors_name_the_key_the_value_and_the_mend() {
    for (from, to, parts) in CASES {
        assert!(
            ATTACHED.contains(from),
            "{from} is not in the good configuration"
        );
        check(&ATTACHED.replacen(from, to, 1), parts);
    }
    for (routing, parts) in [
        (
            "spill_threshold = \"often\"",
            &["spill_threshold", "\"often\"", "auto"][..],
        ),
        ("spill_threshold = 0", &["spill_threshold", "0", "from 1"]),
        (
            "spill_threshold = 1.5",
            &["spill_threshold = 1.5", "\"auto\" or a whole number"],
        ),
        (
            "session_idle_s = 1",
            &["session_idle_s", "1", "10 to 604800"],
        ),
        (
            "leases = \"on\"",
            &["unknown variant `on`", "`auto` or `off`"],
        ),
        ("lease_turns = 0", &["lease_turns", "0", "1 to 10000"]),
        ("lease_turns = \"few\"", &["lease_turns", "\"few\"", "auto"]),
        (
            "lease_turns = 1.5",
            &["lease_turns = 1.5", "\"auto\" or a whole number"],
        ),
        (
            "queue_wait_s_max = 0",
            &["queue_wait_s_max", "0", "1 to 86400"],
        ),
    ] {
        check(&format!("{ATTACHED}[models.routing]\n{routing}\n"), parts);
    }
    check("", &["models", "missing", "[[models]]"]);
    check("[[models]]\nname = \"x\"\n", &["missing field `engine`"]);
}

fn check(text: &str, parts: &[&str]) {
    let error = parse(text).expect_err(text).to_string();
    for part in parts {
        assert!(
            error.contains(part),
            "{part:?} is not in: {error}\nof\n{text}"
        );
    }
}

#[test]
fn the_schema_names_every_key_of_the_file() {
    let schema: serde_json::Value = serde_json::from_str(&json_schema()).unwrap();
    let properties = |name: &str| {
        schema["$defs"][name]["properties"]
            .as_object()
            .unwrap()
            .len()
    };
    assert_eq!(
        (
            properties("Server"),
            properties("Engine"),
            properties("Routing"),
            properties("History")
        ),
        (6, 22, 6, 2)
    );
    assert_eq!(schema["additionalProperties"], false);
}

#[test]
fn the_settings_page_has_a_row_for_every_key_of_the_file_and_no_other() {
    let page = include_str!("../../../../docs/settings.md");
    let mut documented: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(key, _)| key)
        .collect();
    let schema: serde_json::Value = serde_json::from_str(&json_schema()).unwrap();
    let tables = schema["$defs"].as_object().unwrap().values();
    let mut keys: Vec<&str> = tables
        .filter_map(|table| table["properties"].as_object())
        .flat_map(|properties| properties.keys().map(String::as_str))
        .collect();
    documented.sort_unstable();
    keys.sort_unstable();
    assert_eq!(documented, keys);
}
