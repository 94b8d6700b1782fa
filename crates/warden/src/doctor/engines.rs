//! vLLM itself: where it is, which version, and what that version gets wrong by default.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use super::{Finding, vllm_engines};
use crate::config::{Config, Vllm};

/// The version up to which inline system messages move to the front of the prompt.
const KEEPS_SYSTEM_IN_PLACE: (u32, u32) = (0, 32);

pub(super) fn findings(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (model, engine) in vllm_engines(config) {
        let Some(program) = find(&engine.executable) else {
            findings.push(Finding::problem(
                "vllm",
                format!("model \"{model}\": {} is not found", engine.executable.display()),
                "install vLLM (pip install vllm) and name its program in executable, such as \"/opt/vllm/bin/vllm\"",
            ));
            continue;
        };
        let version = version(&program);
        let shown = version.as_deref().unwrap_or("of unknown version");
        let message = format!("model \"{model}\": vLLM {shown} at {}", program.display());
        findings.push(Finding::ok("vllm", message));
        findings.extend(template(model, engine, version.as_deref()));
        findings.extend(tools(model, engine));
        findings.extend(threshold(config, model, engine));
    }
    findings
}

/// As a shell finds it.
fn find(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return program.is_file().then(|| program.to_owned());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
}

/// The version by the metadata beside the interpreter in the program's first line: asking the
/// program itself would load all of torch.
fn version(program: &Path) -> Option<String> {
    let text = fs::read(program).ok()?;
    let line = text.split(|byte| *byte == b'\n').next()?;
    let interpreter = std::str::from_utf8(line).ok()?.strip_prefix("#!")?.trim();
    let environment = Path::new(interpreter).parent()?.parent()?;
    let versions = fs::read_dir(environment.join("lib")).ok()?;
    let packages = versions.filter_map(|python| Some(python.ok()?.path().join("site-packages")));
    packages
        .filter_map(|packages| fs::read_dir(packages).ok())
        .flatten()
        .filter_map(|package| package.ok()?.file_name().into_string().ok())
        .find_map(|name| {
            let version = name.strip_prefix("vllm-")?.strip_suffix(".dist-info")?;
            Some(version.to_owned())
        })
}

fn template(model: &str, engine: &Vllm, version: Option<&str>) -> Option<Finding> {
    let number = |part: Option<&str>| part?.parse::<u32>().ok();
    let mut parts = version?.split('.');
    let (major, minor) = (number(parts.next())?, number(parts.next())?);
    let moves = (major, minor) < KEEPS_SYSTEM_IN_PLACE;
    let Some(named) = named_template(&engine.args) else {
        return moves.then(|| {
            Finding::warning(
                "chat template",
                format!(
                    "model \"{model}\": this vLLM moves a system message from the middle of a conversation to the front of the prompt, and all that was cached after it is lost"
                ),
                "Claude Code sends such messages: save the model's chat template (the chat_template of its tokenizer_config.json) as a file, make sure that it writes system messages where they stand, and add \"--chat-template\", \"FILE\" to args; or use vLLM 0.32 or later",
            )
        });
    };
    // vLLM takes the template itself too.
    if named.contains("{%") || named.contains("{{") {
        return None;
    }
    match fs::read_to_string(named) {
        Err(error) => Some(Finding::problem(
            "chat template",
            format!("model \"{model}\": {named} cannot be read ({error}), and vLLM will not start"),
            "name a file in args after --chat-template that the service's user may read",
        )),
        Ok(text) => refuses_system_messages(&text).then(|| {
            Finding::warning(
                "chat template",
                format!(
                    "model \"{model}\": {named} raises an exception for a system message in the middle of a conversation, so vLLM moves it to the front of the prompt, and all that was cached after it is lost"
                ),
                "let the template write such a message where it stands instead",
            )
        }),
    }
}

/// What `--chat-template` names; the last one counts.
fn named_template(args: &[String]) -> Option<&str> {
    let place = args
        .iter()
        .rposition(|arg| arg == "--chat-template" || arg.starts_with("--chat-template="))?;
    match args[place].split_once('=') {
        Some((_, named)) => Some(named),
        None => args.get(place + 1).map(String::as_str),
    }
}

/// By the words of the exceptions that models' templates raise, such as "System message must be at
/// the beginning".
fn refuses_system_messages(template: &str) -> bool {
    template.split("raise_exception(").skip(1).any(|call| {
        let words = call.split(')').next().unwrap_or_default();
        words.to_lowercase().contains("system")
    })
}

