//! Steps of requests, and the figures that they come to.

use routing::{
    ConversationKey, Decision, Identity, IdentitySource, Reason, ReplicaIndex, Route, Score,
    Ticket, Time,
};
use vllm::{Dialect, Usage};

use super::*;

/// 10 s before a full hour, so that steps of a minute have an edge in reach.
const START: Time = Time(1_799_999_990_000_000);

fn telemetry() -> Telemetry {
    Telemetry::new([("demo", 2), ("other", 1)], START)
}

fn at(ms: u64) -> Time {
    Time(START.0 + ms * 1000)
}

fn info(id: u128, model: Option<&str>, arrived: Time) -> RequestInfo {
    RequestInfo {
        id: RequestId(id),
        arrived,
        model: model.map(Into::into),
        dialect: Dialect::Messages,
        path: "/v1/messages",
        identity: Some(Identity {
            conversation: ConversationKey(0xabcd << 112),
            session: 7,
            agent: None,
            source: IdentitySource::ClaudeCodeHeader,
        }),
        owner: None,
        stream: true,
        prompt: None,
    }
}

fn decision(route: Route, replica: Option<u16>, reason: Reason) -> Decision {
    let score = |replica, running| Score {
        replica: ReplicaIndex(replica),
        available: true,
        fits: true,
        in_flight: 1,
        running,
        cache_fill: None,
        conversations: 0,
    };
    Decision {
        ticket: Ticket(1),
        route,
        replica: replica.map(ReplicaIndex),
        reason,
        scores: [score(0, 3), score(1, 9)].into(),
        turn: 2,
        cache_since: Time(0),
    }
}

fn usage(prompt_tokens: u64, cached_tokens: Option<u64>) -> Usage {
    Usage {
        prompt_tokens,
        cached_tokens,
        completion_tokens: 5,
    }
}

/// A whole request that arrives at `ms`, has its first byte 40 ms later and ends after 100 ms.
fn serve(telemetry: &Telemetry, id: u128, ms: u64, route: Route, usage: Option<Usage>) {
    let replica = (route != Route::Balanced).then_some(1);
    let request = RequestId(id);
    telemetry.record(RequestEvent::Arrived(info(id, Some("demo"), at(ms))));
    let decision = decision(route, replica, Reason::Home);
    telemetry.record(RequestEvent::Routed(request, at(ms + 1), decision));
    telemetry.record(RequestEvent::FirstByte(request, at(ms + 40)));
    telemetry.record(ended(id, ms + 100, usage));
}

fn ended(id: u128, ms: u64, usage: Option<Usage>) -> RequestEvent {
    RequestEvent::Ended {
        id: RequestId(id),
        at: at(ms),
        end: End::Complete,
        status: 200,
        usage,
    }
}

fn all() -> Filter {
    Filter {
        limit: 100,
        ..Filter::default()
    }
}

#[test]
fn a_requests_steps_are_joined() {
    let telemetry = telemetry();
    telemetry.record(RequestEvent::Arrived(info(5, Some("demo"), at(0))));
    let [request] = &telemetry.requests(&all())[..] else {
        panic!("one request is in flight");
    };
    assert_eq!(
        (request.route, request.end, request.ttfb_ms),
        (None, None, None)
    );

    let reason = Reason::HomeOverThreshold {
        home: ReplicaIndex(1),
        in_flight: 9,
        threshold: 8,
    };
    let decision = decision(Route::Spilled, Some(0), reason);
    telemetry.record(RequestEvent::Routed(RequestId(5), at(2), decision));
    telemetry.record(RequestEvent::FirstByte(RequestId(5), at(30)));
    telemetry.record(RequestEvent::FirstByte(RequestId(5), at(99)));
    telemetry.record(ended(5, 200, Some(usage(100, Some(60)))));
    let [request] = &telemetry.requests(&all())[..] else {
        panic!("one request has ended");
    };
    assert_eq!(request.conversation.as_deref(), Some("abcd000000000000"));
    assert_eq!(request.session.as_deref(), Some("0000000000000007"));
    assert_eq!(
        request.reason.as_deref(),
        Some("home 1 has 9 in flight, over 8; replica 0 has 3 running")
    );
    assert_eq!(
        (request.queue_ms, request.ttfb_ms, request.total_ms),
        (Some(2.0), Some(30.0), Some(200.0))
    );
    assert_eq!(
        (
            request.prompt_tokens,
            request.cached_tokens,
            request.completion_tokens
        ),
        (Some(100), Some(60), Some(5))
    );
    assert_eq!(
        (request.status, request.end),
        (Some(200), Some(api::RequestEnd::Complete))
    );
    assert_eq!(request.scores.len(), 2);
}

