//! A warden whose replicas hold one conversation each, with leases from the first measured turn on, and
//! engines that answer when they are told.

use std::sync::{Arc, Mutex};

use routing::{Event, LeaseView, ReplicaIndex};
use tokio::sync::Semaphore;
use warden::clock;

use crate::support::{
    CHAT_EVENT, Client, Conn, Engine, MESSAGES_EVENTS, PATIENCE, Setup, Steps, Warden, get,
    json_reply, post,
};

/// One conversation's prompt, and a replica's cache, in tokens.
const PROMPT_TOKENS: usize = 6000;
const KV_TOKENS: u64 = 10_000;

/// What the engines do with a request once they are told.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reply {
    Well,
    /// An error of this status, in vLLM's words.
    Error(u16),
    /// The connection is reset.
    Reset,
}

pub(super) struct Hall {
    pub(super) warden: Warden,
    pub(super) engines: Vec<Engine>,
    pub(super) time: Steps,
    told: Vec<Arc<Semaphore>>,
    reply: Arc<Mutex<Reply>>,
}

pub(super) const MESSAGES: &str = "/v1/messages";
pub(super) const CHAT: &str = "/v1/chat/completions";
pub(super) const COMPLETIONS: &str = "/v1/completions";
pub(super) const RESPONSES: &str = "/v1/responses";

/// How streams of the OpenAI APIs end here: those of the Responses API in the second way.
pub(super) const LAST_EVENTS: [&str; 2] = [
    "data: [DONE]\n\n",
    "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"usage\":{\"input_tokens\":12,\"output_tokens\":3}}}\n\n",
];

impl Hall {
    /// Every replica serves a conversation, so that the next one waits. The turn that taught the warden
    /// how long turns take took `turn_s`.
    pub(super) async fn full(replicas: usize, turn_s: f64) -> (Self, Vec<Client>) {
        let told: Vec<_> = (0..replicas).map(|_| Arc::new(Semaphore::new(0))).collect();
        let reply = Arc::new(Mutex::new(Reply::Well));
        let mut engines = Vec::new();
        for told in &told {
            engines.push(engine(Arc::clone(told), Arc::clone(&reply)).await);
        }
        let mut setup = Setup::before(&engines.iter().collect::<Vec<_>>());
        setup.limits.progress_timeout = std::time::Duration::from_secs(3600);
        let hall = Self {
            warden: Warden::start(setup).await,
            engines,
            time: Steps::begin(),
            told,
            reply,
        };
        hall.always_leases(replicas);
        let mut first = hall.ask("first", MESSAGES, false).await;
        hall.served(1).await;
        hall.time.pass_s(turn_s).await;
        hall.tell_one(hall.replica_of("first"), 1);
        assert_eq!(first.reply().await.status, 200);
        // It is silent for longer than its place is held.
        hall.time.pass_s(1.0).await;
        let mut holders = Vec::new();
        for holder in 0..replicas {
            holders.push(hall.ask(&format!("holder {holder}"), MESSAGES, true).await);
            hall.served(holder + 2).await;
        }
        assert_eq!(hall.leases().holding as usize, replicas);
        (hall, holders)
    }

    fn always_leases(&self, replicas: usize) {
        let mut router = self.warden.fleet.models[0].router.lock();
        let mut settings = router.settings().clone();
        settings.leases.rule.switches = false;
        router.configure(settings);
        for replica in 0..replicas {
            let replica = ReplicaIndex(replica as u16);
            router.observe(clock::now(), Event::KvTokens(replica, KV_TOKENS));
        }
    }

