//! Logging in and out of the pages. Open to all; what it opens is behind `guard`.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use axum::{
    Extension, Json,
    extract::State,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, StatusCode, Uri, header};

use super::{
    Operators,
    error::ApiError,
    extract::{InBody, object},
};
use crate::{
    gateway::PeerAddress,
    keys::{self, Denied, LoginError},
};

/// `GET /session`: whether a key is needed, and whose this one is.
pub(super) async fn get(
    State(operators): State<Arc<Operators>>,
    headers: HeaderMap,
) -> Json<api::Session> {
    let holder = operators.access.who(&headers);
    Json(api::Session {
        required: operators.access.is_required(),
        name: holder.as_ref().map(|holder| holder.key.name.clone()),
        role: holder.map(|holder| holder.key.role),
    })
}

/// `POST /login`
pub(super) async fn login(
    State(operators): State<Arc<Operators>>,
    peer: Option<Extension<PeerAddress>>,
    (uri, headers): (Uri, HeaderMap),
    InBody(body): InBody,
) -> Result<Response, ApiError> {
    let login: api::Login = object(&body, "the member key")?;
    let address = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |Extension(peer)| {
        peer.0.ip()
    });
    let host = keys::host(&headers, &uri);
    let access = &operators.access;
    match access.log_in(login.key.trim(), address, (&headers, host)) {
        Ok(cookie) => Ok(with_cookie(cookie)),
        Err(LoginError::Denied(denied)) => Err(ApiError::Denied(denied)),
        Err(LoginError::TooOften { retry_after_s }) => Err(ApiError::TooOften { retry_after_s }),
        Err(LoginError::Random(error)) => {
            tracing::error!(%error, "no random bytes for a session");
            Err(ApiError::Conflict(
                "the system gives no random numbers at the moment; try again".to_owned(),
            ))
        }
    }
}

/// `POST /logout`
pub(super) async fn logout(
    State(operators): State<Arc<Operators>>,
    (uri, headers): (Uri, HeaderMap),
) -> Result<Response, ApiError> {
    let host = keys::host(&headers, &uri);
    let ended = operators.access.log_out(&headers, host);
    ended
        .map(with_cookie)
        .map_err(|denied: Denied| ApiError::Denied(denied))
}

fn with_cookie(cookie: http::HeaderValue) -> Response {
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response()
}
