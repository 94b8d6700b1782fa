//! One stage: a window in which sessions run against the server, and the drain of what is in flight
//! when it closes.
//!
//! The scripts are the simulator's, so that a stage can be laid beside a simulated one. A turn that
//! fails ends its session and is counted as failed, never as a turn; a row of failures ends the
//! bench, since figures of a failing engine mean nothing.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use sim::{
    random::Random,
    run::TurnRecord,
    workload::{Place, Session, Workload},
};
use tokio::{sync::Notify, task::JoinSet};

use super::{
    BenchError,
    http::Http,
    transcript::{Api, Transcript, words},
    turn::{self, Reply},
};

/// Pause after a failure, so that a dead server is not hammered.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);
/// So many failures in a row (or one per session, where that is more) end the bench.
const FAILURES_IN_A_ROW: u32 = 5;
/// The clients of a closed loop begin within this part of the window, as nobody starts at once.
const START_SPREAD: u32 = 120;

/// What a stage runs.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    pub(super) workload: Arc<Workload>,
    /// Sessions in parallel, or an hour.
    pub(super) level: u32,
    /// Whether sessions arrive on their own.
    pub(super) is_open: bool,
    pub(super) window: Duration,
    /// How long turns in flight may take after the window.
    pub(super) drain: Duration,
    /// Decides the prompts.
    pub(super) prompt_seed: u64,
    /// Decides the sessions' ids and arrivals; never the same twice, so that the server meets no
    /// session again.
    pub(super) chance_seed: u64,
    pub(super) api: Api,
    pub(super) model: String,
}

/// What happened so far; the progress display reads it while the stage runs.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) turns: Vec<TurnRecord>,
    /// Whether every turn's usage told how much was cached.
    pub(super) cached_is_told: bool,
    pub(super) sent: u64,
    pub(super) failed: u32,
    pub(super) in_flight: u32,
    /// Turns by the route that the warden named.
    pub(super) routes: BTreeMap<String, u64>,
    pub(super) last_failure: Option<String>,
    failures_in_a_row: u32,
}

/// A stage that runs.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) stage: Stage,
    http: Http,
    system: String,
    pub(super) began: Instant,
    tally: Mutex<Tally>,
    fails: Notify,
}

impl Running {
    pub(super) fn new(stage: Stage, http: Http) -> Arc<Self> {
        let place = Place {
            level: stage.level,
            client: 0,
            number: 0,
        };
        let shared_tokens = stage.workload.session(0, place).shared_tokens;
        let mut random = Random::at(stage.prompt_seed, &[u64::from(shared_tokens)]);
        Arc::new(Self {
            system: words(&mut random, shared_tokens),
            stage,
            http,
            began: Instant::now(),
            tally: Mutex::new(Tally {
                cached_is_told: true,
                ..Tally::default()
            }),
            fails: Notify::new(),
        })
    }

