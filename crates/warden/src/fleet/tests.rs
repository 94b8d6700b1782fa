//! Figures, states in words, and what engines tell of themselves.

use routing::{Event, ReplicaIndex, Time};
use vllm::EngineMetrics;

use super::{health::Process, versions::served, *};
use crate::config::{Config, Overrides};

fn model(engine: &str) -> Model {
    let text = format!("[[models]]\nname = \"m\"\n[models.engine]\n{engine}\n");
    let overrides = Overrides {
        data_dir: Some("/state".into()),
        ..Overrides::default()
    };
    let config = Config::parse(&text, &overrides).unwrap();
    Model::new(&config.models[0], Time(0))
}

fn two_urls() -> Model {
    model("kind = \"attached\"\nurls = [\"http://a:1\", \"http://b:2\"]\nmax_num_seqs = 8")
}

fn metrics(prompt: f64, cached: Option<f64>) -> EngineMetrics {
    EngineMetrics {
        prompt_tokens: Some(prompt),
        prompt_tokens_cached: cached,
        ..EngineMetrics::default()
    }
}

#[test]
fn the_hit_rate_counts_from_the_first_scrape_and_over_restarts() {
    let mut figures = Figures::default();
    assert_eq!(figures.hit_rate(), None);
    assert!(!figures.scraped(Time(1), None, metrics(1000.0, Some(0.0))));
    assert_eq!(
        figures.hit_rate(),
        None,
        "nothing ran since the first scrape"
    );
    assert!(!figures.scraped(Time(2), None, metrics(1100.0, Some(50.0))));
    assert_eq!(figures.hit_rate(), Some(0.5));
    assert!(
        figures.scraped(Time(3), None, metrics(100.0, Some(0.0))),
        "a counter fell"
    );
    assert_eq!(figures.hit_rate(), Some(0.25));
    assert!(!figures.scraped(Time(4), None, EngineMetrics::default()));
    assert!(
        figures.scraped(Time(5), None, metrics(60.0, Some(0.0))),
        "a counter was gone, and came back lower"
    );
    let mut silent = Figures::default();
    silent.scraped(Time(1), None, metrics(1.0, None));
    silent.scraped(Time(2), None, metrics(9.0, None));
    assert_eq!(silent.hit_rate(), None, "unknown is not 0");
}

#[test]
fn gauges_are_told_only_where_the_engine_reports_its_queue() {
    let mut figures = Figures::default();
    figures.scraped(Time(1), None, metrics(5.0, None));
    assert_eq!(figures.gauges(), None);
    let whole = EngineMetrics {
        running: Some(2.0),
        waiting: Some(1.0),
        kv_cache_usage: Some(0.5),
        generation_tokens: Some(3.0),
        ..metrics(5.0, None)
    };
    figures.scraped(Time(2), None, whole);
    let gauges = figures.gauges().unwrap();
    assert_eq!(
        (gauges.running, gauges.waiting, gauges.tokens_total),
        (2, 1, 8)
    );
}

#[test]
fn a_model_is_ready_when_every_replica_has_answered() {
    let model = two_urls();
    let state = |now| {
        model.refresh_state(Time(now));
        model.state()
    };
    assert_eq!(
        state(1),
        ModelState::Loading("waiting for its first answer".to_owned())
    );
    model.answered(0, Ok(()));
    assert_eq!(
        state(2),
        ModelState::Degraded("replica 1 out: waiting for its first answer".to_owned())
    );
    model.answered(1, Ok(()));
    assert_eq!(state(3), ModelState::Ready);
    let drain = |event: fn(ReplicaIndex) -> Event, replica| {
        model
            .router
            .lock()
            .observe(Time(3), event(ReplicaIndex(replica)));
    };
    drain(Event::Drain, 0);
    assert_eq!(state(3), ModelState::Ready);
    drain(Event::Drain, 1);
    assert_eq!(state(3), ModelState::Drained);
    drain(Event::Undrain, 1);
    drain(Event::Undrain, 0);
    model.answered(1, Err("http://b:2/health cannot be reached"));
    let event = Event::ConnectFailed(ReplicaIndex(1));
    model.router.lock().observe(Time(4), event);
    assert_eq!(
        state(4),
        ModelState::Degraded(
            "replica 1 out: no answer: http://b:2/health cannot be reached".to_owned()
        )
    );
}

#[test]
fn a_state_lasts_while_only_its_words_change() {
    let model = model("kind = \"simulated\"\ndata_parallel_size = 2");
    let since = |now, process| {
        model.process(Time(now), model.replicas(), &process);
        model.state_since()
    };
    let starting = |words: &str| Process::Starting(words.to_owned());
    assert_eq!(since(5, Process::Failed("bad profile".to_owned())), Time(5));
    assert_eq!(since(6, starting("it loads")), Time(6));
    assert_eq!(since(7, starting("it loads, 1 s")), Time(6));
    assert_eq!(since(8, Process::Stopped), Time(8));
}

#[test]
fn a_process_that_starts_or_failed_goes_before_its_replicas() {
    let model = model("kind = \"simulated\"\ndata_parallel_size = 2");
    assert!(model.targets().is_empty());
    assert!(model.process(
        Time(1),
        model.replicas(),
        &Process::Failed("bad profile".to_owned())
    ));
    assert_eq!(model.state(), ModelState::Failed("bad profile".to_owned()));
    assert!(!model.process(
        Time(2),
        model.replicas(),
        &Process::Failed("bad profile".to_owned())
    ));
}

#[test]
fn homes_are_named_by_url_or_rank() {
    assert_eq!(two_urls().replica_ids, ["http://a:1", "http://b:2"]);
    let ranks = model(
        "kind = \"attached\"\nurl = \"http://a:1\"\ndata_parallel_size = 2\nmax_num_seqs = 8",
    );
    assert_eq!(
        ranks.replica_ids,
        ["http://a:1 rank:0", "http://a:1 rank:1"]
    );
    assert_eq!(ranks.targets()[1].rank, Some(1));
    assert_eq!(two_urls().targets()[1].rank, None);
}

#[test]
fn the_engines_own_name_is_the_configured_one_or_the_first() {
    let list = br#"{"data": [{"id": "a", "max_model_len": 32768}, {"id": "b", "x": 1}]}"#;
    assert_eq!(served(list, "b").unwrap().id, "b");
    assert_eq!(served(list, "c").unwrap().max_model_len, Some(32_768));
    assert_eq!(served(br#"{"data": []}"#, "a"), None);
    assert_eq!(served(b"<html>", "a"), None);
    assert_eq!(
        versions::version(br#"{"version": "0.26.0+cpu"}"#).as_deref(),
        Some("0.26.0+cpu")
    );
    assert_eq!(versions::version(br#"{"version": 3}"#), None);
}
