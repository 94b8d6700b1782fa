//! The `vllm serve` process as seen from outside: the command line that starts it, and what its
//! log tells about how far it has come or why it died. Starting and watching it is the warden's.

mod command;
mod startup;
mod tool_parser;

pub use command::{GpuError, ServeCommand, assign_gpus};
pub use startup::{FailureCause, Phase, failure_cause, kv_gib_of_line, phase_of_line};
pub use tool_parser::tool_parser_for;
