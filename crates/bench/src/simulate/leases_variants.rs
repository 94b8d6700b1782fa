//! What the studies of leases compare: the policies, the rule itself, the rule with a part left out or
//! changed, and rivals from elsewhere. On which machine and load is `leases_cases`.

use sim::policy::{Hold, LeaseRule, LeaseSettings, Overflow, PolicyKind};

/// A conversation kept for so many turns is kept to its end.
const TO_THE_END: u32 = 1000;

/// A variant: its name, its policy, what the rule is changed to, and the KV cache that is believed.
pub(super) type Variant = (String, PolicyKind, LeaseSettings, f64);

fn plain(policy: PolicyKind) -> Variant {
    let name = policy.as_str().to_owned();
    (name, policy, LeaseSettings::default(), 1.0)
}

fn leases(name: &str, change: impl FnOnce(&mut LeaseSettings)) -> Variant {
    let mut settings = LeaseSettings::default();
    change(&mut settings);
    (name.to_owned(), PolicyKind::Leases, settings, 1.0)
}

fn rule(name: &str, change: impl FnOnce(&mut LeaseRule)) -> Variant {
    leases(name, |settings| change(&mut settings.rule))
}

fn turns(name: &str, turns: u32) -> Variant {
    leases(name, |settings| settings.turns = Some(turns))
}

pub(super) fn main_variants() -> Vec<Variant> {
    vec![
        plain(PolicyKind::Affinity),
        plain(PolicyKind::Leases),
        turns("leases, to the end", TO_THE_END),
    ]
}

pub(super) fn rivals() -> Vec<Variant> {
    let mut variants = vec![
        plain(PolicyKind::Balanced),
        plain(PolicyKind::Hash),
        plain(PolicyKind::AffinityGauge),
    ];
    variants.extend(main_variants());
    variants
}

/// The rule with one part changed.
pub(super) fn ablations() -> Vec<Variant> {
    let believed = |name: &str, part| {
        (
            name.to_owned(),
            PolicyKind::Leases,
            LeaseSettings::default(),
            part,
        )
    };
    let mut variants = rivals();
    variants.extend([
        turns("quantum 1", 1),
        turns("quantum 2", 2),
        turns("quantum 4", 4),
        turns("quantum 6", 6),
        rule("hold 0 (a cap only)", |rule| rule.hold = Hold::Zero),
        rule("hold g*", |rule| rule.hold = Hold::Worth),
        rule("hold endless", |rule| rule.hold = Hold::Endless),
        rule("no overflow check", |rule| {
            rule.overflow = Overflow::Ignored;
        }),
        rule("anyone makes room", |rule| {
            rule.overflow = Overflow::Anyone;
        }),
        rule("no least turns", |rule| rule.turns_min_per_waiting = 0.0),
        rule("neither", |rule| {
            rule.overflow = Overflow::Anyone;
            rule.turns_min_per_waiting = 0.0;
        }),
        rule("always leases", |rule| rule.switches = false),
        rule("footprint of 3 turns", |rule| rule.footprint_turns = 3),
        rule("no bet", |rule| rule.bets = false),
        rule("no trim", |rule| rule.trims = false),
        rule("nobody passes", |rule| rule.passers_max = 0),
        rule("all may pass", |rule| rule.passers_max = u32::MAX),
        believed("KV believed 70 %", 0.7),
        believed("KV believed 80 %", 0.8),
        believed("KV believed 120 %", 1.2),
        believed("KV believed 130 %", 1.3),
        thunder_agent_like(),
    ]);
    variants
}

/// What is nearest in public, in the words of this rule: programs are admitted whole while their
/// contexts fit and kept to their end, from the first moment on, whoever fits may pass, and what
/// exceeds the memory is taken from at its next pause. Its programs tell their end; over HTTP a silence
/// longer than it is worth has to stand for it.
fn thunder_agent_like() -> Variant {
    leases("ThunderAgent-like", |settings| {
        settings.turns = Some(TO_THE_END);
        settings.rule.switches = false;
        settings.rule.hold = Hold::Worth;
        settings.rule.passers_max = u32::MAX;
        settings.rule.bets = false;
        settings.rule.trims = false;
    })
}
