//! Log lines on their way out, written by a thread of their own.
//!
//! Whoever reads the log may stop reading (Ctrl-S in a terminal, a full pipe). That must not stop
//! requests, so lines wait in a bounded queue, and what does not fit is counted and told. Lines that
//! follow each other closely leave with one write: to wake a thread and to write once per request
//! cost more CPU time than all else that a short request needs here.

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
/// After a write, lines gather for so long: too short for people to notice.
const GATHER: Duration = Duration::from_millis(10);
/// What one write takes at most, give or take a line.
const WRITE_BYTES_MAX: usize = 64 << 10;
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
    let mut text = Vec::new();
    while let Ok(first) = messages.recv() {
        let mut done = None;
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Line(line) => text.extend(line),
                Message::Flush(waiting) => done = Some(waiting),
            }
            let full = text.len() >= WRITE_BYTES_MAX || done.is_some();
            next = (!full).then(|| messages.try_recv().ok()).flatten();
        }
        // A sink that is gone takes nothing, and there is nowhere to say so.
        let _ = sink.write_all(&text).and_then(|()| sink.flush());
        text.clear();
        let lost = lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ = writeln!(
                sink,
                "{lost} log lines were lost: they were not read fast enough"
            );
        }
        match done {
            Some(done) => drop(done.send(())),
            None => thread::sleep(GATHER),
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

    /// Says when the first write begins and waits for leave, as a terminal after Ctrl-S.
    struct Stopped {
        began: mpsc::Sender<()>,
        go: mpsc::Receiver<()>,
        going: bool,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Stopped {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if !self.going {
                self.began.send(()).map_err(io::Error::other)?;
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
        let (began, first_write) = mpsc::channel();
        let (let_go, go) = mpsc::channel();
        let written = Arc::new(Mutex::new(Vec::new()));
        let sink = Stopped {
            began,
            go,
            going: false,
            written: Arc::clone(&written),
        };
        let (mut lines, flushed) = to(sink);
        lines.write_all(b"line\n").unwrap();
        first_write.recv().unwrap();
        // The first line is in the writer's hands, so the queue takes its most.
        let surplus = 10;
        for _ in 0..LINES_MAX + surplus {
            lines.write_all(b"line\n").unwrap();
        }
        assert_eq!(lines.lost.load(Ordering::Relaxed), surplus as u64);
        let_go.send(()).unwrap();
        // The queue is full at first, so the end is told only once there is room.
        let (done, wrote) = sync_channel(1);
        lines.queue.send(Message::Flush(done)).unwrap();
        wrote.recv().unwrap();
        drop(flushed);
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        assert!(text.contains("\n10 log lines were lost"), "{text:.200}");
        let kept = text.lines().filter(|line| *line == "line").count();
        assert_eq!(kept, LINES_MAX + 1);
    }
}
