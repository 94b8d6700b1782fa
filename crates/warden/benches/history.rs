//! How long the pages wait for the past, with a million requests (or as many as the first argument
//! says) of the last seven days in the file.
//!
//! Every question is asked the way the API asks it: through [`History`], writes of what waits
//! included, while nothing else happens. The slowest of a few tries counts, because a page is opened
//! once; with a million requests no figures may take longer than 200 ms. Ten million are for the reader's
//! own judgement: they are measured and not judged.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use routing::Time;
use tokio::runtime::Runtime;
use warden::{
    clock, config,
    history::{Cursor, History, RequestsQuery, Sort, StatsQuery},
};

/// Requests where no argument says otherwise, and the most that are judged.
const REQUESTS: u64 = 1_000_000;
/// The longest that an answer may take with [`REQUESTS`] in the file.
const ANSWER_MAX: Duration = Duration::from_millis(200);
/// Times that each question is asked.
const TRIES: usize = 7;
/// What the requests spread over.
const SPAN_S: u64 = 7 * 86_400;
const MODELS: [&str; 4] = ["large", "medium", "small", "tiny"];
/// Turns that a conversation has.
const TURNS: u64 = 25;
/// Conversations that take turns with each other.
const AT_A_TIME: u64 = 40;
/// Handed over and not yet written: well below what the queue takes, so that none is dropped.
const AHEAD_MAX: u64 = 8_000;

fn main() {
    // Cargo adds "--bench" of its own.
    let argument = std::env::args().skip(1).find(|one| !one.starts_with("--"));
    let count = argument.map_or(REQUESTS, |count| {
        count.parse().expect("a number of requests")
    });
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("history.sqlite");
    let runtime = Runtime::new().expect("a runtime");
    let end = clock::now();
    let history = filled(&file, count, end);
    let slowest = stats(&runtime, &history, end);
    println!("slowest of the figures: {:.1} ms", ms(slowest));
    requests(&runtime, &history, count, end);
    history.stop();
    if count <= REQUESTS {
        assert!(
            slowest < ANSWER_MAX,
            "{slowest:?} for an answer, {ANSWER_MAX:?} are allowed"
        );
    }
}

