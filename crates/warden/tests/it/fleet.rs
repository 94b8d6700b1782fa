//! The prober over sockets: what it tells the router, and when.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use routing::ReplicaIndex;
use warden::{
    clock,
    config::{Config, Overrides},
    fleet::{Fleet, Model, ModelState, Watch},
    persist::Marks,
    telemetry::Telemetry,
};

use crate::support::{Engine, json_reply, soon, until};

/// What a scripted vLLM with two ranks reports. `process` counts its lives.
fn metrics(process: u32, prompt_tokens: u32) -> String {
    let mut text = format!("process_start_time_seconds {process}.0\n");
    text += "vllm:cache_config_info{block_size=\"16\",kv_cache_size_tokens=\"4096\",num_gpu_blocks=\"512\",engine=\"0\"} 1.0\n";
    text += "vllm:cache_config_info{block_size=\"16\",kv_cache_size_tokens=\"4096\",num_gpu_blocks=\"512\",engine=\"1\"} 1.0\n";
    let rank = |rank: u32| {
        format!(
            "vllm:num_requests_running{{engine=\"{rank}\",model_name=\"m\"}} {rank}.0\n\
             vllm:num_requests_waiting{{engine=\"{rank}\",model_name=\"m\"}} 0.0\n\
             vllm:kv_cache_usage_perc{{engine=\"{rank}\",model_name=\"m\"}} 0.25\n\
             vllm:prompt_tokens_total{{engine=\"{rank}\",model_name=\"m\"}} {prompt_tokens}.0\n\
             vllm:prompt_tokens_cached_total{{engine=\"{rank}\",model_name=\"m\"}} {}.0\n\
             vllm:generation_tokens_total{{engine=\"{rank}\",model_name=\"m\"}} 1.0\n",
            prompt_tokens / 2,
        )
    };
    text + &rank(0) + &rank(1)
}

