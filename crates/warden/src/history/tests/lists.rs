//! Lists of requests.

use proptest::prelude::*;

use super::*;

fn page(file: &File, query: &RequestsQuery, unwritten: &[api::Request]) -> api::Requests {
    let chosen = query.select(unwritten.to_vec());
    let skip = query.offset.saturating_sub(chosen.len() as u64);
    let take = query.offset + query.limit + 1 - skip;
    let found = query.ask(&file.reader(), skip, take).unwrap();
    query.page(chosen, skip, found)
}

fn ids(page: &api::Requests) -> Vec<u64> {
    let ids = page.requests.iter().map(|request| &request.id);
    ids.map(|id| u64::from_str_radix(&id[16..], 16).unwrap())
        .collect()
}

fn all() -> RequestsQuery {
    RequestsQuery {
        limit: 100,
        ..RequestsQuery::default()
    }
}

#[test]
fn a_request_comes_back_as_it_was() {
    let bare = api::Request {
        model: None,
        conversation: None,
        session: None,
        route: None,
        reason: None,
        scores: Vec::new(),
        replica: None,
        turn: None,
        queue_ms: None,
        ttfb_ms: None,
        prompt_tokens: None,
        cached_tokens: None,
        computed_tokens: None,
        completion_tokens: None,
        gap_ms: None,
        side: true,
        status: Some(404),
        end: Some(RequestEnd::Refused),
        cold: None,
        ..request(2, 5)
    };
    let broken_engine = api::Request {
        prompt_tokens: Some(i64::MAX as u64),
        computed_tokens: Some(i64::MAX as u64 - 75),
        ..request(3, 4)
    };
    let whole = [bare, broken_engine, request(1, 0)];
    let file = File::with(whole.clone());
    assert_eq!(page(&file, &all(), &[]).requests, whole);
}

#[test]
fn a_page_after_the_other_shows_each_once_in_order_with_those_not_written() {
    let file = File::with((0..25).map(|n| request(n, n * 10)));
    // In flight since long ago, or ended just now.
    let unwritten = [request(100, 35), request(101, 1_000), request(102, 117)];
    let expected: Vec<u64> = page(&file, &all(), &unwritten)
        .requests
        .iter()
        .map(|r| u64::from_str_radix(&r.id[16..], 16).unwrap())
        .collect();
    assert_eq!(expected.len(), 28);
    assert_eq!(&expected[..3], [101, 24, 23]);
    let (mut by_offset, mut by_cursor, mut before) = (Vec::new(), Vec::new(), None);
    for number in 0.. {
        let limited = RequestsQuery { limit: 4, ..all() };
        let offset = RequestsQuery {
            offset: number * 4,
            ..limited.clone()
        };
        by_offset.extend(ids(&page(&file, &offset, &unwritten)));
        let cursor = RequestsQuery { before, ..limited };
        let answer = page(&file, &cursor, &unwritten);
        by_cursor.extend(ids(&answer));
        let Some(next) = answer.next else { break };
        before = Some(Cursor::parse(&next).unwrap());
    }
    assert_eq!(by_offset, expected);
    assert_eq!(by_cursor, expected);
}

#[test]
fn what_is_in_both_places_is_listed_once() {
    let file = File::with([request(1, 0), request(2, 1)]);
    let answer = page(&file, &all(), &[request(2, 1)]);
    assert_eq!((ids(&answer), answer.matching), (vec![2, 1], 2));
}

#[test]
fn the_last_turn_of_a_conversation_is_the_youngest_that_ended_well() {
    let with = |number, change: fn(&mut api::Request)| {
        let mut one = request(number, number * 1_000);
        change(&mut one);
        one
    };
    let file = File::with([
        with(1, |_| ()),
        with(2, |one| one.replica = Some(3)),
        with(3, |one| one.side = true),
        with(4, |one| one.end = Some(RequestEnd::ClientGone)),
        with(5, |one| one.prompt_tokens = None),
        with(6, |one| one.conversation = None),
    ]);
    let ask = |since_s| super::last_turns::ask(&file.reader(), Time(since_s * 1_000_000)).unwrap();
    let turns = ask(START_S);
    assert_eq!(turns.len(), 1);
    let last = turns[&("demo".to_owned(), "abcd000000000000".to_owned())];
    assert_eq!(last.replica.map(|replica| replica.0), Some(3));
    let ms = |time: Time| time.0 / 1_000 - START_S * 1_000;
    assert_eq!((ms(last.arrived), ms(last.ended)), (2_000, 2_100));
    assert_eq!((last.prompt_tokens, last.cached_tokens), (100, Some(75)));
    assert!(ask(START_S + 3).is_empty());
}

#[test]
fn what_is_in_flight_is_listed_oldest_first_and_only_that() {
    let flying = |number| api::Request {
        end: None,
        total_ms: None,
        ..request(number, 1_000 * number)
    };
    let query = RequestsQuery {
        in_flight: true,
        sort: Sort::parse("t").unwrap(),
        limit: 2,
        ..all()
    };
    let unwritten = vec![flying(3), flying(1), request(2, 2_000), flying(4)];
    let page = query.page(query.select(unwritten), 0, Found::default());
    assert_eq!(ids(&page), [1, 3]);
    assert_eq!(page.matching, 3);
}

