//! The production router, fed with what the gateway would tell it and nothing more: session ids,
//! prompt sizes in bytes, the events of a request, usage, and one scrape a second.

use super::{Ask, Choice};
use crate::fleet::Fleet;
use routing::{
    ConversationKey, Event, Gauges, Identity, IdentitySource, OwnerId, ReplicaIndex, ReplicaSpec,
    Request, RequestClass, Route, Router, Settings, Steering, Time, Usage,
};
use std::time::Duration;

/// What a token is to a gateway that sees bytes.
const BYTES_PER_TOKEN: u64 = 4;

#[derive(Debug)]
pub(super) struct RouterPolicy {
    router: Router,
}

impl RouterPolicy {
    pub(super) fn new(fleet: &Fleet, affinity: bool, spill_threshold: Option<u32>) -> Self {
        let settings = Settings {
            affinity,
            spill_threshold,
            max_num_seqs: fleet.profile.max_num_seqs,
            steering: Steering::Ranks,
            session_idle: Duration::from_secs(3600),
            conversations_max: 100_000,
        };
        let replicas = (0..fleet.replicas.len())
            .map(|rank| ReplicaSpec {
                id: format!("rank:{rank}"),
                kv_tokens: Some(fleet.profile.kv_tokens),
            })
            .collect();
        Self {
            router: Router::new(settings, replicas, Time(fleet.now_us)),
        }
    }

    pub(super) fn choose(&mut self, ask: &Ask, fleet: &Fleet) -> Choice {
        let identity = Identity {
            conversation: ConversationKey(u128::from(ask.session)),
            session: ask.session,
            agent: None,
            source: IdentitySource::ClaudeCodeHeader,
        };
        let request = Request {
            owner: OwnerId(0),
            identity: Some(identity),
            pin: None,
            steerable: true,
            prompt_bytes: BYTES_PER_TOKEN * u64::from(ask.prompt_tokens),
            shared_bytes: BYTES_PER_TOKEN * u64::from(ask.shared_tokens),
            lineage: 1,
            class: RequestClass::Unknown,
        };
        let decision = self
            .router
            .route(Time(fleet.now_us), &request)
            .expect("no replica of a simulated fleet ever fails");
        let stayed = match decision.route {
            Route::Sticky => Some(true),
            Route::Spilled | Route::Moved => Some(false),
            Route::Pinned | Route::Balanced | Route::New => None,
        };
        Choice {
            replica: decision.replica.map(|replica| usize::from(replica.0)),
            stayed,
            ticket: Some(decision.ticket),
        }
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
