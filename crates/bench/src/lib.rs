//! What it costs and what it brings: the simulator's runs and the tables that come of them.

pub mod results;
pub mod simulate;
