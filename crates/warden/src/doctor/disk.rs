//! The data directory and the models' files.

use std::{
    env,
    path::{Path, PathBuf},
};

use nix::sys::statvfs::statvfs;

use super::{Finding, vllm_engines};
use crate::config::{Config, Vllm};

/// Logs of engines, homes and histories: some hundred MB at most.
const DATA_BYTES_MIN: u64 = 1 << 30;
/// A small model's weights.
const MODELS_BYTES_MIN: u64 = 20 << 30;

pub(super) fn findings(config: &Config) -> Vec<Finding> {
    let mut findings = vec![data_dir(&config.server.data_dir)];
    for (model, engine) in vllm_engines(config) {
        findings.push(files(model, engine));
    }
    findings
}

fn data_dir(path: &Path) -> Finding {
    let shown = path.display();
    let there = path.ancestors().find(|ancestor| ancestor.exists());
    let Some(there) = there.filter(|there| there.is_dir()) else {
        return Finding::problem(
            "disk",
            format!("{shown} cannot be made"),
            "set server.data_dir",
        );
    };
    if nix::unistd::access(there, nix::unistd::AccessFlags::W_OK).is_err() {
        return Finding::problem(
            "disk",
            format!("the data directory {shown} cannot be written"),
            "let the user that runs lm-warden write there, or set server.data_dir",
        );
    }
    room("the data directory", there, DATA_BYTES_MIN)
}

fn files(model: &str, engine: &Vllm) -> Finding {
    let folder = Path::new(&engine.model);
    if folder.is_absolute() || folder.is_dir() {
        if folder.join("config.json").is_file() {
            return Finding::ok(
                "model",
                format!("\"{model}\": {} is there", folder.display()),
            );
        }
        return Finding::problem(
            "model",
            format!("\"{model}\": {} holds no config.json", folder.display()),
            "download the model there, or set model to another folder or a name of the Hugging Face hub",
        );
    }
    let hub = hub(engine);
    let name = format!("models--{}", engine.model.replace('/', "--"));
    if hub.join(&name).is_dir() {
        return Finding::ok(
            "model",
            format!("\"{model}\": {} is in {}", engine.model, hub.display()),
        );
    }
    let there = hub.ancestors().find(|ancestor| ancestor.is_dir());
    let what = format!(
        "{}, where \"{model}\" will be downloaded to,",
        hub.display()
    );
    room(&what, there.unwrap_or(Path::new("/")), MODELS_BYTES_MIN)
}

/// Where the Hugging Face hub keeps models.
fn hub(engine: &Vllm) -> PathBuf {
    let variable = |name: &str| {
        let configured = engine.env.get(name).map(PathBuf::from);
        configured.or_else(|| env::var_os(name).map(PathBuf::from))
    };
    variable("HF_HUB_CACHE")
        .or_else(|| variable("HF_HOME").map(|home| home.join("hub")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/huggingface/hub")))
        .unwrap_or_else(|| PathBuf::from("/"))
}

fn room(what: &str, path: &Path, bytes_min: u64) -> Finding {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    #[cfg_attr(
        target_os = "linux",
        expect(clippy::useless_conversion, reason = "u32 elsewhere")
    )]
    let free = statvfs(path).map(|disk| u64::from(disk.blocks_available()) * disk.fragment_size());
    match free {
        Ok(free) if free >= bytes_min => {
            Finding::ok("disk", format!("{what} has {:.0} GiB free", gib(free)))
        }
        Ok(free) => Finding::warning(
            "disk",
            format!("{what} has {:.1} GiB free", gib(free)),
            format!("make room: at least {:.0} GiB", gib(bytes_min)),
        ),
        Err(error) => Finding::warning(
            "disk",
            format!("the room in {what} is unknown ({error})"),
            "check that the disk is mounted",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        config::{Engine, Overrides},
        doctor::Level,
    };

    fn engine(model: &str, env: &str) -> Vllm {
        let text = format!(
            "[[models]]\nname = \"m\"\n[models.engine]\nkind = \"vllm\"\nmodel = \"{model}\"\n{env}"
        );
        let overrides = Overrides {
            data_dir: Some("/state".into()),
            ..Overrides::default()
        };
        let mut config = Config::parse(&text, &overrides).expect("a good configuration");
        match config.models.remove(0).engine {
            Engine::Vllm(engine) => engine,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_folder_without_a_model_is_a_problem_and_a_downloaded_one_is_not() {
        let home = tempfile::tempdir().expect("a folder");
        let here = home.path().display();
        assert_eq!(
            files("m", &engine(&format!("{here}"), "")).level,
            Level::Problem
        );
        fs::write(home.path().join("config.json"), "{}").expect("written");
        assert_eq!(files("m", &engine(&format!("{here}"), "")).level, Level::Ok);
        fs::create_dir_all(home.path().join("hub/models--Org--Name")).expect("made");
        let found = files(
            "m",
            &engine("Org/Name", &format!("env = {{ HF_HOME = \"{here}\" }}")),
        );
        assert!(found.message.contains("Org/Name is in"), "{found:?}");
    }

    #[test]
    fn too_little_room_is_a_warning() {
        assert_eq!(room("it", Path::new("/"), 0).level, Level::Ok);
        assert_eq!(room("it", Path::new("/"), u64::MAX).level, Level::Warning);
        assert_eq!(
            data_dir(Path::new("/dev/null/lm-warden")).level,
            Level::Problem
        );
    }
}
