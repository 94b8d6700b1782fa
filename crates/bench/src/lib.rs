//! What it costs and what it brings: sessions against a running server, the simulator's runs, and the
//! reports that come of both.

pub mod load;
pub mod option;
pub mod report;
pub mod results;
pub mod simulate;
