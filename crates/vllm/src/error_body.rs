//! Errors that the warden itself answers, in the shape of the API that was called.

use crate::Dialect;

/// What kind of error, in terms that both shapes can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// 400
    InvalidRequest,
    /// 401
    Authentication,
    /// 403
    Permission,
    /// 404
    NotFound,
    /// 405
    MethodNotAllowed,
    /// 413
    TooLarge,
    /// 429
    RateLimit,
    /// 431
    HeadersTooLarge,
    /// 500, 502
    Api,
    /// 503
    Overloaded,
    /// 504, 408
    Timeout,
}

/// The JSON body. `param` and `code` appear in the OpenAI shape only.
pub fn error_body(
    _dialect: Dialect,
    _kind: ErrorKind,
    _message: &str,
    _param: Option<&str>,
    _request_id: &str,
) -> Vec<u8> {
    todo!()
}

/// A whole server-sent event with that error, for a stream that has begun (OpenAI shapes: a data
/// event with an `error` object; Messages: `event: error`).
pub fn error_event(
    _dialect: Dialect,
    _kind: ErrorKind,
    _message: &str,
    _request_id: &str,
) -> Vec<u8> {
    todo!()
}
