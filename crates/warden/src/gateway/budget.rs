//! One allowance of bytes for all bodies that are held at the same time.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// The allowance. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    held: AtomicUsize,
    max: usize,
}

impl Budget {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Shared {
            held: AtomicUsize::new(0),
            max: bytes_max,
        }))
    }

    /// A share of nothing yet.
    pub(super) fn share(&self) -> Share {
        Share {
            budget: self.clone(),
            bytes: 0,
        }
    }

    /// Bytes held by all shares.
    pub(super) fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }
}

/// What one request holds; given back when dropped.
#[derive(Debug)]
pub(super) struct Share {
    budget: Budget,
    bytes: usize,
}

impl Share {
    /// Takes `bytes` more; false, and nothing taken, where the allowance does not reach.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let max = self.budget.0.max;
        let took = self
            .budget
            .0
            .held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
                held.checked_add(bytes).filter(|held| *held <= max)
            })
            .is_ok();
        if took {
            self.bytes += bytes;
        }
        took
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.0.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_are_given_back() {
        let budget = Budget::new(10);
        let (mut a, mut b) = (budget.share(), budget.share());
        assert!(a.grow(6));
        assert!(!b.grow(5), "11 of 10");
        assert!(b.grow(4));
        assert!(!a.grow(1));
        assert_eq!(budget.held(), 10);
        drop(a);
        assert_eq!(budget.held(), 4);
        assert!(b.grow(6));
        assert!(!b.grow(usize::MAX), "no overflow");
        drop(b);
        assert_eq!(budget.held(), 0);
    }
}
