//! Parameters of requests, with this API's errors where they do not fit.

use std::time::Duration;

use axum::extract::{
    FromRequest, FromRequestParts, OriginalUri, Path, Query, Request,
    rejection::{PathRejection, QueryRejection},
};
use bytes::Bytes;
use http::{StatusCode, request::Parts};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::{error::ApiError, pages::ASKED_CHARS_MAX};

/// How long a body may take. They are small, and the one of a login may be a stranger's, who could
/// otherwise hold a connection with a byte a minute.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Parts of the path.
#[derive(Debug)]
pub(super) struct InPath<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for InPath<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::from_request_parts(parts, state).await;
        // Names are any text, and numbers name replicas: what does not fit is none of them.
        let none = |_: PathRejection| {
            // Not the one of the request's parts, which lacks what the router took off.
            let uri = parts.extensions.get::<OriginalUri>();
            let path = uri.map_or(parts.uri.path(), |OriginalUri(uri)| uri.path());
            let path: String = path.chars().take(ASKED_CHARS_MAX).collect();
            ApiError::NotFound(format!(
                "there is nothing at {path}: replicas are numbers from 0"
            ))
        };
        path.map(|Path(value)| Self(value)).map_err(none)
    }
}

/// The query.
#[derive(Debug)]
pub(super) struct InQuery<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for InQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query = Query::from_request_parts(parts, state).await;
        let invalid = |error: QueryRejection| ApiError::Invalid(error.body_text());
        query.map(|Query(value)| Self(value)).map_err(invalid)
    }
}

/// The body's bytes.
#[derive(Debug)]
pub(super) struct InBody(pub(super) Bytes);

impl<S: Send + Sync> FromRequest<S> for InBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let body = timeout(BODY_TIMEOUT, Bytes::from_request(request, state));
        match body.await.map_err(|_| ApiError::BodyTimeout)? {
            Ok(bytes) => Ok(Self(bytes)),
            Err(error) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => {
                Err(ApiError::TooLarge)
            }
            Err(error) => Err(ApiError::Invalid(error.body_text())),
        }
    }
}

/// A JSON object; `holds` says what may stand in it.
pub(super) fn object<T: DeserializeOwned>(body: &[u8], holds: &str) -> Result<T, ApiError> {
    // By way of a map, since a list would otherwise pass for an object's values in order.
    serde_json::from_slice::<serde_json::Map<_, _>>(body)
        .and_then(|object| serde_json::from_value(object.into()))
        .map_err(|error| {
            ApiError::Invalid(format!(
                "the body must be a JSON object with {holds}: {error}"
            ))
        })
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use tokio_stream::{StreamExt as _, wrappers::IntervalStream};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_that_trickles_is_not_waited_for() {
        let ticks = IntervalStream::new(tokio::time::interval(Duration::from_secs(1)));
        let bytes = ticks.map(|_| Ok::<_, std::io::Error>(Bytes::from_static(b" ")));
        let slow = Request::new(Body::from_stream(bytes));
        let error = InBody::from_request(slow, &()).await.unwrap_err();
        assert!(matches!(error, ApiError::BodyTimeout), "{error:?}");

        let quick = Request::new(Body::from("{}"));
        assert_eq!(InBody::from_request(quick, &()).await.unwrap().0, "{}");
    }
}
