//! Cards that models on demand take turns on. A model holds all of its cards while it runs; who
//! wants one that is held waits in line, and the holder is told that somebody does.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

/// All cards.
#[derive(Debug, Default)]
pub(super) struct Cards(Mutex<BTreeMap<u32, Arc<Card>>>);

#[derive(Debug, Default)]
struct Card {
    /// Fair: those who wait get it in the order they came.
    turn: Arc<Turn<()>>,
    waiting: AtomicUsize,
}

/// Cards that are held until this is dropped.
#[derive(Debug)]
pub(super) struct Held {
    cards: Vec<Arc<Card>>,
    _turns: Vec<OwnedMutexGuard<()>>,
}

/// One waiter in a card's count, however its waiting ends.
struct Waiting<'a>(&'a Card);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Cards {
    /// Waits for all of these cards. Taken in ascending order, so that two who want the same ones
    /// never wait for each other.
    pub(super) async fn take(&self, numbers: &[u32]) -> Held {
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        let cards: Vec<Arc<Card>> = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let card = |number| Arc::clone(all.entry(number).or_default());
            numbers.into_iter().map(card).collect()
        };
        let mut turns = Vec::new();
        for card in &cards {
            card.waiting.fetch_add(1, Ordering::AcqRel);
            let waiting = Waiting(card);
            turns.push(Arc::clone(&card.turn).lock_owned().await);
            drop(waiting);
        }
        Held {
            cards,
            _turns: turns,
        }
    }
}

impl Held {
    /// Whether somebody waits for one of them.
    pub(super) fn is_wanted(&self) -> bool {
        let waits = |card: &Arc<Card>| card.waiting.load(Ordering::Acquire) > 0;
        self.cards.iter().any(waits)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;

    #[test]
    fn cards_are_handed_over_in_turn() {
        let cards = Cards::default();
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(first) = pin!(cards.take(&[1, 0])).poll(&mut cx) else {
            panic!("free cards are had at once");
        };
        assert!(!first.is_wanted());
        let mut second = pin!(cards.take(&[1]));
        let mut third = pin!(cards.take(&[0, 1]));
        assert!(second.as_mut().poll(&mut cx).is_pending());
        assert!(third.as_mut().poll(&mut cx).is_pending());
        assert!(first.is_wanted());
        drop(first);
        let Poll::Ready(held) = second.as_mut().poll(&mut cx) else {
            panic!("it was the next");
        };
        assert!(third.as_mut().poll(&mut cx).is_pending());
        drop(held);
        assert!(third.as_mut().poll(&mut cx).is_ready());
    }
}
