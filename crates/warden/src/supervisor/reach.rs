//! How the owner of one server is reached: told what is wanted, and waited for.
//!
//! What is wanted of all servers of a model is `control`'s; what an owner makes of it, `unit`'s.

use std::sync::{Mutex, PoisonError};

use tokio::sync::{mpsc, watch};

use super::{
    machine::State,
    unit::{Command, Handle},
};

/// How a server's owner is reached.
#[derive(Debug)]
pub(super) struct Reach {
    commands: mpsc::Sender<Command>,
    state: watch::Receiver<State>,
    task: Mutex<Option<tokio::task::JoinHandle<()>>>,
    is_adopted: bool,
}

impl From<Handle> for Reach {
    fn from(handle: Handle) -> Self {
        Self {
            commands: handle.commands,
            state: handle.state,
            task: Mutex::new(Some(handle.task)),
            is_adopted: handle.is_adopted,
        }
    }
}

impl Reach {
    pub(super) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// False where its queue is full, or it is gone.
    pub(super) fn tell(&self, command: Command) -> bool {
        self.commands.try_send(command).is_ok()
    }

    /// Waits until a server that was adopted serves, or does not.
    pub(super) async fn settled(&self) {
        if self.is_adopted {
            let mut state = self.state.clone();
            let _ = state
                .wait_for(|state| !matches!(state, State::Starting { .. }))
                .await;
        }
    }

    /// Restarts the server and waits until it serves; false where it has failed.
    pub(super) async fn restart(&self) -> bool {
        let mut state = self.state.clone();
        state.mark_unchanged();
        if self.commands.send(Command::Restart).await.is_err() {
            return false;
        }
        // It serves until the command has arrived.
        let left =
            state.wait_for(|state| !matches!(state, State::Serving { .. } | State::Failed { .. }));
        if left.await.is_err() {
            return false;
        }
        let settled = state.wait_for(|state| {
            matches!(
                state,
                State::Serving { .. } | State::Failed { .. } | State::Stopped
            )
        });
        settled
            .await
            .is_ok_and(|state| matches!(*state, State::Serving { .. }))
    }

    /// Waits until the owner has ended, and before that its engine where that is wanted.
    pub(super) async fn end(&self, stopped: bool) {
        if stopped {
            let mut state = self.state.clone();
            let over =
                state.wait_for(|state| matches!(state, State::Stopped | State::Failed { .. }));
            let _ = over.await;
            let _ = self.commands.send(Command::Leave).await;
        }
        let task = self
            .task
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(task) = task {
            let _ = task.await;
        }
    }
}