/// A history of `count` requests, the last of which ended just before `end`.
fn filled(file: &Path, count: u64, end: Time) -> History {
    let settings = config::History {
        days_max: 30,
        bytes_max: 1 << 40,
    };
    let history = History::start(file.to_owned(), settings).expect("a thread");
    let began = Instant::now();
    for number in 0..count {
        history.push(Arc::new(request(number, count, end)), None);
        while history.state().waiting > AHEAD_MAX {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    while history.state().waiting > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let state = history.state();
    assert_eq!((state.written, state.dropped), (count, 0), "{state:?}");
    let took_s = began.elapsed().as_secs_f64();
    println!(
        "{count} requests: {:.0} MB, written in {took_s:.0} s ({:.0}/s)\n",
        state.bytes as f64 / 1e6,
        count as f64 / took_s
    );
    history
}

/// The `number`-th of `count` requests: a turn of one of the conversations that are going on then.
fn request(number: u64, count: u64, end: Time) -> api::Request {
    let block = number / (AT_A_TIME * TURNS);
    let conversation = block * AT_A_TIME + number % AT_A_TIME;
    let turn = number % (AT_A_TIME * TURNS) / AT_A_TIME;
    let scattered = conversation.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let total_ms = 900.0 + (number % 700) as f64;
    let before_end_s = SPAN_S as f64 * (count - number) as f64 / count as f64 + 2.0;
    let prompt_tokens = 20_000 + 1_500 * turn;
    let is_new = turn == 0;
    api::Request {
        id: format!("{:032x}", u128::from(number) << 64 | u128::from(scattered)),
        t: clock::epoch_s(end) - before_end_s,
        model: Some(model(conversation).to_owned()),
        conversation: Some(format!("{scattered:016x}")),
        session: Some(format!("{:016x}", scattered.rotate_left(32))),
        agent: None,
        api: "messages".to_owned(),
        route: Some(route(number, is_new)),
        reason: Some("home of this conversation since its last turn".to_owned()),
        scores: (0..8).map(|replica| score(replica, number)).collect(),
        replica: Some((conversation % 8) as u16),
        turn: Some(turn as u32 + 1),
        queue_ms: Some((number % 13) as f64),
        ttfb_ms: Some(80.0 + (scattered % 4_000) as f64),
        total_ms: Some(total_ms),
        prompt_tokens: Some(prompt_tokens),
        cached_tokens: Some(if is_new { 0 } else { prompt_tokens - 1_500 }),
        computed_tokens: Some(if is_new { prompt_tokens } else { 1_500 }),
        gap_ms: (!is_new).then_some(2_500.0),
        side: false,
        completion_tokens: Some(300),
        status: Some(200),
        end: Some(ending(number)),
        cold: None,
    }
}

fn model(conversation: u64) -> &'static str {
    MODELS[(conversation % MODELS.len() as u64) as usize]
}

/// Nearly all sticky; one of 10,000 moved, so that a list of those is hard to find.
fn route(number: u64, is_new: bool) -> api::Route {
    match number % 10_000 {
        _ if is_new => api::Route::New,
        7_777 => api::Route::Moved,
        rest if rest % 50 == 1 => api::Route::Spilled,
        _ => api::Route::Sticky,
    }
}

fn ending(number: u64) -> api::RequestEnd {
    match number % 5_000 {
        1_234 => api::RequestEnd::EngineError,
        rest if rest % 60 == 7 => api::RequestEnd::ClientGone,
        _ => api::RequestEnd::Complete,
    }
}

fn score(replica: u16, number: u64) -> api::Score {
    api::Score {
        replica,
        available: true,
        fits: true,
        in_flight: (number % 5) as u32,
        running: (number % 7) as u32,
        cache_fill: Some((number % 100) as f64 / 100.0),
        conversations: (number % 90) as u32,
    }
}

/// Each range and step that the page about figures offers; the slowest answer.
fn stats(runtime: &Runtime, history: &History, now: Time) -> Duration {
    let ranges_s = [
        ("15 m", 900, 10),
        ("1 h", 3_600, 60),
        ("6 h", 6 * 3_600, 300),
        ("24 h", 86_400, 900),
        ("7 d", 7 * 86_400, 3_600),
    ];
    println!("figures                                     median   slowest");
    let mut slowest = Duration::ZERO;
    for (name, range_s, step_s) in ranges_s {
        for model in [None, Some(MODELS[0])] {
            let query = StatsQuery {
                now,
                range_s,
                step_s,
                model: model.map(str::to_owned),
            };
            let what = format!("{name}, {}", model.unwrap_or("all models"));
            let plan = runtime.block_on(history.stats_plan(query.clone()));
            let took = timed(&what, &plan.expect("a plan"), || {
                let stats = runtime.block_on(history.stats(query.clone()));
                let summary = stats.expect("figures").summary;
                assert!(summary.requests > 0, "{what}: no request");
            });
            slowest = slowest.max(took);
        }
    }
    println!();
    slowest
}

/// First pages and what can be chosen for them, measured and not judged: a list of what is rare reads
/// the index of arrivals until it has found enough.
fn requests(runtime: &Runtime, history: &History, count: u64, end: Time) {
    println!("lists of requests                           median   slowest");
    for (what, query) in lists(count, end) {
        let plan = runtime.block_on(history.requests_plan(query.clone()));
        timed(what, &plan.expect("a plan"), || {
            let page = runtime.block_on(history.requests(query.clone(), Vec::new));
            page.expect("a page");
        });
    }
    println!();
}

fn lists(count: u64, end: Time) -> Vec<(&'static str, RequestsQuery)> {
    let first = RequestsQuery {
        limit: 50,
        ..RequestsQuery::default()
    };
    let middle = request(count / 2, count, end);
    let cursor = format!("{}-{}", (middle.t * 1e6) as u64, middle.id);
    let query = |change: fn(&mut RequestsQuery)| {
        let mut query = first.clone();
        change(&mut query);
        query
    };
    let day_ago = Time(end.0 - 86_400_000_000);
    vec![
        ("first page", first.clone()),
        ("second page", query(|query| query.offset = 50)),
        (
            "page in the middle",
            RequestsQuery {
                before: Cursor::parse(&cursor),
                ..first.clone()
            },
        ),
        (
            "one model",
            query(|query| query.model = Some(MODELS[0].to_owned())),
        ),
        (
            "one conversation",
            RequestsQuery {
                session: middle.conversation,
                ..first.clone()
            },
        ),
        (
            "spilled",
            query(|query| query.route = Some(api::Route::Spilled)),
        ),
        (
            "moved (1 of 10,000)",
            query(|query| query.route = Some(api::Route::Moved)),
        ),
        (
            "engine errors (1 of 5,000)",
            query(|query| query.end = Some(api::RequestEnd::EngineError)),
        ),
        ("one replica", query(|query| query.replica = Some(3))),
        (
            "ended within the last day",
            RequestsQuery {
                ended_from: Some(day_ago),
                ..first.clone()
            },
        ),
        (
            "one model, spilled, last day",
            RequestsQuery {
                model: Some(MODELS[0].to_owned()),
                route: Some(api::Route::Spilled),
                ended_from: Some(day_ago),
                ..first.clone()
            },
        ),
        (
            "slowest first byte first",
            query(|query| query.sort = Sort::parse("-ttfb_ms").expect("a column")),
        ),
        (
            "words",
            query(|query| query.words = Some("client_gone".to_owned())),
        ),
    ]
}

/// Asks a few times; prints and returns.
fn timed(what: &str, plan: &str, mut ask: impl FnMut()) -> Duration {
    let mut took: Vec<Duration> = (0..TRIES)
        .map(|_| {
            let began = Instant::now();
            ask();
            began.elapsed()
        })
        .collect();
    took.sort_unstable();
    let slowest = took[TRIES - 1];
    println!(
        "{what:<40} {:>6.1} ms {:>6.1} ms",
        ms(took[TRIES / 2]),
        ms(slowest)
    );
    for step in plan.lines() {
        println!("    {step}");
    }
    slowest
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
