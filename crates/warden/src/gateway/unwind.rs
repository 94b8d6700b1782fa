//! Turns a panic while a request is answered into a value.
//!
//! Without it a fault of ours in one request would drop its connection without a word, and the log
//! would blame the client. What the future held is dropped while the panic unwinds, so counts and
//! locks are settled by the time the value is there.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
};

/// The future panicked; the panic hook has told where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Panicked;

/// Runs a future to its end or to its panic.
pub(super) async fn caught<F: Future>(future: F) -> Result<F::Output, Panicked> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        // Nothing of the future is looked at after a panic but its being dropped.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(Panicked)),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_a_value_and_drops_what_was_held_while_it_unwinds() {
        struct Held<'a>(&'a std::cell::Cell<bool>);
        impl Drop for Held<'_> {
            fn drop(&mut self) {
                self.0.set(std::thread::panicking());
            }
        }
        let unwound = std::cell::Cell::new(false);
        let outcome: Result<(), _> = caught(async {
            let _held = Held(&unwound);
            tokio::task::yield_now().await;
            panic!("as in a test");
        })
        .await;
        assert_eq!(outcome, Err(Panicked));
        assert!(unwound.get());
        assert_eq!(caught(async { 7 }).await, Ok(7));
    }
}
