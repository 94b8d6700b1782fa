//! The machine's cards.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// All cards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Gpus {
    /// By number; empty where none can be seen.
    pub gpus: Vec<Gpu>,
    /// The driver's version.
    pub driver: Option<String>,
    /// Why none can be seen; null where some are.
    pub unavailable: Option<String>,
}

/// One card. What it does not tell is null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Gpu {
    /// Its number, as `nvidia-smi` prints it.
    pub gpu: u32,
    /// Its name.
    pub name: Option<String>,
    /// Its memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// Memory in use, in bytes.
    pub memory_used_bytes: Option<u64>,
    /// Share of the time in which it computed, 0 to 1.
    pub utilisation: Option<f64>,
    /// Degrees Celsius.
    pub temperature_c: Option<f64>,
    /// Watts.
    pub power_w: Option<f64>,
    /// The replicas that are configured to run there.
    pub replicas: Vec<GpuReplica>,
}

/// A replica on a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuReplica {
    /// Its model.
    pub model: String,
    /// Its number.
    pub replica: u16,
}
