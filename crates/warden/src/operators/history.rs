//! `GET /history`.

use std::sync::Arc;

use axum::{Json, extract::State};

use super::{Operators, error::ApiError};
use crate::history::HistoryError;

pub(super) async fn get(State(operators): State<Arc<Operators>>) -> Json<api::HistoryState> {
    Json(operators.history.state())
}

impl From<HistoryError> for ApiError {
    fn from(error: HistoryError) -> Self {
        match error {
            HistoryError::Unavailable(_) => Self::NoHistory(error.to_string()),
            HistoryError::TooSlow => Self::TooSlow(error.to_string()),
        }
    }
}