#[test]
fn no_page_scans_the_table_and_none_sorts_what_an_index_orders() {
    let file = File::with([request(1, 0)]);
    let queries = [
        all(),
        RequestsQuery {
            model: Some("demo".into()),
            ..all()
        },
        RequestsQuery {
            before: Cursor::parse("1800000000000000-1"),
            ..all()
        },
        RequestsQuery {
            route: Some(Route::New),
            ..all()
        },
    ];
    for query in queries {
        let plan = query.plan(&file.reader()).unwrap();
        assert!(plan.contains("USING INDEX requests_"), "{query:?}: {plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{query:?}: {plan}");
    }
    let unusual = [
        (Some(Route::Spilled), None, "requests_unusual_route"),
        (None, Some(RequestEnd::EngineError), "requests_unusual_end"),
        (
            Some(Route::Sticky),
            Some(RequestEnd::Cut),
            "requests_unusual_end",
        ),
    ];
    for (route, end, index) in unusual {
        for model in [None, Some("demo".into())] {
            let query = RequestsQuery {
                route,
                end,
                model,
                ended_from: Some(Time(1)),
                ..all()
            };
            let plan = query.plan(&file.reader()).unwrap();
            assert!(plan.contains(index), "{query:?}: {plan}");
            assert!(!plan.contains("TEMP B-TREE"), "{query:?}: {plan}");
        }
    }
    let session = RequestsQuery {
        session: Some("abcd".into()),
        ..all()
    };
    let plan = session.plan(&file.reader()).unwrap();
    assert!(
        plan.contains("requests_session") && plan.contains("requests_conversation"),
        "{plan}"
    );
    let bar = RequestsQuery {
        ended_from: Some(Time(1)),
        ended_to: Some(Time(2)),
        ..all()
    };
    let plan = bar.plan(&file.reader()).unwrap();
    assert!(
        plan.contains("requests_ended (ended_us>? AND ended_us<?)"),
        "{plan}"
    );
}

fn any_request(number: u64) -> impl Strategy<Value = api::Request> {
    let figures = (0..4_u64, prop::option::of(0..3_u32), 0..3_u16, 0..3_usize);
    (figures, any::<[bool; 4]>()).prop_map(move |((ms, turn, replica, end), [a, b, c, d])| {
        let ends = [RequestEnd::Complete, RequestEnd::Cut, RequestEnd::Refused];
        api::Request {
            model: a.then(|| "demo".to_owned()),
            route: b.then_some(if c { Route::New } else { Route::Sticky }),
            turn,
            replica: d.then_some(replica),
            ttfb_ms: turn.map(|turn| f64::from(turn) * 7.5),
            cached_tokens: c.then_some(ms),
            computed_tokens: Some(if c { 100 - ms } else { 100 }),
            conversation: d.then(|| format!("{ms:016x}")),
            end: Some(ends[end]),
            ..request(number, ms)
        }
    })
}

fn any_query() -> impl Strategy<Value = RequestsQuery> {
    let filters = (
        any::<[bool; 5]>(),
        0..3_u16,
        0..4_u64,
        prop::option::of("[0a-d]{1,2}|new|CUT"),
    );
    let order = (0..Sort::names().len(), any::<bool>(), 0..8_u64, 1..8_u64);
    (filters, order).prop_map(
        |(([a, b, c, d, e], replica, ms, words), (by, falling, offset, limit))| {
            let sign = if falling { "-" } else { "" };
            let ended = |ms: u64| Time((START_S * 1000 + 100 + ms) * 1000);
            RequestsQuery {
                model: a.then(|| "demo".to_owned()),
                route: b.then_some(Route::New),
                end: c.then_some(if a {
                    RequestEnd::Complete
                } else {
                    RequestEnd::Cut
                }),
                in_flight: false,
                replica: d.then_some(replica),
                ended_from: e.then_some(ended(1)),
                ended_to: e.then_some(ended(ms)),
                session: (a && b).then(|| "0".to_owned()),
                sessions: (a && !b).then(|| vec!["0123456789abcdef".to_owned()]),
                words: words.map(|words| words.to_lowercase()),
                before: None,
                sort: Sort::parse(&format!("{sign}{}", Sort::names()[by])).unwrap(),
                offset,
                limit,
            }
        },
    )
}

proptest! {
    // Each writes a file.
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 10))]

    /// Whether a request is in the file or not makes no difference to any list.
    #[test]
    fn file_and_memory_filter_and_order_alike(
        requests in (0..12_usize).prop_flat_map(|count| {
            (0..count as u64).map(any_request).collect::<Vec<_>>()
        }),
        queries in prop::collection::vec(any_query(), 12),
        split in 0..12_usize,
    ) {
        let split = split.min(requests.len());
        let file = File::with(requests.clone());
        let part = File::with(requests[..split].to_vec());
        for query in queries {
            let chosen = query.select(requests.clone());
            let matching = chosen.len() as u64;
            let expected: Vec<_> = chosen
                .into_iter()
                .skip(query.offset as usize)
                .take(query.limit as usize)
                .collect();
            let written = page(&file, &query, &[]);
            prop_assert_eq!(&written.requests, &expected, "{:?}", query);
            prop_assert_eq!(written.matching, matching);
            let mixed = page(&part, &query, &requests[split..]);
            prop_assert_eq!(&mixed.requests, &expected, "{:?}, {} written", query, split);
            prop_assert_eq!(mixed.matching, matching);
        }
    }
}
