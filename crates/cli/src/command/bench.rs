//! `lm-warden bench`.

use std::{
    io::{IsTerminal, Write},
    path::PathBuf,
    sync::Mutex,
    time::{Duration, Instant},
};

use bench::{
    load::{self, Api, BenchError, BenchRequest, Progress, Shape},
    report::{self, Outputs, Report},
    results::Results,
};

use super::status::{self, issuers};
use crate::{
    block_on,
    exit::{Exit, Failure},
};

/// A log that is no terminal gets a live line this often.
const LOG_PAUSE: Duration = Duration::from_secs(15);

/// Measures what affinity brings on this machine.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Bench {
    Ab(Box<Ab>),
    Run(Box<Run>),
    Report(ReportFiles),
}

/// Affinity off, then on, against a running warden, in the published columns.
///
/// Sends synthetic sessions in the style of Claude Code. The engine is not touched; the model's
/// routing is put back at the end, also after Ctrl-C. Nothing else should use the model meanwhile.
/// The defaults (five loads, two arms, 3 minutes each) take half an hour.
#[derive(Debug, clap::Args)]
pub(crate) struct Ab {
    /// The arms in their order, of off, on and leases. "off,on,on,off" shows what is owed to the
    /// order alone.
    #[arg(long, value_delimiter = ',', default_value = "off,on")]
    order: Vec<String>,
    /// The same prompts in every arm, as the published run had them: the second arm then finds
    /// what the first one left in the caches.
    #[arg(long)]
    same_seed: bool,
    #[command(flatten)]
    load: Load,
}

/// One arm, against any server that speaks Anthropic's or OpenAI's API, warden or not.
#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// The API that the sessions speak: messages or chat.
    #[arg(long, default_value = "messages", value_parser = api)]
    api: Api,
    #[command(flatten)]
    load: Load,
}

#[derive(Debug, clap::Args)]
struct Load {
    /// The server.
    #[arg(long, env = "LM_WARDEN_URL", default_value = "http://127.0.0.1:8484")]
    url: String,
    /// The model.
    #[arg(long)]
    model: String,
    /// Sessions in parallel, one stage each; a session that ends is followed by another.
    #[arg(long, value_delimiter = ',', default_value = "4,8,16,24,32")]
    sessions: Vec<u32>,
    /// Instead: sessions an hour that arrive on their own, one stage each.
    #[arg(long, value_delimiter = ',', conflicts_with = "sessions")]
    rate: Vec<u32>,
    /// Length of a stage.
    #[arg(long, default_value = "3m")]
    stage: String,
    /// How long a stage's last turns may take after it; what is left then is cut, and told.
    #[arg(long, default_value = "3m")]
    drain: String,
    /// Runs of the whole order; the reports show their spread.
    #[arg(long, default_value_t = 1)]
    repeat: u32,
    /// Decides the prompts; default: another one each time, so that nothing is cached beforehand.
    #[arg(long)]
    seed: Option<u64>,
    /// Replays recorded shapes (CSV with the columns trace, in, out, `cached_ideal`, `think_time`).
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Tokens at which a replayed session ends, such as 32k; default: what the model takes.
    #[arg(long, requires = "trace")]
    context: Option<String>,
    /// Factor on a replay's pauses.
    #[arg(long, requires = "trace")]
    time_scale: Option<f64>,
    #[command(flatten)]
    shape: ShapeOptions,
    #[command(flatten)]
    outputs: OutputOptions,
}

/// A synthetic session's sizes in tokens; the defaults are the published run's.
#[derive(Debug, clap::Args)]
struct ShapeOptions {
    /// System prompt that all sessions share.
    #[arg(long, default_value_t = 3500, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    shared_tokens: u32,
    /// Own first message.
    #[arg(long, default_value_t = 7350, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    first_tokens: u32,
    /// Turns after the first.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    turns: u32,
    /// New tokens of each.
    #[arg(long, default_value_t = 400, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    turn_tokens: u32,
    /// Most tokens of an answer.
    #[arg(long, default_value_t = 256, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_tokens: u32,
}

#[derive(Debug, clap::Args)]
struct OutputOptions {
    /// Writes the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes the results as CSV.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Writes a report with charts, in one file that needs no network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Leaves the simulation of the same load out of the report.
    #[arg(long)]
    no_simulation: bool,
}

/// A report from saved runs (of `bench` or `simulate run`, by their --json).
#[derive(Debug, clap::Args)]
pub(crate) struct ReportFiles {
    /// Saved results.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    outputs: OutputOptions,
}