fn tools(model: &str, engine: &Vllm) -> Option<Finding> {
    let by_hand = engine
        .args
        .iter()
        .any(|arg| arg.starts_with("--tool-call-parser"));
    (engine.tool_call_parser.is_none() && !by_hand).then(|| {
        Finding::warning(
            "tools",
            format!("model \"{model}\" has no tool-call parser, so every request with tools is refused"),
            "set tool_call_parser to the one of the model's family (vllm serve --help=tool-call-parser lists them)",
        )
    })
}

/// A threshold that no load can exceed never lets a conversation spill.
fn threshold(config: &Config, model: &str, engine: &Vllm) -> Option<Finding> {
    let settings = config
        .models
        .iter()
        .find(|settings| settings.name == model)?;
    let api::SetThreshold::Requests(set) = settings.routing.spill_threshold else {
        return None;
    };
    (set > engine.max_num_seqs).then(|| {
        Finding::warning(
            "routing",
            format!(
                "model \"{model}\": spill_threshold = {set} is over max_num_seqs = {}, so requests wait in the engine before a conversation spills",
                engine.max_num_seqs
            ),
            "set it to \"auto\", or below max_num_seqs",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::Overrides, doctor::Level};

    fn installed(version: &str) -> tempfile::TempDir {
        let home = tempfile::tempdir().expect("a folder");
        let packages = home.path().join("lib/python3.12/site-packages");
        fs::create_dir_all(packages.join(format!("vllm-{version}.dist-info"))).expect("made");
        fs::create_dir(home.path().join("bin")).expect("made");
        let script = format!("#!{}/bin/python\nimport vllm\n", home.path().display());
        fs::write(home.path().join("bin/vllm"), script).expect("written");
        home
    }

    fn found(home: &Path, more: &str) -> Vec<Finding> {
        let text = format!(
            "[[models]]\nname = \"m\"\n[models.engine]\nkind = \"vllm\"\nmodel = \"Qwen3\"\nexecutable = \"{}/bin/vllm\"\n{more}",
            home.display()
        );
        let overrides = Overrides {
            data_dir: Some("/state".into()),
            ..Overrides::default()
        };
        findings(&Config::parse(&text, &overrides).expect("a good configuration"))
    }

    #[test]
    fn the_version_is_read_from_its_metadata_and_decides_about_the_template() {
        let old = installed("0.26.0+cpu");
        let seen = found(old.path(), "");
        assert!(seen[0].message.contains("vLLM 0.26.0+cpu"), "{seen:?}");
        assert_eq!(
            (seen[1].check, seen[1].level),
            ("chat template", Level::Warning)
        );
        assert_eq!(found(installed("0.32.0").path(), "").len(), 1);
    }

    #[test]
    fn a_named_template_is_read() {
        let old = installed("0.26.0");
        let file = old.path().join("template.jinja");
        let named = file.display();
        let with = |args: String| {
            let mut seen = found(old.path(), &format!("args = [{args}]"));
            seen.pop().map(|last| (last.check, last.level))
        };
        let both = [
            format!("\"--chat-template\", \"{named}\""),
            format!("\"--chat-template={named}\""),
        ];
        for (text, finding) in [
            (None, ("chat template", Level::Problem)),
            (Some("{{ message.role }}"), ("vllm", Level::Ok)),
            (
                Some("{{ raise_exception('System message must be at the beginning.') }}"),
                ("chat template", Level::Warning),
            ),
            (
                Some("{{ raise_exception('No user query found') }} system"),
                ("vllm", Level::Ok),
            ),
        ] {
            if let Some(text) = text {
                fs::write(&file, text).expect("written");
            }
            for args in &both {
                assert_eq!(with(args.clone()), Some(finding), "{text:?}");
            }
        }
        let literal = "\"--chat-template\", \"{{ messages }}\"".to_owned();
        assert_eq!(with(literal), Some(("vllm", Level::Ok)));
    }

    #[test]
    fn what_is_missing_is_told_with_the_key_to_set() {
        let seen = found(Path::new("/nowhere"), "");
        assert_eq!(seen[0].level, Level::Problem);
        assert!(
            seen[0]
                .mend
                .as_deref()
                .is_some_and(|mend| mend.contains("executable"))
        );
        let new = installed("0.32.0");
        assert_eq!(
            found(new.path(), "tool_call_parser = \"off\"")[1].check,
            "tools"
        );
        let over = "max_num_seqs = 8\n[models.routing]\nspill_threshold = 9";
        assert_eq!(found(new.path(), over)[1].check, "routing");
    }
}
