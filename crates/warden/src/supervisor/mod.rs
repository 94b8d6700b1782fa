//! Engines that the warden starts itself: their processes, from the first spawn to the last exit.

pub mod machine;
