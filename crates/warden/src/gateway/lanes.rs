//! The threads that serve connections: each runs the tasks of its own connections and no others.
//!
//! A request of some hundred KB costs less than waking another thread to carry on with it, so a
//! scheduler that moves tasks to idle workers loses more than it gains here. A connection therefore
//! stays on the lane that it was given to, the one with the fewest connections, and with it what it
//! asks of the engines (`upstream::pool` hands out connections of the caller's own thread first).
//! Everything that is no connection (probes, scrapes, supervision) stays on the main runtime.

use std::{
    io,
    num::NonZero,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

use tokio::{
    net::TcpStream,
    runtime::{Builder, Handle},
    sync::oneshot,
};

/// One thread forwards some thousand requests a second; more lanes than this wait for each other.
const LANES_MAX: usize = 8;

/// Dropping them ends their threads, and with those the tasks that are left.
#[derive(Debug)]
pub struct Lanes {
    lanes: Vec<Lane>,
}

impl Lanes {
    /// A lane per processor, up to a bound.
    ///
    /// # Errors
    ///
    /// The system gives no further thread or event queue.
    pub fn start() -> io::Result<Self> {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        Self::start_some(processors.min(LANES_MAX))
    }

    fn start_some(count: usize) -> io::Result<Self> {
        let lanes = (0..count).map(Lane::start);
        Ok(Self {
            lanes: lanes.collect::<io::Result<_>>()?,
        })
    }

    /// Serves a connection on the lane that has the fewest.
    ///
    /// # Errors
    ///
    /// The connection cannot leave the runtime that accepted it.
    pub(super) fn spawn<F>(
        &self,
        stream: TcpStream,
        serve: impl FnOnce(TcpStream) -> F + Send + 'static,
    ) -> io::Result<()>
    where
        F: Future<Output = ()> + Send,
    {
        let stream = stream.into_std()?;
        let lane = self.lanes.iter().min_by_key(|lane| lane.load());
        let lane = lane.expect("there is at least one lane");
        let ride = Ride::begin(&lane.connections);
        lane.handle.spawn(async move {
            match TcpStream::from_std(stream) {
                Ok(stream) => serve(stream).await,
                Err(error) => tracing::warn!(%error, "a connection could not be served"),
            }
            drop(ride);
        });
        Ok(())
    }
}

#[derive(Debug)]
struct Lane {
    handle: Handle,
    connections: Arc<AtomicUsize>,
    /// Dropped to end the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Lane {
    fn start(number: usize) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new()
            .name(format!("lane-{number}"))
            .spawn(move || {
                let _ = runtime.block_on(stopped);
                // Without waiting for what still runs on its blocking threads (a query of pages).
                runtime.shutdown_background();
            })?;
        Ok(Self {
            handle,
            connections: Arc::default(),
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    fn load(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic on it was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// Counts a connection on its lane for as long as it lasts.
struct Ride(Arc<AtomicUsize>);

impl Ride {
    fn begin(connections: &Arc<AtomicUsize>) -> Self {
        connections.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(connections))
    }
}

impl Drop for Ride {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    /// Opens a connection whose far end says which lane it is on and stays until this end closes.
    async fn open(lanes: &Lanes, listener: &TcpListener) -> (TcpStream, u8) {
        let address = listener.local_addr().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let serve = |mut stream: TcpStream| async move {
            let lane = thread::current().name().unwrap().as_bytes().to_vec();
            stream.write_all(&lane[lane.len() - 1..]).await.unwrap();
            let _ = stream.read_u8().await;
        };
        lanes.spawn(accepted.unwrap().0, serve).unwrap();
        let mut client = client.unwrap();
        let lane = client.read_u8().await.unwrap();
        (client, lane)
    }

    #[tokio::test]
    async fn a_connection_goes_where_the_fewest_are() {
        let lanes = Lanes::start_some(2).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (first, on) = open(&lanes, &listener).await;
        let (_second, other) = open(&lanes, &listener).await;
        assert_ne!(on, other);
        drop(first);
        while lanes.lanes[usize::from(on - b'0')].load() > 0 {
            tokio::task::yield_now().await;
        }
        let (_third, again) = open(&lanes, &listener).await;
        assert_eq!(again, on);
    }

    #[tokio::test]
    async fn no_task_outlives_the_lanes() {
        let lanes = Lanes::start_some(1).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (mut client, _) = open(&lanes, &listener).await;
        drop(lanes);
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    }
}
