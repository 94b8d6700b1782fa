//! `lm-warden simulate`: runs the simulator on what the user names, and tells what came out.
//!
//! The model itself is in `sim`, which does no I/O. Here files are read, seeds are spread over the
//! processor's cores, tables are printed, and errors are sorted into the user's and ours.

mod check_trace;
mod columns;
mod compare;
mod error;
mod figures;
mod fit;
mod leases_cases;
mod leases_study;
mod leases_variants;
mod plan;
mod relief;
mod request;
mod run;
mod series;
mod table;
#[cfg(test)]
mod tests;

pub use check_trace::check_trace;
pub use error::SimulateError;
pub(crate) use figures::FIGURES;
pub use fit::{FitRequest, fit};
pub use leases_study::{LeasesStudyRequest, leases_study};
pub use plan::{PlanRequest, plan};
pub use relief::host_gib;
pub(crate) use request::tokens;
pub use request::{RunRequest, duration_s};
pub use run::{results, run};