#[test]
fn a_retry_counts_once_where_it_went_in_the_end() {
    let telemetry = telemetry();
    telemetry.record(RequestEvent::Arrived(info(1, Some("demo"), at(0))));
    let first = decision(Route::Sticky, Some(0), Reason::Home);
    telemetry.record(RequestEvent::Routed(RequestId(1), at(1), first));
    let failed = Reason::Retry {
        failed: ReplicaIndex(0),
    };
    let second = decision(Route::Moved, Some(1), failed);
    telemetry.record(RequestEvent::Routed(RequestId(1), at(500), second));
    telemetry.record(ended(1, 600, None));
    let routes = telemetry.routes("demo");
    assert_eq!(routes.of(ReplicaIndex(0), Route::Sticky), 0);
    assert_eq!(routes.of(ReplicaIndex(1), Route::Moved), 1);
    assert_eq!(telemetry.requests(&all())[0].queue_ms, Some(1.0));
}

#[test]
fn sticky_percent_leaves_out_new_pinned_and_balanced() {
    let telemetry = telemetry();
    assert_eq!(telemetry.routes("demo").sticky_percent(), None);
    let routes = [Route::New, Route::Pinned, Route::Balanced];
    for (id, route) in (0..).zip(routes) {
        serve(&telemetry, id, 0, route, None);
    }
    assert_eq!(telemetry.routes("demo").sticky_percent(), None);
    assert_eq!(telemetry.routes("demo").balanced(), 1);
    let routes = [Route::Sticky, Route::Sticky, Route::Sticky, Route::Spilled];
    for (id, route) in (10..).zip(routes) {
        serve(&telemetry, id, 0, route, None);
    }
    assert_eq!(telemetry.routes("demo").sticky_percent(), Some(75.0));
    assert_eq!(telemetry.routes("other").sticky_percent(), None);
}

#[test]
fn lists_are_newest_first_filtered_and_limited() {
    let telemetry = telemetry();
    for id in 0..5 {
        serve(&telemetry, id, id as u64 * 10, Route::New, None);
    }
    telemetry.record(RequestEvent::Arrived(info(9, None, at(25))));
    let ids = |filter: &Filter| -> Vec<String> {
        let requests = telemetry.requests(filter);
        requests
            .iter()
            .map(|request| request.id[31..].to_owned())
            .collect()
    };
    assert_eq!(ids(&all()), ["4", "3", "9", "2", "1", "0"]);
    assert_eq!(
        ids(&Filter {
            limit: 2,
            ..Filter::default()
        }),
        ["4", "3"]
    );
    let model = Some("demo".to_owned());
    assert_eq!(ids(&Filter { model, ..all() }).len(), 5);
    for (session, count) in [("abcd", 6), ("00000000", 6), ("abce", 0)] {
        let session = Some(session.to_owned());
        assert_eq!(ids(&Filter { session, ..all() }).len(), count);
    }
}

#[test]
fn what_never_arrived_changes_nothing() {
    let telemetry = telemetry();
    telemetry.record(ended(1, 5, Some(usage(1, None))));
    telemetry.record(RequestEvent::FirstByte(RequestId(1), at(1)));
    assert!(telemetry.requests(&all()).is_empty());
    assert!(
        telemetry
            .totals()
            .iter()
            .all(|(_, totals)| totals.requests.is_empty())
    );
}

#[test]
fn totals_tell_outcomes_apart() {
    let telemetry = telemetry();
    serve(&telemetry, 1, 0, Route::Sticky, Some(usage(100, Some(200))));
    telemetry.record(RequestEvent::Arrived(info(2, None, at(1))));
    telemetry.record(RequestEvent::Ended {
        id: RequestId(2),
        at: at(2),
        end: End::Refused,
        status: 404,
        usage: None,
    });
    let totals = telemetry.totals();
    let (name, demo) = &totals[0];
    assert_eq!(&**name, "demo");
    let outcome = Outcome {
        replica: Some(1),
        route: Some(Route::Sticky),
        status: 200,
    };
    assert_eq!(demo.requests[&outcome], 1);
    assert_eq!(
        (demo.prompt_tokens_cached, demo.prompt_tokens_computed),
        (100, 0)
    );
    assert_eq!(
        (
            demo.ttfb.count(),
            demo.ttfb.count_up_to_s(0.03),
            demo.ttfb.count_up_to_s(0.05)
        ),
        (1, 0, 1)
    );
    let (name, unknown) = totals.last().unwrap();
    let outcome = Outcome {
        replica: None,
        route: None,
        status: 404,
    };
    assert_eq!((&**name, unknown.requests[&outcome]), ("", 1));
}

#[tokio::test]
async fn a_watcher_is_told_which_models_changed_and_of_nothing_twice() {
    let telemetry = telemetry();
    let mut watcher = telemetry.changes().watch();
    serve(&telemetry, 1, 0, Route::New, None);
    watcher.changed().await;
    let changed = watcher.look(telemetry.changes());
    assert_eq!(
        (changed.models, changed.requests),
        (vec!["demo".to_owned()], vec!["demo".to_owned()])
    );
    assert_eq!(watcher.look(telemetry.changes()), api::Changed::default());
    telemetry.changes().model("other");
    watcher.changed().await;
    let changed = watcher.look(telemetry.changes());
    assert_eq!(
        (changed.models, changed.requests),
        (vec!["other".to_owned()], vec![])
    );
}
