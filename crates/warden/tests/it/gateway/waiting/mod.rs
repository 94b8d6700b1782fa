//! Requests that wait at the gateway: what their clients hear, and every way in which a wait ends.

mod ends;
mod hall;
mod heard;