    pub(super) fn tally<T>(&self, read: impl FnOnce(&mut Tally) -> T) -> T {
        read(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn window_is_over(&self) -> bool {
        self.began.elapsed() >= self.stage.window
    }

    /// Runs the window and the drain; gives back how many turns were cut.
    pub(super) async fn run(self: &Arc<Self>) -> Result<u32, BenchError> {
        let mut clients = JoinSet::new();
        let run = async {
            if self.stage.is_open {
                self.arrivals(&mut clients).await;
            } else {
                for client in 0..self.stage.level {
                    clients.spawn(Arc::clone(self).client(client));
                }
            }
            while let Some(ended) = clients.join_next().await {
                if let Err(error) = ended
                    && error.is_panic()
                {
                    std::panic::resume_unwind(error.into_panic());
                }
            }
        };
        let bound = self.stage.window + self.stage.drain;
        tokio::select! {
            () = run => Ok(0),
            () = self.fails.notified() => Err(self.tally(|tally| BenchError::EngineFails {
                failures: tally.failures_in_a_row,
                last: tally.last_failure.clone().unwrap_or_default(),
            })),
            () = tokio::time::sleep_until((self.began + bound).into()) => {
                Ok(self.tally(|tally| tally.in_flight))
            }
        }
        // The clients that are left end with their set: dropping them closes their connections.
    }

    /// Sessions that arrive on their own, at random (Poisson), until the window closes.
    async fn arrivals(self: &Arc<Self>, clients: &mut JoinSet<()>) {
        let mut random = Random::at(self.stage.chance_seed, &[1]);
        let mean_s = 3600.0 / f64::from(self.stage.level);
        let mut at_s = 0.0;
        for number in 0.. {
            at_s += -mean_s * (1.0 - random.unit()).ln();
            if at_s >= self.stage.window.as_secs_f64() {
                return;
            }
            tokio::time::sleep_until((self.began + Duration::from_secs_f64(at_s)).into()).await;
            let running = Arc::clone(self);
            clients.spawn(async move { running.session(number, 0).await });
        }
    }

    /// A client of a closed loop: a session after the other.
    async fn client(self: Arc<Self>, client: u32) {
        let mut random = Random::at(self.stage.chance_seed, &[0, u64::from(client)]);
        tokio::time::sleep((self.stage.window / START_SPREAD).mul_f64(random.unit())).await;
        for number in 0.. {
            if self.window_is_over() {
                return;
            }
            self.session(client, number).await;
        }
    }

    async fn session(&self, client: u32, number: u32) {
        let stage = &self.stage;
        let place = Place {
            level: stage.level,
            client,
            number,
        };
        let session = stage.workload.session(stage.prompt_seed, place);
        let mut id = Random::at(
            stage.chance_seed,
            &[2, u64::from(client), u64::from(number)],
        );
        let (id, agent) = (uuid(&mut id), format!("{:016x}", id.bits()));
        let headers = turn::headers(stage.api, &id, &agent);
        let text = Random::new(session.id);
        let mut script = Script {
            client,
            number,
            transcript: Transcript::new(self.system.clone(), session.shared_tokens, text),
            known_tokens: 0,
            session,
        };
        for index in 0..script.session.turns.len() {
            tokio::time::sleep(Duration::from_micros(script.session.turns[index].think_us)).await;
            if self.window_is_over() {
                return;
            }
            if let Err(failure) = self.turn(&mut script, index, headers.clone()).await {
                self.failed(failure);
                tokio::time::sleep(FAILURE_PAUSE.min(stage.window / START_SPREAD)).await;
                return;
            }
        }
    }

    async fn turn(
        &self,
        script: &mut Script,
        index: usize,
        headers: http::HeaderMap,
    ) -> Result<(), String> {
        let stage = &self.stage;
        let turn = script.session.turns[index];
        script.transcript.ask(&turn);
        let body = script
            .transcript
            .body(stage.api, &stage.model, turn.output_tokens);
        let body = Bytes::from(body.to_string());
        self.tally(|tally| {
            tally.sent += 1;
            tally.in_flight += 1;
        });
        let sent = Instant::now();
        let reply = turn::send(&self.http, stage.api, headers, body).await;
        let ended = Instant::now();
        self.tally(|tally| tally.in_flight -= 1);
        let reply = reply?;
        let record = self.record(script, index, &reply, (sent, ended));
        self.tally(|tally| {
            tally.cached_is_told &= reply.usage.cached_tokens.is_some();
            if let Some(route) = &reply.route {
                *tally.routes.entry(route.clone()).or_default() += 1;
            }
            tally.turns.push(record);
            tally.failures_in_a_row = 0;
        });
        let answer_tokens = reply.usage.completion_tokens as u32;
        script.known_tokens = reply.usage.prompt_tokens as u32 + answer_tokens;
        script.transcript.answered(reply.text, answer_tokens);
        Ok(())
    }

    fn record(
        &self,
        script: &Script,
        index: usize,
        reply: &Reply,
        (sent, ended): (Instant, Instant),
    ) -> TurnRecord {
        let at_us = |at: Instant| at.duration_since(self.began).as_micros() as u64;
        let turn = script.session.turns[index];
        let shared_tokens = script.session.shared_tokens;
        let prompt_tokens = reply.usage.prompt_tokens as u32;
        let known_tokens = script.known_tokens.min(turn.kept_tokens).min(prompt_tokens);
        let stayed = match reply.route.as_deref() {
            Some("sticky") => Some(true),
            Some("spilled" | "moved") => Some(false),
            _ => None,
        };
        TurnRecord {
            client: script.client,
            owner: script.session.owner,
            session: script.number,
            turn: index as u32,
            is_last: index + 1 == script.session.turns.len(),
            replica: reply.replica.map_or(usize::MAX, usize::from),
            stayed,
            sent_us: at_us(sent),
            first_byte_us: at_us(reply.first_event),
            end_us: at_us(ended),
            queued_us: reply.queue_ms.map_or(0, |queue_ms| (queue_ms * 1e3) as u64),
            prompt_tokens,
            cached_tokens: reply.usage.cached_tokens.unwrap_or(0) as u32,
            shared_tokens,
            own_known_tokens: known_tokens.saturating_sub(shared_tokens),
            output_tokens: reply.usage.completion_tokens as u32,
        }
    }

    fn failed(&self, failure: String) {
        let in_a_row = self.tally(|tally| {
            tally.failed += 1;
            tally.last_failure = Some(failure);
            tally.failures_in_a_row += 1;
            tally.failures_in_a_row
        });
        let clients = if self.stage.is_open {
            0
        } else {
            self.stage.level
        };
        if in_a_row >= FAILURES_IN_A_ROW.max(clients) {
            self.fails.notify_one();
        }
    }
}

/// A session that runs.
struct Script {
    client: u32,
    number: u32,
    session: Session,
    transcript: Transcript,
    /// Tokens sent and received so far.
    known_tokens: u32,
}

/// A random id in the form that Claude Code's sessions have.
fn uuid(random: &mut Random) -> String {
    let (high, low) = (random.bits(), random.bits());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        0x8000 | (low >> 48) & 0x3fff,
        low & 0xffff_ffff_ffff
    )
}
