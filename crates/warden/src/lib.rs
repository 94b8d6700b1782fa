//! The service: gateway, supervision of engines, telemetry, operators' API and pages.
//!
//! Decides no route (that is `routing`) and parses no engine bytes (that is `vllm`).

pub mod clock;
pub mod commands;
pub mod config;
pub mod doctor;
pub mod fetch;
mod file_mark;
pub mod fleet;
pub mod fuzzing;
pub mod gateway;
pub mod gpus;
pub mod history;
pub mod keys;
mod open_files;
pub mod operators;
pub mod persist;
pub mod reload;
mod seldom;
pub mod serve;
mod site;
pub mod supervisor;
pub mod telemetry;
pub mod upstream;
