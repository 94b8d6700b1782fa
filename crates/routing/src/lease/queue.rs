//! Who waits, in which order.
//!
//! Within an owner it is first come, first served, by the first arrival: ordering by attained service
//! raised the 95th percentile from 71 to 126 s in simulation and gained nothing. Between owners the one
//! that has used the fewest replica-seconds is next; who comes back after an absence starts level with
//! the others, so nobody saves up for a monopoly.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashTable;

use crate::{ConversationKey, OwnerId, ReplicaIndex, Request, Ticket, Time};

/// A request that waits for room.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub(crate) ticket: Ticket,
    pub(crate) request: Request,
    /// When this attempt came.
    pub(crate) arrived: Time,
    /// When its conversation first asked, refused attempts included.
    pub(crate) first_arrival: Time,
    /// When it goes to a full replica.
    pub(crate) deadline: Time,
    /// F: own tokens that it needs.
    pub(crate) footprint: u32,
    /// The only replica that it may go to.
    pub(crate) only: Option<ReplicaIndex>,
    /// A replica that it may not go to, since it failed there: it goes before all others then.
    pub(crate) not: Option<ReplicaIndex>,
    /// A turn of a conversation, which gets a lease; else it is charged while it runs.
    pub(crate) is_turn: bool,
    /// Its conversation has not spoken before.
    pub(crate) is_new: bool,
}

impl Waiting {
    /// Whether its client named the replica, and it is heeded.
    pub(crate) fn is_pinned(&self) -> bool {
        self.request.pin.is_some() && !self.is_turn && self.only.is_some()
    }

    /// Whether its pin and its failed attempt allow this replica.
    pub(super) fn may_go_to(&self, replica: ReplicaIndex) -> bool {
        self.only.is_none_or(|only| only == replica) && self.not != Some(replica)
    }

    fn place(&self) -> Place {
        (self.not.is_none(), self.first_arrival, self.ticket)
    }
}

/// Order within an owner: those that were sent already, then by age.
type Place = (bool, Time, Ticket);

/// One owner's requests, in line.
#[derive(Debug, Default)]
struct Line {
    /// Microseconds of whole replicas.
    used: u64,
    waiting: BTreeSet<Place>,
}

