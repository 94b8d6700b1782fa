//! The production router, fed with what the gateway would tell it and nothing more: session ids,
//! prompt sizes in bytes, the events of a request, usage, and one scrape a second.

use super::{Answer, Ask, Choice, Knobs};
use crate::fleet::Fleet;
use routing::{
    Admission, ConversationKey, Decision, Event, Gauges, Identity, IdentitySource, LeaseCounters,
    OwnerId, Refusal, ReplicaIndex, ReplicaSpec, Request, RequestClass, Route, Router, Settings,
    Steering, Ticket, Time, Usage,
};
use std::time::Duration;

/// What a token is to a gateway that sees bytes.
const BYTES_PER_TOKEN: u64 = 4;

#[derive(Debug)]
pub(super) struct RouterPolicy {
    router: Router,
}

impl RouterPolicy {
    pub(super) fn new(fleet: &Fleet, affinity: bool, knobs: &Knobs) -> Self {
        let settings = Settings {
            affinity,
            spill_threshold: knobs.spill_threshold,
            max_num_seqs: fleet.profile.max_num_seqs,
            steering: Steering::Ranks,
            session_idle: Duration::from_secs(3600),
            conversations_max: 100_000,
            leases: knobs.leases,
        };
        let believed = fleet.profile.kv_tokens as f64 * knobs.kv_tokens_believed;
        let replicas = (0..fleet.replicas.len())
            .map(|rank| ReplicaSpec {
                id: format!("rank:{rank}"),
                kv_tokens: Some(believed as u64),
                host: fleet.profile.host_tier(),
            })
            .collect();
        Self {
            router: Router::new(settings, replicas, Time(fleet.now_us)),
        }
    }

    pub(super) fn choose(&mut self, ask: &Ask, fleet: &Fleet) -> Answer {
        let identity = Identity {
            conversation: ConversationKey(u128::from(ask.session)),
            session: ask.session,
            agent: None,
            source: IdentitySource::ClaudeCodeHeader,
        };
        let request = Request {
            owner: OwnerId(ask.owner),
            identity: Some(identity),
            pin: None,
            steerable: true,
            prompt_bytes: BYTES_PER_TOKEN * u64::from(ask.prompt_tokens),
            shared_bytes: BYTES_PER_TOKEN * u64::from(ask.shared_tokens),
            lineage: 1,
            front: 0,
            class: RequestClass::Unknown,
            streams: true,
        };
        match self.router.admit(Time(fleet.now_us), &request) {
            Ok(Admission::Go(decision)) => Answer::Go(choice(&decision)),
            Ok(Admission::Wait(wait)) => Answer::Wait(wait.ticket),
            Err(Refusal::QueueTooLong { retry_after, .. }) => Answer::Refused {
                retry_us: retry_after.as_micros() as u64,
            },
            Err(refusal) => panic!("no replica of a simulated fleet ever fails: {refusal}"),
        }
    }

    pub(super) fn advance(&mut self, now_us: u64) -> Vec<(Ticket, Choice)> {
        self.router
            .advance(Time(now_us))
            .into_iter()
            .map(|grant| {
                let decision = grant.decision.expect("no replica ever fails");
                (grant.ticket, choice(&decision))
            })
            .collect()
    }

    pub(super) fn wakeup(&self, now_us: u64) -> Option<u64> {
        self.router.next_wakeup(Time(now_us)).map(|time| time.0)
    }

    pub(super) fn lease_counters(&self, now_us: u64) -> LeaseCounters {
        self.router.snapshot(Time(now_us)).leases.counters
    }

    pub(super) fn first_byte(&mut self, choice: &Choice, now_us: u64) {
        if let Some(ticket) = choice.ticket {
            self.router.observe(Time(now_us), Event::FirstByte(ticket));
        }
    }

    pub(super) fn finished(&mut self, choice: &Choice, usage: Usage, now_us: u64) {
        if let Some(ticket) = choice.ticket {
            self.router
                .observe(Time(now_us), Event::Finished(ticket, Some(usage)));
        }
        // The warden writes these to disk; here they would only pile up.
        self.router.take_changes();
    }

    pub(super) fn scraped(&mut self, fleet: &Fleet) {
        for (index, replica) in fleet.replicas.iter().enumerate() {
            let counters = replica.scheduler.counters();
            let gauges = Gauges {
                running: replica.scheduler.running() as u32,
                waiting: replica.scheduler.waiting() as u32,
                kv_cache_usage: replica.scheduler.kv_cache_usage(),
                tokens_total: counters.prompt_tokens + counters.generation_tokens,
            };
            let event = Event::Scraped(ReplicaIndex(index as u16), gauges);
            self.router.observe(Time(fleet.now_us), event);
        }
    }
}

fn choice(decision: &Decision) -> Choice {
    Choice {
        replica: decision.replica.map(|replica| usize::from(replica.0)),
        stayed: match decision.route {
            Route::Sticky => Some(true),
            Route::Spilled | Route::Moved => Some(false),
            Route::Pinned | Route::Balanced | Route::New => None,
        },
        ticket: Some(decision.ticket),
    }
}
