//! Log lines on their way out, written by a thread of their own.
//!
//! Whoever reads the log may stop reading (Ctrl-S in a terminal, a full pipe). That must not stop
//! requests, so lines wait in a bounded queue, and what does not fit is counted and told.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

/// Lines that may wait.
const LINES_MAX: usize = 8192;
/// How long an end waits for the last lines to be read.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

enum Message {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// Takes lines, one per write, without ever waiting.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    queue: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

/// Writes what waits when it is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Flushed(SyncSender<Message>);

/// A way for lines to the sink. Where no thread can be had, lines are lost and nothing else.
pub(super) fn to(sink: impl Write + Send + 'static) -> (Lines, Flushed) {
    let (queue, messages) = sync_channel(LINES_MAX);
    let lost = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&lost);
    let _ = thread::Builder::new()
        .name("log".to_owned())
        .spawn(move || write_all(&messages, sink, &counted));
    let flushed = Flushed(queue.clone());
    (Lines { queue, lost }, flushed)
}

fn write_all(messages: &Receiver<Message>, mut sink: impl Write, lost: &AtomicU64) {
    while let Ok(message) = messages.recv() {
        // A sink that is gone takes nothing, and there is nowhere to say so.
        let _ = match message {
            Message::Line(line) => sink.write_all(&line),
            Message::Flush(done) => sink
                .flush()
                .and_then(|()| done.send(()).map_err(io::Error::other)),
        };
        let lost = lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ = writeln!(
                sink,
                "{lost} log lines were lost: they were not read fast enough"
            );
        }
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.queue.try_send(Message::Line(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Flushed {
    fn drop(&mut self) {
        let (done, flushed) = sync_channel(1);
        if self.0.try_send(Message::Flush(done)).is_ok() {
            // Not read in time: the end does not wait for a reader that has left.
            let _ = flushed.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use super::*;

    /// Waits for leave to write, as a terminal after Ctrl-S.
    struct Stopped {
        go: mpsc::Receiver<()>,
        going: bool,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Stopped {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if !self.going {
                self.go.recv().map_err(io::Error::other)?;
                self.going = true;
            }
            self.written.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stops_loses_lines_but_stops_nobody() {
        let (let_go, go) = mpsc::channel();
        let written = Arc::new(Mutex::new(Vec::new()));
        let sink = Stopped {
            go,
            going: false,
            written: Arc::clone(&written),
        };
        let (mut lines, flushed) = to(sink);
        // One line may be in the writer's hands, and the queue holds its most.
        let surplus = 10;
        for _ in 0..LINES_MAX + 1 + surplus {
            lines.write_all(b"line\n").unwrap();
        }
        let lost = lines.lost.load(Ordering::Relaxed);
        assert!(
            (surplus as u64..=surplus as u64 + 1).contains(&lost),
            "{lost}"
        );
        let_go.send(()).unwrap();
        // The queue is full at first, so the end is told only once there is room.
        let (done, wrote) = sync_channel(1);
        lines.queue.send(Message::Flush(done)).unwrap();
        wrote.recv().unwrap();
        drop(flushed);
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        assert!(
            text.contains(&format!("{lost} log lines were lost")),
            "{lost}"
        );
        let kept = text.lines().filter(|line| *line == "line").count();
        assert_eq!(kept as u64, (LINES_MAX + 1 + surplus) as u64 - lost);
    }
}
