//! The one owner of a model's router, and the door that waiting requests stand before.
//!
//! Every critical section is a pure in-memory decision of about a microsecond, so a mutex beats a
//! channel to a task; it is never held across an await. Whatever was done with the router, letting go
//! of it hands out the waits that ended by that: nobody has to remember to. For waits that end by
//! themselves a task keeps time, as long as somebody waits.

use std::{
    collections::BTreeMap,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use routing::{Admission, Decision, Refusal, ReplicaIndex, Request, Router, Ticket, Time, Wait};
use tokio::{
    sync::{Notify, oneshot},
    time::sleep,
};

use crate::clock;

type Outcome = Result<Decision, Refusal>;

/// See the module. Clones share the router.
#[derive(Debug, Clone)]
pub struct RouterCell(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// A wait may end sooner than the task that keeps time knows.
    sooner: Notify,
}

#[derive(Debug)]
struct State {
    router: Router,
    /// Whom to tell of the end of a wait.
    waiting: BTreeMap<Ticket, oneshot::Sender<Outcome>>,
    timer: Timer,
}

/// The task that keeps time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timer {
    /// There is none.
    Off,
    /// It looks again then at the latest; `None` where it waits to be told.
    Until(Option<Time>),
}

/// What came of a request.
#[derive(Debug)]
pub enum Admitted {
    /// It goes now.
    Go(Decision),
    /// It waits.
    Wait(Wait, Waiter),
}

impl RouterCell {
    /// Wraps a router.
    pub fn new(router: Router) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(State {
                router,
                waiting: BTreeMap::new(),
                timer: Timer::Off,
            }),
            sooner: Notify::new(),
        }))
    }

    /// Locks it for one decision or observation.
    pub fn lock(&self) -> RouterGuard<'_> {
        self.0.lock()
    }

    /// Decides where a request goes, or lets it wait. Must be called within a runtime.
    pub fn admit(&self, now: Time, request: &Request) -> Result<Admitted, Refusal> {
        let mut guard = self.lock();
        let admission = guard.admit(now, request)?;
        Ok(self.admitted(guard, admission))
    }

    /// The same for a request that failed on a replica before a byte. After a refusal its ticket is
    /// spent.
    pub fn readmit(
        &self,
        now: Time,
        ticket: Ticket,
        failed: ReplicaIndex,
    ) -> Result<Admitted, Refusal> {
        let mut guard = self.lock();
        let admission = guard.readmit(now, ticket, failed)?;
        Ok(self.admitted(guard, admission))
    }

    fn admitted(&self, mut guard: RouterGuard<'_>, admission: Admission) -> Admitted {
        let wait = match admission {
            Admission::Go(decision) => return Admitted::Go(decision),
            Admission::Wait(wait) => wait,
        };
        let (tell, told) = oneshot::channel();
        guard.state.waiting.insert(wait.ticket, tell);
        if guard.state.timer == Timer::Off {
            guard.state.timer = Timer::Until(None);
            tokio::spawn(keep_time(Arc::clone(&self.0)));
        }
        let waiter = Waiter {
            shared: Arc::clone(&self.0),
            ticket: wait.ticket,
            told,
        };
        Admitted::Wait(wait, waiter)
    }
}

impl Shared {
    fn lock(&self) -> RouterGuard<'_> {
        // A panic inside the router leaves a state that every later call can still work on.
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        RouterGuard {
            state,
            sooner: &self.sooner,
        }
    }
}

/// The router, locked.
#[derive(Debug)]
pub struct RouterGuard<'a> {
    state: MutexGuard<'a, State>,
    sooner: &'a Notify,
}

impl Deref for RouterGuard<'_> {
    type Target = Router;

    fn deref(&self) -> &Router {
        &self.state.router
    }
}

impl DerefMut for RouterGuard<'_> {
    fn deref_mut(&mut self) -> &mut Router {
        &mut self.state.router
    }
}

impl Drop for RouterGuard<'_> {
    fn drop(&mut self) {
        let state = &mut *self.state;
        if state.waiting.is_empty() {
            return;
        }
        let now = clock::now();
        for grant in state.router.advance(now) {
            if let Some(tell) = state.waiting.remove(&grant.ticket) {
                // Where nobody listens the client has left, and its ledger counts it out.
                let _ = tell.send(grant.decision);
            }
        }
        let next = state.router.next_wakeup(now);
        let is_sooner = match state.timer {
            Timer::Off => false,
            Timer::Until(until) => next.is_some_and(|next| until.is_none_or(|at| next < at)),
        };
        if is_sooner {
            state.timer = Timer::Until(next);
            self.sooner.notify_one();
        }
    }
}

/// A request's wait. Dropping it tells the router nothing: that is its `Aborted`.
#[derive(Debug)]
pub struct Waiter {
    shared: Arc<Shared>,
    ticket: Ticket,
    told: oneshot::Receiver<Outcome>,
}

impl Waiter {
    /// The end of the wait.
    pub async fn end(&mut self) -> Outcome {
        // The sender goes only with this waiter, or once it has told.
        (&mut self.told).await.unwrap_or(Err(Refusal::NoReplica))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.shared.lock().state.waiting.remove(&self.ticket);
    }
}

/// Looks at the router whenever a wait may end though nothing happens; ends when nobody waits.
async fn keep_time(shared: Arc<Shared>) {
    loop {
        let pause = {
            // Whatever is due ends with this look.
            drop(shared.lock());
            let mut guard = shared.lock();
            if guard.state.waiting.is_empty() {
                guard.state.timer = Timer::Off;
                return;
            }
            let now = clock::now();
            let next = guard.next_wakeup(now);
            guard.state.timer = Timer::Until(next);
            next.map(|next| next.since(now))
        };
        match pause {
            Some(pause) => {
                tokio::select! {
                    () = sleep(pause) => {}
                    () = shared.sooner.notified() => {}
                }
            }
            None => shared.sooner.notified().await,
        }
    }
}
