//! Leases on the operators' API and in the metrics: whatever ends waits and leases, the figures add up.

use routing::{
    Admission, Candidates, Event, Identity, OwnerId, ReplicaIndex, Request, RequestClass, Ticket,
    Usage,
};
use warden::clock;

use super::{Fixture, SEED};

const PROMPT_TOKENS: u64 = 6000;

/// The model "demo", whose two replicas hold a conversation each.
struct Hall {
    fixture: Fixture,
}

impl Hall {
    fn new() -> Self {
        let hall = Self {
            fixture: Fixture::new(),
        };
        let mut router = hall.fixture.fleet.models[0].router.lock();
        let mut settings = router.settings().clone();
        settings.leases.rule.switches = false;
        router.configure(settings);
        for replica in [0, 1] {
            router.observe(clock::now(), Event::KvTokens(ReplicaIndex(replica), 10_000));
        }
        drop(router);
        let first = hall.ask("first");
        hall.tell(Event::Finished(
            first,
            Some(Usage {
                prompt_tokens: PROMPT_TOKENS,
                cached_tokens: Some(0),
                completion_tokens: 1,
            }),
        ));
        hall
    }

    fn ask(&self, session: &str) -> Ticket {
        let candidates = Candidates {
            x_session_id: Some(session.as_bytes()),
            ..Candidates::default()
        };
        let request = Request {
            owner: OwnerId::default(),
            identity: Identity::of(&SEED, OwnerId::default(), "demo", &candidates),
            pin: None,
            steerable: true,
            prompt_bytes: 4 * PROMPT_TOKENS,
            shared_bytes: 0,
            lineage: 0,
            front: 0,
            class: RequestClass::Unknown,
            streams: true,
        };
        let mut router = self.fixture.fleet.models[0].router.lock();
        let ticket = match router.admit(clock::now(), &request).unwrap() {
            Admission::Go(decision) => decision.ticket,
            Admission::Wait(wait) => wait.ticket,
        };
        router.advance(clock::now());
        ticket
    }

    fn tell(&self, event: Event) {
        let mut router = self.fixture.fleet.models[0].router.lock();
        router.observe(clock::now(), event);
        router.advance(clock::now());
    }

    /// Waits told and lasting, and how the others ended: by room, with the client, with the last
    /// replica.
    async fn adds_up(&self, expected: (u64, u64, [u64; 3])) {
        let text = self.fixture.ask("GET", "/metrics", "").await.body;
        let text = std::str::from_utf8(&text).unwrap().to_owned();
        let sum = |name: &str, label: &str| -> u64 {
            let of_model = format!("lm_warden_{name}{{model=\"demo\"");
            let lines = text.lines().filter(|line| line.starts_with(&of_model));
            let lines = lines.filter(|line| line.contains(label));
            lines
                .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
                .sum()
        };
        let ends = ["room", "left", "nowhere"].map(|cause| sum("waits_ended_total", cause));
        let (waits, waiting) = (sum("waits_total", ""), sum("waiting", ""));
        assert_eq!((waits, waiting, ends), expected);
        assert_eq!(waits, sum("waits_ended_total", "") + waiting);
        let releases = sum("lease_releases_total", "");
        let holding = sum("lease_holding", "");
        assert_eq!(sum("lease_grants_total", ""), releases + holding);
        let model = self.fixture.get("/api/v1/models/demo").await;
        let leases = &model["routing"]["leases"];
        assert_eq!(leases["waiting"], waiting);
        assert_eq!(leases["holding"], holding);
        assert_eq!(
            leases["waiters"].as_array().unwrap().len(),
            waiting as usize
        );
        assert_eq!(
            leases["holders"].as_array().unwrap().len(),
            holding as usize
        );
        assert_eq!(leases["counters"]["waits"], waits);
    }
}

#[tokio::test]
async fn waits_and_leases_add_up_however_they_end() {
    let hall = Hall::new();
    // The first one is silent, but keeps its place.
    let holders = [hall.ask("first"), hall.ask("second")];
    hall.adds_up((0, 0, [0; 3])).await;
    let waiting = ["a", "b", "c", "d"].map(|session| hall.ask(session));
    hall.adds_up((4, 4, [0; 3])).await;
    hall.tell(Event::Aborted(waiting[1]));
    hall.adds_up((4, 3, [0, 1, 0])).await;
    hall.tell(Event::Aborted(holders[0]));
    hall.tell(Event::Drain(ReplicaIndex(0)));
    hall.tell(Event::Drain(ReplicaIndex(1)));
    let ended = {
        let router = hall.fixture.fleet.models[0].router.lock();
        router.snapshot(clock::now()).leases.counters
    };
    let by_room = ended.ended_room;
    hall.adds_up((4, 0, [by_room, 1, 3 - by_room])).await;
}
