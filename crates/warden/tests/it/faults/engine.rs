//! A simulated engine: what becomes of it over time, and what it does to each request, is drawn
//! from the seed; what it really did is kept.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncWriteExt, DuplexStream},
    sync::watch,
    time::sleep,
};

use super::{
    dice::Dice,
    network::Far,
    reply::{Reply, Step},
};
use crate::support::Wire;

/// How the whole engine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Up,
    /// Stands still, and its probes fail.
    Wedged,
    /// Stands still, and answers its probes.
    SilentlyWedged,
    /// Nobody listens; what was open is reset.
    Down,
    /// Half-open: connects hang.
    Unreachable,
    /// It is well, but no connection can be made for want of a file on this side.
    NoFileLeft,
}

/// One request as it reached an engine.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    pub(super) marker: String,
    /// For whoever reads of a broken law.
    #[expect(dead_code)]
    reply: Reply,
    /// Bytes of a reply's body that were sent.
    pub(super) body_bytes: usize,
    /// The whole body, once all of it was sent as HTTP and the API ask.
    pub(super) whole: Option<(u16, Vec<u8>)>,
}

/// What all engines did, in order.
pub(super) type Log = Arc<Mutex<Vec<Attempt>>>;

#[derive(Debug)]
pub(super) struct Engine {
    seed: u64,
    log: Log,
    state: watch::Sender<State>,
    pub(super) running: AtomicUsize,
    pub(super) open: AtomicUsize,
    pub(super) tokens: AtomicUsize,
}

impl Engine {
    pub(super) fn new(seed: u64, log: &Log) -> Arc<Self> {
        Arc::new(Self {
            seed,
            log: Arc::clone(log),
            state: watch::Sender::new(State::Up),
            running: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            tokens: AtomicUsize::new(0),
        })
    }

    pub(super) fn state(&self) -> State {
        *self.state.borrow()
    }

    pub(super) fn become_(&self, state: State) {
        self.state.send_replace(state);
    }

    /// One connection, to its end.
    pub(super) async fn serve(self: Arc<Self>, far: Far) {
        self.open.fetch_add(1, Ordering::Relaxed);
        let reset = Arc::clone(&far.reset);
        let mut state = self.state.subscribe();
        let was_reset = tokio::select! {
            biased;
            _ = state.wait_for(|state| *state == State::Down) => true,
            was_reset = self.answer(far.pipe) => was_reset,
        };
        reset.store(was_reset, Ordering::Relaxed);
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Answers requests until the connection ends; true where that is by a reset.
    async fn answer(&self, pipe: DuplexStream) -> bool {
        let mut wire = Wire::over(pipe);
        loop {
            self.moves().await;
            let Some(head) = wire.head().await else {
                return false;
            };
            let length = head.header("content-length").unwrap_or("0");
            let Some(_body) = wire.exactly(length.parse().unwrap()).await else {
                return false;
            };
            let marker = head.header("x-marker").unwrap().to_owned();
            let running = Running::of(self);
            let (index, reply) = self.begin(marker);
            for step in reply.steps(&head.line) {
                if let Step::Bytes { .. } | Step::Whole { .. } = step {
                    self.moves().await;
                }
                match step {
                    Step::Wait(ms) => sleep(Duration::from_millis(ms)).await,
                    Step::Forever => wire.closed().await,
                    Step::Reset => return true,
                    Step::Close => return false,
                    Step::Whole { status, body } => {
                        self.log.lock().unwrap()[index].whole = Some((status, body));
                    }
                    Step::Bytes { bytes, of_body } => {
                        self.tokens.fetch_add(1, Ordering::Relaxed);
                        self.log.lock().unwrap()[index].body_bytes += of_body;
                        if wire.stream.write_all(&bytes).await.is_err() {
                            return false;
                        }
                    }
                }
            }
            drop(running);
        }
    }

    fn begin(&self, marker: String) -> (usize, Reply) {
        let mut log = self.log.lock().unwrap();
        let number = log.iter().filter(|one| one.marker == marker).count();
        let mut dice = Dice::of(self.seed, &format!("reply to {marker} {number}"));
        let reply = Reply::draw(&mut dice);
        log.push(Attempt {
            marker,
            reply: reply.clone(),
            body_bytes: 0,
            whole: None,
        });
        (log.len() - 1, reply)
    }

    /// Returns once the engine may go on.
    async fn moves(&self) {
        let stands = |state: &State| matches!(state, State::Wedged | State::SilentlyWedged);
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|state| !stands(state)).await;
    }

    /// Goes through states until it is dropped, ten minutes at most; then it is well.
    pub(super) async fn live(self: Arc<Self>, mut dice: Dice) {
        let calm = dice.percent(40);
        for _ in 0..8 {
            sleep(Duration::from_millis(dice.below(20_000))).await;
            if calm {
                continue;
            }
            self.become_(*dice.pick(&[
                State::Up,
                State::Wedged,
                State::SilentlyWedged,
                State::Down,
                State::Down,
                State::Unreachable,
                State::NoFileLeft,
            ]));
            sleep(Duration::from_millis(dice.below(30_000))).await;
            self.become_(State::Up);
        }
    }
}

/// Counts a request as running while it lives.
struct Running<'a>(&'a Engine);

impl<'a> Running<'a> {
    fn of(engine: &'a Engine) -> Self {
        engine.running.fetch_add(1, Ordering::Relaxed);
        Self(engine)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}
