//! Models and their replicas: what is served, where it is reached, and how it is doing.

mod model;

pub use model::{Fleet, Model, ModelState, ReplicaTarget, RouterCell};
