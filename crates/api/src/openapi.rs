//! The `OpenAPI` document. The paths stand here as empty functions, so that the types and their
//! description live in one crate; a test of the warden holds that it serves exactly these.
#![allow(dead_code, reason = "read by the derive, never called")]

use utoipa::OpenApi;

use crate::{
    Changed, Conversation, Conversations, Error, Gpus, Hello, Keys, Login, Logs, Model, Models,
    MoveConversation, PatchRouting, Reloaded, Requests, Routing, Session, Stats,
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "LM Warden operators' API",
        description = "Models, replicas, routing, requests and conversations of a running \
            lm-warden. A number that is not known is null, never 0. Times are in seconds since the \
            Unix epoch.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    paths(
        list_models,
        get_model,
        patch_routing,
        drain_replica,
        undrain_replica,
        start_model,
        stop_model,
        restart_model,
        drain_model,
        get_logs,
        reload,
        get_gpus,
        get_stats,
        list_requests,
        list_conversations,
        get_conversation,
        move_conversation,
        forget_conversation,
        stream_events,
        list_keys,
        get_session,
        log_in,
        log_out,
        get_openapi,
    ),
    components(schemas(Hello, Changed, Error))
)]
struct Document;

/// The document as pretty JSON with a final newline: the content of `openapi.json`.
pub fn openapi_json() -> String {
    let json = Document::openapi().to_pretty_json();
    json.expect("a document made of strings and maps can be written as JSON") + "\n"
}

/// All models with their routing panels.
#[utoipa::path(get, path = "/api/v1/models", responses((status = 200, body = Models)))]
fn list_models() {}

/// One model.
#[utoipa::path(
    get,
    path = "/api/v1/models/{name}",
    params(("name" = String, Path)),
    responses((status = 200, body = Model), (status = 404, body = Error))
)]
fn get_model() {}

/// Changes routing from the next request on, without touching the engine. Survives a restart.
#[utoipa::path(
    patch,
    path = "/api/v1/models/{name}/routing",
    params(("name" = String, Path)),
    request_body = PatchRouting,
    responses(
        (status = 200, body = Routing),
        (status = 400, body = Error),
        (status = 403, body = Error),
        (status = 404, body = Error)
    )
)]
fn patch_routing() {}

/// Sends nothing new to a replica; its conversations move when they next speak.
#[utoipa::path(
    post,
    path = "/api/v1/models/{name}/replicas/{replica}/drain",
    params(("name" = String, Path), ("replica" = u16, Path)),
    responses((status = 200, body = Routing), (status = 403, body = Error), (status = 404, body = Error))
)]
fn drain_replica() {}

/// Ends a drain.
#[utoipa::path(
    post,
    path = "/api/v1/models/{name}/replicas/{replica}/undrain",
    params(("name" = String, Path), ("replica" = u16, Path)),
    responses((status = 200, body = Routing), (status = 403, body = Error), (status = 404, body = Error))
)]
fn undrain_replica() {}

/// Starts a stopped or failed model, and ends a drain.
#[utoipa::path(
    post,
    path = "/api/v1/models/{name}/start",
    params(("name" = String, Path)),
    responses(
        (status = 200, body = Model),
        (status = 400, body = Error),
        (status = 403, body = Error),
        (status = 404, body = Error),
        (status = 409, body = Error)
    )
)]
fn start_model() {}

/// Stops a model once its requests have ended; no request starts it again.
#[utoipa::path(
    post,
    path = "/api/v1/models/{name}/stop",
    params(("name" = String, Path)),
    responses(
        (status = 200, body = Model),
        (status = 400, body = Error),
        (status = 403, body = Error),
        (status = 404, body = Error),
        (status = 409, body = Error)
    )
)]
fn stop_model() {}

/// Restarts a model's servers one after the other, each once its requests have ended.
#[utoipa::path(
    post,
    path = "/api/v1/models/{name}/restart",
    params(("name" = String, Path)),
    responses(
        (status = 200, body = Model),
        (status = 400, body = Error),
        (status = 403, body = Error),
        (status = 404, body = Error),
        (status = 409, body = Error)
    )
)]
fn restart_model() {}

/// Sends nothing new to any replica of a model until it is started; its engine goes on.
#[utoipa::path(
    post,
    path = "/api/v1/models/{name}/drain",
    params(("name" = String, Path)),
    responses(
        (status = 200, body = Model),
        (status = 400, body = Error),
        (status = 403, body = Error),
        (status = 404, body = Error),
        (status = 409, body = Error)
    )
)]
fn drain_model() {}