    /// Sends a request of a conversation.
    pub(super) async fn ask(&self, session: &str, path: &str, stream: bool) -> Client {
        let text = "a".repeat(4 * PROMPT_TOKENS);
        let prompt = match path {
            COMPLETIONS => format!(r#""prompt":"{text}""#),
            RESPONSES => format!(r#""input":"{text}""#),
            _ => format!(r#""messages":[{{"role":"user","content":"{text}"}}]"#),
        };
        let body = format!(r#"{{"model":"demo","max_tokens":16,"stream":{stream},{prompt}}}"#);
        let mut client = self.warden.client().await;
        let headers = format!("x-session-id: {session}\r\n");
        client.send(post(path, &headers, body)).await;
        client
    }

    /// The same, once it waits.
    pub(super) async fn wait(&self, session: &str, path: &str, stream: bool) -> Client {
        let before = self.leases().waiting;
        let client = self.ask(session, path, stream).await;
        self.until(|| self.leases().waiting == before + 1).await;
        client
    }

    /// Lets the engines answer so many requests each, oldest first.
    pub(super) fn tell(&self, requests: usize) {
        for engine in 0..self.told.len() {
            self.tell_one(engine, requests);
        }
    }

    pub(super) fn tell_one(&self, engine: usize, requests: usize) {
        self.told[engine].add_permits(requests);
    }

    /// The replica that serves a conversation's request.
    pub(super) fn replica_of(&self, session: &str) -> usize {
        let serves = |engine: &Engine| {
            let received = engine.received();
            received
                .iter()
                .any(|r| r.head.header("x-session-id") == Some(session))
        };
        self.engines
            .iter()
            .position(serves)
            .expect("some engine serves it")
    }

    pub(super) fn will(&self, reply: Reply) {
        *self.reply.lock().unwrap() = reply;
    }

    pub(super) fn leases(&self) -> LeaseView {
        let now = clock::now();
        self.warden.fleet.models[0]
            .router
            .lock()
            .snapshot(now)
            .leases
    }

    pub(super) fn observe(&self, event: Event) {
        let mut router = self.warden.fleet.models[0].router.lock();
        router.observe(clock::now(), event);
    }

    /// Requests that reached an engine.
    pub(super) fn reached(&self) -> usize {
        self.engines.iter().map(|e| e.received().len()).sum()
    }

    pub(super) async fn served(&self, requests: usize) {
        self.until(|| self.reached() == requests).await;
    }

    /// Turns the runtime until a condition holds; time stands still meanwhile.
    pub(super) async fn until(&self, holds: impl Fn() -> bool) {
        // By the real clock, as the runtime's stands still.
        let begun = std::time::Instant::now();
        while !holds() {
            assert!(begun.elapsed() < PATIENCE, "waited in vain");
            self.turn().await;
        }
    }

    /// A round trip, so that sockets and other tasks get their turn.
    pub(super) async fn turn(&self) {
        let mut client = self.warden.client().await;
        assert_eq!(client.ask(get("/health")).await.status, 200);
    }

    /// The newest request's record once everything has ended.
    pub(super) async fn settled(self) -> api::Request {
        self.tell(100);
        self.time.end();
        self.warden.settled().await
    }
}

async fn engine(told: Arc<Semaphore>, reply: Arc<Mutex<Reply>>) -> Engine {
    Engine::start(move |mut conn: Conn| {
        let (told, reply) = (Arc::clone(&told), Arc::clone(&reply));
        async move {
            while let Some(received) = conn.request().await {
                told.acquire().await.unwrap().forget();
                let reply = *reply.lock().unwrap();
                match reply {
                    Reply::Reset => return conn.reset(),
                    Reply::Error(status) => {
                        let body = r#"{"error":{"message":"the prompt is too long","type":"BadRequestError","code":400}}"#;
                        let ok = json_reply(body);
                        conn.send(ok.replacen("200 OK", &format!("{status} No"), 1)).await;
                    }
                    Reply::Well => answer(&mut conn, &received.head.line, &received.body).await,
                }
            }
        }
    })
    .await
}

async fn answer(conn: &mut Conn, line: &str, body: &[u8]) {
    let streams = String::from_utf8_lossy(body).contains("\"stream\":true");
    if !streams {
        let cached = 64;
        let computed = PROMPT_TOKENS - cached;
        conn.send(json_reply(&format!(
            r#"{{"id":"m","type":"message","role":"assistant","content":[],"stop_reason":"end_turn","usage":{{"input_tokens":{computed},"cache_read_input_tokens":{cached},"output_tokens":3}}}}"#
        )))
        .await;
        return;
    }
    conn.begin_stream().await;
    if line.contains(CHAT) || line.contains(COMPLETIONS) {
        conn.event(CHAT_EVENT).await;
        conn.event(LAST_EVENTS[0]).await;
    } else if line.contains(RESPONSES) {
        conn.event(LAST_EVENTS[1]).await;
    } else {
        for event in MESSAGES_EVENTS {
            conn.event(event).await;
        }
    }
    conn.end_stream().await;
}
