//! `lm-warden-fuzz TARGET FILE…` holds a target's laws against files, as a finding is replayed;
//! `lm-warden-fuzz` lists the targets. In the build of `scripts/fuzz` it is libFuzzer's program,
//! and `LM_WARDEN_FUZZ` names the target.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static TARGET: std::sync::LazyLock<&fuzz::Target> = std::sync::LazyLock::new(|| {
        let name = std::env::var("LM_WARDEN_FUZZ").expect("LM_WARDEN_FUZZ names a target");
        fuzz::target(&name).expect("a target of this name")
    });
    (TARGET.run)(bytes);
});

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(name) = arguments.next() else {
        for target in &fuzz::TARGETS {
            println!("{}", target.name);
        }
        return std::process::ExitCode::SUCCESS;
    };
    let Some(target) = fuzz::target(&name) else {
        eprintln!("there is no target \"{name}\"; without arguments the targets are listed");
        return std::process::ExitCode::from(2);
    };
    for file in arguments {
        match std::fs::read(&file) {
            Ok(bytes) => (target.run)(&bytes),
            Err(error) => {
                eprintln!("{file} cannot be read: {error}");
                return std::process::ExitCode::FAILURE;
            }
        }
        println!("{file}: the laws of {name} hold");
    }
    std::process::ExitCode::SUCCESS
}