/// The last lines that a model's engines printed.
#[utoipa::path(
    get,
    path = "/api/v1/models/{name}/logs",
    params(
        ("name" = String, Path),
        ("after" = Option<u64>, Query, description = "only lines with a greater number"),
        ("limit" = Option<usize>, Query, description = "1 to 2000 (default 200), the youngest")
    ),
    responses((status = 200, body = Logs), (status = 400, body = Error), (status = 404, body = Error))
)]
fn get_logs() {}

/// Reads the configuration again: routing changes at once, changed engines are restarted. A bad
/// one changes nothing.
#[utoipa::path(
    post,
    path = "/api/v1/reload",
    responses((status = 200, body = Reloaded), (status = 400, body = Error), (status = 403, body = Error))
)]
fn reload() {}

/// The machine's cards, and the replicas on them.
#[utoipa::path(get, path = "/api/v1/gpus", responses((status = 200, body = Gpus)))]
fn get_gpus() {}

/// Tokens, requests and time to first byte over the last hour at most.
#[utoipa::path(
    get,
    path = "/api/v1/stats",
    params(
        ("range" = Option<String>, Query, description = "how far back, such as 15m or 1h (default 1h)"),
        ("step" = Option<String>, Query, description = "a multiple of 10s (default 60s)"),
        ("model" = Option<String>, Query, description = "one model; all together without")
    ),
    responses((status = 200, body = Stats), (status = 400, body = Error), (status = 404, body = Error))
)]
fn get_stats() {}

/// Recent requests, newest first, those in flight included.
#[utoipa::path(
    get,
    path = "/api/v1/requests",
    params(
        ("limit" = Option<usize>, Query, description = "1 to 1000 (default 100)"),
        ("session" = Option<String>, Query, description = "a session's or a conversation's id, as shown, or its beginning"),
        ("model" = Option<String>, Query)
    ),
    responses((status = 200, body = Requests), (status = 400, body = Error))
)]
fn list_requests() {}

/// Conversations, most recently active first.
#[utoipa::path(
    get,
    path = "/api/v1/conversations",
    params(
        ("limit" = Option<usize>, Query, description = "1 to 1000 (default 100)"),
        ("model" = Option<String>, Query)
    ),
    responses((status = 200, body = Conversations), (status = 400, body = Error), (status = 404, body = Error))
)]
fn list_conversations() {}

/// One conversation.
#[utoipa::path(
    get,
    path = "/api/v1/conversations/{id}",
    params(("id" = String, Path)),
    responses((status = 200, body = Conversation), (status = 404, body = Error))
)]
fn get_conversation() {}

/// Gives a conversation another home, from its next request on.
#[utoipa::path(
    post,
    path = "/api/v1/conversations/{id}/move",
    params(("id" = String, Path)),
    request_body = MoveConversation,
    responses(
        (status = 200, body = Conversation),
        (status = 400, body = Error),
        (status = 403, body = Error),
        (status = 404, body = Error)
    )
)]
fn move_conversation() {}

/// Forgets a conversation: its next request is placed anew.
#[utoipa::path(
    delete,
    path = "/api/v1/conversations/{id}",
    params(("id" = String, Path)),
    responses((status = 204), (status = 403, body = Error), (status = 404, body = Error))
)]
fn forget_conversation() {}

/// What changed, as server-sent events: `hello` (Hello) once, then `changed` (Changed).
#[utoipa::path(
    get,
    path = "/api/v1/events",
    responses((status = 200, content_type = "text/event-stream", body = String))
)]
fn stream_events() {}

/// All keys without their secrets, and what each has used.
#[utoipa::path(get, path = "/api/v1/keys", responses((status = 200, body = Keys)))]
fn list_keys() {}

/// Whether a key is needed, and whose the one of this request or session is. Open to all.
#[utoipa::path(get, path = "/api/v1/session", responses((status = 200, body = Session)))]
fn get_session() {}

/// Begins a session of the pages: sets a cookie. Open to all; wrong keys are answered more and
/// more slowly.
#[utoipa::path(
    post,
    path = "/api/v1/login",
    request_body = Login,
    responses(
        (status = 204),
        (status = 400, body = Error),
        (status = 401, body = Error),
        (status = 403, body = Error),
        (status = 429, body = Error)
    )
)]
fn log_in() {}

/// Ends the session of the pages.
#[utoipa::path(
    post,
    path = "/api/v1/logout",
    responses((status = 204), (status = 403, body = Error))
)]
fn log_out() {}

/// This document.
#[utoipa::path(
    get,
    path = "/api/v1/openapi.json",
    responses((status = 200, content_type = "application/json", body = Object))
)]
fn get_openapi() {}