/// All requests that wait. They lie still in one table; the orders hold their tickets only, so that
/// what comes and goes moves a few bytes however long the queue is.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: HashTable<Waiting>,
    owners: BTreeMap<OwnerId, Line>,
    /// Owners with a request that waits, least served first.
    turns: BTreeSet<(u64, OwnerId)>,
    ages: BTreeSet<(Time, Ticket)>,
    deadlines: BTreeSet<(Time, Ticket)>,
    conversations: HashTable<(ConversationKey, Ticket)>,
    footprints: u64,
    /// Service of the owner that was last served: where newcomers start.
    level: u64,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Sum of the footprints.
    pub(super) fn footprints(&self) -> u64 {
        self.footprints
    }

    /// The longest waiting one's first arrival.
    pub(super) fn oldest(&self) -> Option<Time> {
        self.ages.first().map(|(first_arrival, _)| *first_arrival)
    }

    /// The first arrival of whoever of an owner's is next.
    pub(super) fn oldest_of(&self, owner: OwnerId) -> Option<Time> {
        let line = self.owners.get(&owner)?;
        line.waiting
            .first()
            .map(|(_, first_arrival, _)| *first_arrival)
    }

    /// Requests that are let in up to the last one of an owner's, at the most: its own, and as many of
    /// each other owner's, since owners take turns.
    pub(super) fn up_to_last_of(&self, owner: OwnerId) -> usize {
        let own = self.owners.get(&owner).map_or(0, |line| line.waiting.len());
        own.saturating_mul(self.turns.len()).min(self.len())
    }

    /// The first deadline.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// A request whose deadline has come.
    pub(super) fn due(&self, now: Time) -> Option<Ticket> {
        self.deadlines
            .first()
            .filter(|(deadline, _)| *deadline <= now)
            .map(|(_, ticket)| *ticket)
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<&Waiting> {
        self.waiting
            .find(ticket.spread(), |waiting| waiting.ticket == ticket)
    }

    /// Requests of a conversation that wait, the first ticket first.
    #[expect(
        clippy::disallowed_methods,
        reason = "sorted before anybody sees the order"
    )]
    pub(super) fn of(&self, key: ConversationKey) -> Vec<Ticket> {
        let mut tickets: Vec<Ticket> = self
            .conversations
            .iter_hash(key.shown())
            .filter(|(of, _)| *of == key)
            .map(|(_, ticket)| *ticket)
            .collect();
        tickets.sort_unstable();
        tickets
    }

    /// Adds a request. True where it stands so far in front that it may be let in next.
    pub(super) fn push(&mut self, waiting: Waiting, passers_max: u32) -> bool {
        let owner = waiting.request.owner;
        let place = waiting.place();
        self.ages.insert((waiting.first_arrival, waiting.ticket));
        self.deadlines.insert((waiting.deadline, waiting.ticket));
        if let Some(identity) = waiting.request.identity {
            let key = identity.conversation;
            self.conversations
                .insert_unique(key.shown(), (key, waiting.ticket), |(key, _)| key.shown());
        }
        self.footprints += u64::from(waiting.footprint);
        let line = self.owners.entry(owner).or_default();
        if line.waiting.is_empty() {
            line.used = line.used.max(self.level);
            self.turns.insert((line.used, owner));
        }
        line.waiting.insert(place);
        self.waiting
            .insert_unique(waiting.ticket.spread(), waiting, |waiting| {
                waiting.ticket.spread()
            });
        let in_front = passers_max.saturating_add(1) as usize;
        line.waiting.len() <= in_front || line.waiting.iter().take(in_front).any(|at| *at == place)
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Waiting> {
        let found = self
            .waiting
            .find_entry(ticket.spread(), |waiting| waiting.ticket == ticket);
        let (waiting, _) = found.ok()?.remove();
        let owner = waiting.request.owner;
        if let Some(line) = self.owners.get_mut(&owner) {
            line.waiting.remove(&waiting.place());
            if line.waiting.is_empty() {
                self.turns.remove(&(line.used, owner));
            }
        }
        self.ages.remove(&(waiting.first_arrival, ticket));
        self.deadlines.remove(&(waiting.deadline, ticket));
        if let Some(identity) = waiting.request.identity {
            let key = identity.conversation;
            let found = self
                .conversations
                .find_entry(key.shown(), |at| *at == (key, ticket));
            if let Ok(entry) = found {
                entry.remove();
            }
        }
        self.footprints -= u64::from(waiting.footprint);
        self.tidy(owner);
        Some(waiting)
    }

    /// The request that is next and at most `passers_max` that may pass it: owners by turns, each
    /// one's in order of age.
    pub(super) fn front(&self, passers_max: u32) -> Vec<&Waiting> {
        let most = (passers_max as usize).saturating_add(1).min(self.len());
        let mut owners: Vec<_> = self
            .turns
            .iter()
            .take(most)
            .filter_map(|(_, owner)| Some(self.owners.get(owner)?.waiting.iter()))
            .collect();
        let mut front = Vec::with_capacity(most);
        while front.len() < most {
            let before = front.len();
            for waiting in &mut owners {
                if front.len() < most {
                    let next = waiting.next();
                    front.extend(next.and_then(|(.., ticket)| self.get(*ticket)));
                }
            }
            if front.len() == before {
                break;
            }
        }
        front
    }

    /// The owner is next no more: so much of a replica's time is its own now.
    pub(super) fn charge(&mut self, owner: OwnerId, used_us: i64) {
        let line = self.owners.entry(owner).or_default();
        let waits = !line.waiting.is_empty();
        if waits {
            self.turns.remove(&(line.used, owner));
            self.level = self.level.max(line.used.min(self.least_used(owner)));
        }
        let line = self.owners.entry(owner).or_default();
        line.used = line.used.max(self.level).saturating_add_signed(used_us);
        if waits {
            self.turns.insert((line.used, owner));
        }
        self.tidy(owner);
    }

    /// Takes out what the test holds for.
    pub(super) fn take_if(&mut self, test: impl Fn(&Waiting) -> bool) -> Vec<Waiting> {
        let tickets = self.tickets().into_iter();
        let taken: Vec<Ticket> = tickets
            .filter(|ticket| self.get(*ticket).is_some_and(&test))
            .collect();
        taken
            .into_iter()
            .filter_map(|ticket| self.remove(ticket))
            .collect()
    }

    /// Everything that waits, in the order in which it would be let in.
    pub(super) fn tickets(&self) -> Vec<Ticket> {
        let all = self.front(u32::MAX);
        all.into_iter().map(|waiting| waiting.ticket).collect()
    }

    /// Forgets what was used: nobody is behind anybody any more.
    pub(super) fn level_out(&mut self) {
        debug_assert!(self.is_empty(), "whoever waits is in a turn");
        self.owners.clear();
        self.turns.clear();
        self.level = 0;
    }

    fn least_used(&self, or: OwnerId) -> u64 {
        let own = self.owners.get(&or).map_or(0, |line| line.used);
        self.turns.first().map_or(own, |(used, _)| (*used).min(own))
    }

    /// Forgets an owner that waits for nothing and would start level with the others.
    fn tidy(&mut self, owner: OwnerId) {
        if let Some(line) = self.owners.get(&owner)
            && line.waiting.is_empty()
            && line.used <= self.level
        {
            self.owners.remove(&owner);
        }
    }

    /// Panics where two accounts of the same thing differ.
    #[cfg(test)]
    pub(super) fn audit(&self) {
        let lines = self.owners.iter();
        let in_line =
            lines.flat_map(|(owner, line)| line.waiting.iter().map(move |at| (owner, at)));
        let (mut count, mut named, mut footprints) = (0, 0, 0);
        for (owner, place) in in_line {
            let waiting = self.get(place.2).expect("who is in line waits");
            assert_eq!((waiting.request.owner, waiting.place()), (*owner, *place));
            count += 1;
            named += usize::from(waiting.request.identity.is_some());
            footprints += u64::from(waiting.footprint);
        }
        assert_eq!(
            (self.waiting.len(), self.conversations.len()),
            (count, named)
        );
        assert_eq!((self.ages.len(), self.deadlines.len()), (count, count));
        assert_eq!(self.footprints, footprints);
        let busy = self.owners.values().filter(|line| !line.waiting.is_empty());
        assert_eq!(self.turns.len(), busy.count());
        assert_eq!(self.tickets().len(), count);
    }
}