impl Bench {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let (results, outputs) = match self {
            Self::Ab(ab) => {
                let order = (ab.order, ab.same_seed);
                let (request, outputs) = ab.load.request(Api::Messages, order)?;
                let progress = Display::default();
                let results = block_on(load::ab(&request, &|word| progress.show(word)));
                Display::clear();
                (vec![results?.map_err(failure)?], outputs)
            }
            Self::Run(run) => {
                let order = (vec!["on".to_owned()], false);
                let (request, outputs) = run.load.request(run.api, order)?;
                let progress = Display::default();
                let results = block_on(load::run(&request, &|word| progress.show(word)));
                Display::clear();
                (vec![results?.map_err(failure)?], outputs)
            }
            Self::Report(report) => {
                report.outputs.files().check().map_err(failure)?;
                let results = report::load(&report.files).map_err(failure)?;
                (results, report.outputs)
            }
        };
        outputs.write(&results).map_err(failure)?;
        Ok(Exit::Done)
    }
}

impl Load {
    fn request(
        self,
        api: Api,
        (order, same_seed): (Vec<String>, bool),
    ) -> Result<(BenchRequest, OutputOptions), Failure> {
        self.outputs.files().check().map_err(failure)?;
        let shape = self.shape;
        let tls = warden::commands::client_tls(&self.url, issuers().as_deref());
        let request = BenchRequest {
            tls: tls.map_err(status::failure)?,
            url: self.url,
            key: std::env::var("LM_WARDEN_KEY").ok(),
            model: self.model,
            api,
            sessions: self.sessions,
            rate: self.rate,
            stage: self.stage,
            drain: self.drain,
            order,
            repeat: self.repeat,
            same_seed,
            seed: self.seed,
            trace: self.trace,
            context: self.context,
            time_scale: self.time_scale,
            shape: Shape {
                shared_tokens: shape.shared_tokens,
                first_tokens: shape.first_tokens,
                further_turns: shape.turns,
                further_tokens: shape.turn_tokens,
                output_tokens: shape.max_tokens,
            },
        };
        Ok((request, self.outputs))
    }
}

impl OutputOptions {
    fn files(&self) -> Outputs {
        Outputs {
            json: self.json.clone(),
            csv: self.csv.clone(),
            html: self.html.clone(),
        }
    }

    /// Prints the tables and writes what was asked for. Figures first: whatever fails after them,
    /// a long run is not lost.
    fn write(&self, results: &[Results]) -> Result<(), BenchError> {
        let out = &mut std::io::stdout().lock();
        for results in results {
            report::print(results, out)?;
        }
        let files = self.files();
        files.write(results)?;
        if let Some(path) = &files.html {
            let progress = Display::default();
            let report = Report::of(results, !self.no_simulation, &|line| {
                progress.show(Progress::Live(format!("simulating: {line}")));
            });
            Display::clear();
            let html = report::html(&report?);
            bench::results::write_atomically(path, html.as_bytes())?;
        }
        Ok(())
    }
}

fn api(name: &str) -> Result<Api, String> {
    match name {
        "messages" => Ok(Api::Messages),
        "chat" => Ok(Api::Chat),
        _ => Err("known are messages and chat".to_owned()),
    }
}

fn failure(error: BenchError) -> Failure {
    let exit = match error {
        BenchError::Option(_)
        | BenchError::Read { .. }
        | BenchError::Shapes { .. }
        | BenchError::NoResults { .. }
        | BenchError::UnknownModel { .. }
        | BenchError::Simulate(_) => Exit::Usage,
        BenchError::Unreachable { .. } | BenchError::NoWarden { .. } => Exit::Unreachable,
        _ => Exit::Failed,
    };
    Failure::new(exit, error)
}

/// Progress on stderr: a line that is overwritten on a terminal, now and then a line elsewhere.
#[derive(Debug, Default)]
struct Display {
    last: Mutex<Option<Instant>>,
}

impl Display {
    fn show(&self, word: Progress) {
        let mut err = std::io::stderr().lock();
        // Nobody may be reading; the run goes on.
        let _ = match word {
            Progress::Live(line) if err.is_terminal() => {
                write!(err, "\r\x1b[2K{line}").and_then(|()| err.flush())
            }
            Progress::Live(line) if self.is_due() => writeln!(err, "{line}"),
            Progress::Live(_) => Ok(()),
            Progress::Done(line) if err.is_terminal() => writeln!(err, "\r\x1b[2K{line}"),
            Progress::Done(line) => writeln!(err, "{line}"),
        };
    }

    fn is_due(&self) -> bool {
        let mut last = self.last.lock().expect("nothing panics while it is held");
        let due = last.is_none_or(|last| last.elapsed() >= LOG_PAUSE);
        if due {
            *last = Some(Instant::now());
        }
        due
    }

    fn clear() {
        let mut err = std::io::stderr().lock();
        if err.is_terminal() {
            let _ = write!(err, "\r\x1b[2K");
        }
    }
}
