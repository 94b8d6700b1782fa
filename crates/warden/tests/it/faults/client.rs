//! Simulated agents: some stay for every reply, some leave at any point, some are slow.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncWriteExt, DuplexStream, duplex},
    time::{sleep, timeout},
};

use super::{Run, dice::Dice};
use crate::support::{Ended, Wire, chat_body, messages_body, post};

/// What one client saw of one request.
#[derive(Clone)]
pub(super) struct Seen {
    pub(super) marker: String,
    /// `None` where the client left before it saw how it ended.
    pub(super) outcome: Option<(u16, Ended, Vec<u8>)>,
    /// When it was over for the client, in virtual time since the start.
    pub(super) at: Duration,
}

impl std::fmt::Debug for Seen {
    /// Without the body, whose errors name ids that differ from run to run.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let outcome = self.outcome.as_ref();
        let outcome = outcome.map(|(status, ended, body)| (status, ended, body.len()));
        write!(f, "{} {outcome:?} at {:?}", self.marker, self.at)
    }
}

#[derive(Debug, Clone, Copy)]
enum Manner {
    Stays,
    /// Sends this much of the request and leaves.
    LeavesWithin(usize),
    /// Sends it all, and leaves so much later.
    LeavesAfter(u64),
    /// Sends a byte, or reads a chunk, and rests.
    Slow(u64),
    /// Says that it will send nothing more, and reads.
    HalfCloses,
}

fn manner(dice: &mut Dice) -> Manner {
    match dice.below(10) {
        0 => Manner::LeavesWithin(dice.below(400) as usize),
        1 | 2 => Manner::LeavesAfter(*dice.pick(&[0, 1, 20, 700, 6_000, 30_000])),
        3 => Manner::Slow(dice.below(40)),
        4 => Manner::HalfCloses,
        _ => Manner::Stays,
    }
}

/// A session: some turns, one after the other.
pub(super) async fn session(run: Arc<Run>, number: u64) {
    let mut dice = Dice::of(run.seed, &format!("client {number}"));
    let mut kept: Option<Wire<DuplexStream>> = None;
    for turn in 0..=dice.below(6) {
        sleep(Duration::from_millis(dice.below(8_000))).await;
        let marker = format!("c{number}-{turn}");
        let request = request(&mut dice, number, &marker);
        let manner = manner(&mut dice);
        let mut wire = match kept.take().filter(|_| dice.percent(60)) {
            Some(wire) => wire,
            None => Wire::over(connect(&run)),
        };
        let outcome = ask(&mut wire, &request, manner).await;
        let stays = matches!(manner, Manner::Stays | Manner::Slow(_));
        if stays && matches!(outcome, Some((_, Ended::Cleanly, _))) {
            kept = Some(wire);
        }
        run.saw(Seen {
            marker,
            outcome,
            at: run.began.elapsed(),
        });
    }
}

fn connect(run: &Arc<Run>) -> DuplexStream {
    let (near, far) = duplex(8 << 10);
    tokio::spawn(Arc::clone(run).serve(far));
    near
}

fn request(dice: &mut Dice, session: u64, marker: &str) -> Vec<u8> {
    let streams = dice.percent(80);
    let (path, body) = match dice.below(8) {
        0 => ("/v1/messages/count_tokens", messages_body(false)),
        1..=3 => ("/v1/chat/completions", chat_body(streams)),
        _ => ("/v1/messages", messages_body(streams)),
    };
    // The query tells the engine, which does not parse bodies.
    let path = format!("{path}?stream={}", u8::from(streams));
    let headers = format!("x-claude-code-session-id: s{session}\r\nx-marker: {marker}\r\n");
    post(&path, &headers, body)
}

async fn ask(
    wire: &mut Wire<DuplexStream>,
    request: &[u8],
    manner: Manner,
) -> Option<(u16, Ended, Vec<u8>)> {
    let rest = match manner {
        Manner::Slow(ms) => Duration::from_millis(ms),
        _ => Duration::ZERO,
    };
    match manner {
        Manner::LeavesWithin(bytes) => {
            let _ = wire.write(&request[..bytes.min(request.len())]).await;
            return None;
        }
        Manner::Slow(_) => {
            for byte in request.chunks(7) {
                sleep(rest).await;
                wire.write(byte).await.ok()?;
            }
        }
        _ => wire.write(request).await.ok()?,
    }
    match manner {
        Manner::LeavesAfter(ms) => timeout(Duration::from_millis(ms), read(wire, rest))
            .await
            .ok(),
        Manner::HalfCloses => {
            wire.stream.shutdown().await.unwrap();
            Some(read(wire, rest).await)
        }
        _ => Some(read(wire, rest).await),
    }
}

/// A reply as it ended; status 0 where the connection ended without one.
async fn read(wire: &mut Wire<DuplexStream>, rest: Duration) -> (u16, Ended, Vec<u8>) {
    let Some(head) = wire.head().await else {
        return (0, Ended::Broken, Vec::new());
    };
    let status = head.line.split(' ').nth(1).unwrap().parse().unwrap();
    let mut body = Vec::new();
    if head.header("transfer-encoding") == Some("chunked") {
        loop {
            sleep(rest).await;
            match wire.chunk().await {
                Some(chunk) if chunk.is_empty() => return (status, Ended::Cleanly, body),
                Some(chunk) => body.extend_from_slice(&chunk),
                None => return (status, Ended::Broken, body),
            }
        }
    }
    let length = head.header("content-length").unwrap_or("0");
    match wire.exactly(length.parse().unwrap()).await {
        Some(bytes) => (status, Ended::Cleanly, bytes),
        None => (status, Ended::Broken, body),
    }
}

/// Virtual time that all sessions may take.
pub(super) const SESSIONS_MAX: Duration = Duration::from_secs(2 * 3600);

/// Jumps ahead at some moment, as a suspended machine does.
pub(super) async fn jump(mut dice: Dice) {
    if dice.percent(15) {
        sleep(Duration::from_millis(dice.below(60_000))).await;
        tokio::time::advance(Duration::from_secs(dice.below(3_600))).await;
    }
}
