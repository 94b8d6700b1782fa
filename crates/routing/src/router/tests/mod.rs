//! The promises of routing, one test per rule, each named for it.

mod cache;
mod decision_table;
mod failure;
mod fleet;
mod homes;
mod leases;
mod peers;
mod properties;
mod retry;
mod sides;
mod story;
mod table;
mod wedge;