/// A vLLM whose life's number is `process`; 0 makes it unhealthy.
async fn engine(process: Arc<AtomicU32>) -> Engine {
    let prompt_tokens = Arc::new(AtomicU32::new(0));
    Engine::start(move |mut conn| {
        let (process, prompt_tokens) = (Arc::clone(&process), Arc::clone(&prompt_tokens));
        async move {
            while let Some(request) = conn.request().await {
                let life = process.load(Ordering::SeqCst);
                let path = request.head.line.split(' ').nth(1).unwrap().to_owned();
                let reply = match path.as_str() {
                    "/health" if life == 0 => {
                        "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n".to_owned()
                    }
                    "/health" => "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned(),
                    "/metrics" => {
                        let before = prompt_tokens.fetch_add(100, Ordering::SeqCst);
                        json_reply(&metrics(life, before + 100))
                    }
                    "/version" => json_reply(r#"{"version":"0.33.1"}"#),
                    "/v1/models" => json_reply(r#"{"data":[{"id":"inner","max_model_len":777}]}"#),
                    other => panic!("asked for {other}"),
                };
                conn.send(reply).await;
            }
        }
    })
    .await
}

/// A watched model; the watching ends when this is dropped.
struct Watched {
    model: Arc<Model>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn model(engine: &str) -> (Arc<Model>, Arc<Telemetry>) {
    let text = format!(
        "[[models]]\nname = \"m\"\n[models.engine]\nkind = \"attached\"\nmax_num_seqs = 8\n{engine}\n"
    );
    let config = Config::parse(&text, &Overrides::default()).unwrap();
    let now = clock::now();
    let fleet = Fleet::new(&config, now);
    let model = Arc::clone(&fleet.models[0]);
    let telemetry = Arc::new(Telemetry::new([("m", model.replica_ids.len())], now));
    (model, telemetry)
}

fn watch(engine: &str) -> Watched {
    let (model, telemetry) = model(engine);
    let task = tokio::spawn(Watch::new(&model, &telemetry).run());
    Watched { model, task }
}

#[tokio::test]
async fn a_server_with_ranks_is_introduced_and_scraped_by_rank() {
    let process = Arc::new(AtomicU32::new(1));
    let engine = engine(Arc::clone(&process)).await;
    let watched = watch(&format!("url = {:?}\ndata_parallel_size = 2", engine.url()));
    let model = &watched.model;
    until("the model to be ready", || {
        model.state() == ModelState::Ready
    })
    .await;
    until("its name", || {
        *model.engine_model.read().unwrap() == "inner"
    })
    .await;
    assert_eq!(*model.max_model_len.read().unwrap(), Some(777));
    assert_eq!(
        model.engine_version.read().unwrap().as_deref(),
        Some("0.33.1")
    );
    assert!(model.responses_steerable.load(Ordering::Relaxed));

    let snapshot = model.router.lock().snapshot(clock::now());
    for (rank, view) in snapshot.replicas.iter().enumerate() {
        assert_eq!(view.kv_tokens, Some(4096));
        let (gauges, _) = view.gauges.unwrap();
        assert_eq!((gauges.running as usize, gauges.waiting), (rank, 0));
    }
    until("a second scrape", || {
        model.figures()[1].hit_rate() == Some(0.5)
    })
    .await;
}

/// A conversation with 1,010 tokens; gives back its home.
fn one_turn(model: &Model) -> ReplicaIndex {
    let mut router = model.router.lock();
    let identity = routing::Identity::of(
        &routing::Seed([1; 16]),
        routing::OwnerId(0),
        "m",
        &routing::Candidates {
            x_session_id: Some(b"s"),
            ..Default::default()
        },
    );
    let request = routing::Request {
        owner: routing::OwnerId(0),
        identity,
        pin: None,
        steerable: true,
        prompt_bytes: 4000,
        shared_bytes: 0,
        lineage: 1,
        front: 0,
        streams: false,
        class: routing::RequestClass::Turn,
    };
    let decision = router.route(clock::now(), &request).unwrap();
    let usage = routing::Usage {
        prompt_tokens: 1000,
        cached_tokens: None,
        completion_tokens: 10,
    };
    router.observe(
        clock::now(),
        routing::Event::Finished(decision.ticket, Some(usage)),
    );
    decision.replica.unwrap()
}

#[tokio::test]
async fn another_process_behind_the_same_url_has_a_cold_cache() {
    let process = Arc::new(AtomicU32::new(1));
    let engine = engine(Arc::clone(&process)).await;
    let watched = watch(&format!("url = {:?}\ndata_parallel_size = 2", engine.url()));
    let model = &watched.model;
    until("a first scrape", || model.figures()[0].scraped.is_some()).await;
    let ReplicaIndex(home) = one_turn(model);
    let committed = || {
        let snapshot = model.router.lock().snapshot(clock::now());
        snapshot.replicas[usize::from(home)].committed_tokens
    };
    assert!(committed() > 0);
    process.store(2, Ordering::SeqCst);
    until("the cache to be taken for cold", || committed() == 0).await;
}

#[tokio::test]
async fn an_engine_that_was_restarted_while_the_warden_was_down_has_a_cold_cache() {
    let process = Arc::new(AtomicU32::new(1));
    let engine = engine(Arc::clone(&process)).await;
    let settings = format!("url = {:?}\ndata_parallel_size = 2", engine.url());
    let folder = tempfile::tempdir().unwrap();
    let marks = |model: &Arc<Model>| {
        let models = vec![Arc::clone(model)];
        Marks::load(folder.path().join("engines-seen.json"), &Fleet { models })
    };
    // One life of a warden: its homes come back, then it looks at its engines.
    let committed_after_a_look = async || {
        let (model, telemetry) = model(&settings);
        let marks = marks(&model);
        let ReplicaIndex(home) = one_turn(&model);
        Watch::new(&model, &telemetry).look().await;
        marks.write();
        let snapshot = model.router.lock().snapshot(clock::now());
        snapshot.replicas[usize::from(home)].committed_tokens
    };
    assert!(committed_after_a_look().await > 0, "nothing is known yet");
    assert!(committed_after_a_look().await > 0, "the same process");
    process.store(2, Ordering::SeqCst);
    assert_eq!(committed_after_a_look().await, 0, "another process");
    assert!(committed_after_a_look().await > 0);
}

#[tokio::test]
async fn a_replica_that_refuses_connections_is_out_and_named() {
    let process = Arc::new(AtomicU32::new(1));
    let engine = engine(process).await;
    // A port that was free a moment ago.
    let gone = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let watched = watch(&format!("urls = [{:?}, \"http://{gone}\"]", engine.url()));
    let model = &watched.model;
    let degraded = |state: &ModelState| match state {
        ModelState::Degraded(why) => {
            why.contains("replica 1 out") && why.contains(&gone.to_string())
        }
        _ => false,
    };
    until("the dead replica to be named", || degraded(&model.state())).await;
    let snapshot = model.router.lock().snapshot(clock::now());
    assert!(snapshot.replicas[0].up && !snapshot.replicas[1].up);
}

#[tokio::test]
async fn an_unhealthy_replica_is_out_until_it_is_well_again() {
    let process = Arc::new(AtomicU32::new(1));
    let (sick, well) = (
        engine(Arc::clone(&process)).await,
        engine(Arc::new(AtomicU32::new(1))).await,
    );
    let watched = watch(&format!("urls = [{:?}, {:?}]", sick.url(), well.url()));
    let model = &watched.model;
    let up = || model.router.lock().snapshot(clock::now()).replicas[0].up;
    until("the model to be ready", || {
        model.state() == ModelState::Ready
    })
    .await;
    process.store(0, Ordering::SeqCst);
    until("it to be taken out", || !up()).await;
    process.store(1, Ordering::SeqCst);
    until("it to be back", up).await;
    until("the model to be ready again", || {
        model.state() == ModelState::Ready
    })
    .await;
}

#[tokio::test]
async fn one_look_is_enough_to_know_the_engines_name_for_the_model() {
    let engine = engine(Arc::new(AtomicU32::new(1))).await;
    let (model, telemetry) = model(&format!("urls = [{:?}]", engine.url()));
    let _watch = soon("a look", Watch::new(&model, &telemetry).look()).await;
    assert_eq!(*model.engine_model.read().unwrap(), "inner");
    assert_eq!(model.state(), ModelState::Ready);
}
