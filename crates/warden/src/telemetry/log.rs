//! One log line per request, when it has ended. Ids of strangers appear as the first digits of
//! their hashes.

use super::{
    record::{Record, as_ms},
    words,
};

pub(super) fn request(record: &Record) {
    let info = &record.info;
    let conversation = record.conversation();
    let usage = record.usage();
    let ms = |duration: Option<std::time::Duration>| duration.map(as_ms);
    tracing::info!(
        id = %info.id,
        model = info.model.as_deref(),
        path = info.path,
        conversation = conversation.as_deref().and_then(|id| id.get(..8)),
        route = record.route().map(|(route, _)| route.as_str()),
        replica = record.route().and_then(|(_, replica)| Some(replica?.0)),
        status = record.status(),
        end = record.end().map(words::end).map(tracing::field::debug),
        queue_ms = ms(record.queue()),
        ttfb_ms = ms(record.ttfb()),
        total_ms = ms(record.total()),
        prompt_tokens = usage.map(|usage| usage.prompt_tokens),
        cached_tokens = usage.and_then(|usage| usage.cached_tokens),
        completion_tokens = usage.map(|usage| usage.completion_tokens),
        cold = record.cold().map(|cold| cold.sentence),
        "request"
    );
}
