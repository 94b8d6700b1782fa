//! The body of a streamed reply: events from a task, one frame each, with faults on demand.

use std::{
    io,
    pin::Pin,
    sync::atomic::Ordering::Relaxed,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::sync::mpsc;

use super::{Connection, writer::Events};
use crate::faults::{Fault, FaultKind};

/// Events that wait for a slow reader before the reply's task does.
const EVENTS_BUFFERED_MAX: usize = 64;

/// The client left, or a fault has ended the stream.
#[derive(Debug)]
pub(crate) struct Gone;

/// The writing end.
pub(crate) struct EventSender {
    frames: mpsc::Sender<io::Result<Bytes>>,
    connection: Connection,
    faults: Vec<Fault>,
    sent: u32,
}

/// The reading end, as hyper polls it.
pub(crate) struct EventBody {
    frames: mpsc::Receiver<io::Result<Bytes>>,
    /// An error that waits until what came before it is written.
    broken: Option<io::Error>,
}

/// A stream with the faults that its request met.
pub(crate) fn channel(connection: Connection, faults: Vec<Fault>) -> (EventSender, EventBody) {
    let (sender, receiver) = mpsc::channel(EVENTS_BUFFERED_MAX);
    let sender = EventSender {
        frames: sender,
        connection,
        faults,
        sent: 0,
    };
    let body = EventBody {
        frames: receiver,
        broken: None,
    };
    (sender, body)
}

impl EventSender {
    /// Returns once the client has left.
    pub(crate) async fn left(&self) {
        self.frames.closed().await;
    }

    /// Sends events, unless a fault is due or the client has left.
    pub(crate) async fn send(&mut self, events: &mut Events) -> Result<(), Gone> {
        for event in events.0.drain(..) {
            self.fault_due().await?;
            self.frames.send(Ok(event)).await.map_err(|_| Gone)?;
            self.sent += 1;
        }
        Ok(())
    }

    /// Breaks the stream off visibly.
    pub(crate) async fn reset(&self) -> Gone {
        self.connection.reset.store(true, Relaxed);
        let broken = io::Error::from(io::ErrorKind::ConnectionReset);
        let _ = self.frames.send(Err(broken)).await;
        Gone
    }

    async fn fault_due(&mut self) -> Result<(), Gone> {
        let sent = self.sent;
        let is_due = |fault: &mut Fault| match fault.kind {
            FaultKind::Slow => sent == 0,
            _ => sent == fault.events,
        };
        let due: Vec<Fault> = self.faults.extract_if(.., is_due).collect();
        for fault in due {
            match fault.kind {
                FaultKind::Reset => return Err(self.reset().await),
                _ => self.pause(&fault).await?,
            }
        }
        Ok(())
    }

    async fn pause(&self, fault: &Fault) -> Result<(), Gone> {
        tokio::select! {
            () = wait(fault) => Ok(()),
            () = self.left() => Err(Gone),
        }
    }
}

/// Lets the time of a delaying fault pass.
pub(crate) async fn wait(fault: &Fault) {
    match (fault.kind, fault.duration) {
        (_, Some(duration)) => tokio::time::sleep(duration).await,
        (FaultKind::Slow, None) => tokio::time::sleep(Duration::from_secs(1)).await,
        (_, None) => std::future::pending().await,
    }
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(error) = self.broken.take() {
            return Poll::Ready(Some(Err(error)));
        }
        match ready!(self.frames.poll_recv(context)) {
            // hyper writes out what it holds only when the body has nothing more: let it do so, so
            // that the events before a break do arrive.
            Some(Err(error)) => {
                self.broken = Some(error);
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Some(Ok(event)) => Poll::Ready(Some(Ok(Frame::data(event)))),
            None => Poll::Ready(None),
        }
    }
}
