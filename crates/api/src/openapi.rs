//! The `OpenAPI` document. The paths stand here as empty functions, so that the types and their
//! description live in one crate; a test of the warden holds that it serves exactly these.
#![allow(dead_code, reason = "read by the derive, never called")]

use utoipa::OpenApi;

use crate::{
    Changed, Conversation, Conversations, Error, Gpus, Hello, HistoryState, Keys, Login, Logs,
    Model, Models, MoveConversation, PatchRouting, Reloaded, RequestEnd, Requests, Route, Routing,
    Session, Stats,
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
        get_history,
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

/// Tokens, requests and time to first byte, over as much time as the history holds.
#[utoipa::path(
    get,
    path = "/api/v1/stats",
    params(
        ("range" = Option<String>, Query, description = "how far back, such as 15m, 6h or 7d (default 1h): a multiple of step, at most 1500 times as long"),
        ("step" = Option<String>, Query, description = "a multiple of 10s; by default what gives some 60 to 170 points"),
        ("model" = Option<String>, Query, description = "one model; all together without")
    ),
    responses(
        (status = 200, body = Stats),
        (status = 400, body = Error),
        (status = 404, body = Error),
        (status = 503, body = Error)
    )
)]
fn get_stats() {}

/// How the history on disk fares.
#[utoipa::path(get, path = "/api/v1/history", responses((status = 200, body = HistoryState)))]
fn get_history() {}

/// Requests, newest first, those in flight included.
#[utoipa::path(
    get,
    path = "/api/v1/requests",
    params(
        ("limit" = Option<usize>, Query, description = "1 to 1000 (default 100)"),
        ("before" = Option<String>, Query, description = "the `next` of the page before"),
        ("offset" = Option<u64>, Query, description = "so many are left out first, up to 50000"),
        ("sort" = Option<String>, Query, description = "-t (default), t, ttfb_ms, total_ms, queue_ms, prompt_tokens, cached_tokens, completion_tokens, turn, route, replica, conversation or end; - for the largest first"),
        ("session" = Option<String>, Query, description = "a session's or a conversation's id, as shown, or its beginning; or the id that the client sent"),
        ("model" = Option<String>, Query),
        ("route" = Option<Route>, Query),
        ("end" = Option<RequestEnd>, Query),
        ("in_flight" = Option<bool>, Query, description = "true: only those that have not ended"),
        ("replica" = Option<u16>, Query),
        ("ended_from" = Option<f64>, Query, description = "ended at or after, in epoch seconds"),
        ("ended_to" = Option<f64>, Query, description = "ended before, in epoch seconds"),
        ("q" = Option<String>, Query, description = "an id, the reason, the model, the API, the route or the end holds this, in any case")
    ),
    responses(
        (status = 200, body = Requests),
        (status = 400, body = Error),
        (status = 404, body = Error),
        (status = 503, body = Error)
    )
)]
fn list_requests() {}

/// Conversations, most recently active first.
#[utoipa::path(
    get,
    path = "/api/v1/conversations",
    params(
        ("limit" = Option<usize>, Query, description = "1 to 1000 (default 100)"),
        ("offset" = Option<u64>, Query, description = "so many are left out first, up to 50000"),
        ("sort" = Option<String>, Query, description = "-last_active (default), id, model, replica, turns, in_flight, context_tokens, own_tokens, last_route or named_by; - for the largest first"),
        ("replica" = Option<u16>, Query, description = "only those whose home it is"),
        ("q" = Option<String>, Query, description = "an id, the model or what named it holds this, in any case"),
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
