//! One request's way between its HTTP handler and its rank: outputs come one way, and dropping the
//! handler's end aborts the request, wherever it is.

use sim::scheduler::RequestId;
use tokio::sync::mpsc;

use crate::{balancer::Ticket, plan::Plan};

/// A request for a rank.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) id: RequestId,
    pub(crate) prompt: Vec<u32>,
    /// Of its `cache_salt`; [`sim::scheduler::UNSALTED`] without one.
    pub(crate) salt: u64,
    /// Ids of the tokens that it will generate.
    pub(crate) output: Vec<u32>,
    /// Whether the last of them stops it; else it ends by length.
    pub(crate) stops: bool,
    pub(crate) outputs: mpsc::UnboundedSender<Output>,
}

/// What a rank is told.
#[derive(Debug)]
pub(crate) enum Command {
    Add(Submission),
    Abort(RequestId),
    /// Ends all requests as `abort` and stands still, as a rank does whose server is dying.
    Die,
    ResetPrefixCache,
}

/// One token of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// Prompt tokens found in the prefix cache at admission.
    pub(crate) cached: u32,
    /// Tokens generated in this step: 1, or 0 where the request was aborted.
    pub(crate) tokens: u32,
    pub(crate) finish: Option<Finish>,
}

/// Why a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Finish {
    Stop,
    Length,
    Abort,
}

impl Finish {
    /// All, in the order of vLLM's metrics.
    pub(crate) const ALL: [Self; 3] = [Self::Stop, Self::Length, Self::Abort];

    /// vLLM's word.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Abort => "abort",
        }
    }
}

/// Tokens of a request so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) prompt: u32,
    /// Of the prompt, read from the cache; known with the first token.
    pub(crate) cached: u32,
    /// Of the prompt, newly written to the cache: its other full blocks.
    pub(crate) created: u32,
    pub(crate) completion: u32,
}

/// A request in the engine. Dropping it before its end aborts it.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) plan: Plan,
    pub(crate) usage: Usage,
    pub(crate) outputs: mpsc::UnboundedReceiver<Output>,
    pub(crate) block_size: u32,
    pub(crate) guard: AbortGuard,
    /// Counts it as in flight at its API server.
    pub(crate) _ticket: Ticket,
}

/// Tells the rank that the client left, unless the request has ended.
#[derive(Debug)]
pub(crate) struct AbortGuard {
    pub(crate) id: RequestId,
    pub(crate) rank: mpsc::UnboundedSender<Command>,
    pub(crate) ended: bool,
}

impl Drop for AbortGuard {
    fn drop(&mut self) {
        if !self.ended {
            // A closed channel means that the rank is gone, and the request with it.
            let _ = self.rank.send(Command::Abort(self.id));
        }
    }
}

impl Generation {
    /// The next token; `None` where the engine died.
    pub(crate) async fn next(&mut self) -> Option<Output> {
        let output = self.outputs.recv().await?;
        let usage = &mut self.usage;
        usage.cached = output.cached;
        usage.created =
            (usage.prompt / self.block_size * self.block_size).saturating_sub(output.cached);
        usage.completion += output.tokens;
        self.guard.ended = output.finish.is_some();
        Some(output)
    }
}
