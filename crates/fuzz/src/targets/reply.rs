//! Engines' replies, streamed and whole.
//!
//! Laws: usage, end and brokenness do not depend on how the bytes are split; what passes is the
//! start of what came; a Messages stream with a deadly delta ends as cut.

use vllm::{Dialect, ReplyTap, StreamEnd, TapOutput, Usage};

use super::request::DIALECTS;

#[derive(Debug, PartialEq)]
struct Told {
    end: StreamEnd,
    usage: Option<Usage>,
    saw_first_event: bool,
    is_broken: bool,
}

/// The first byte chooses the API and how the reply comes, the second how it is split.
pub(super) fn run(bytes: &[u8]) {
    let [choice, split, body @ ..] = bytes else {
        return;
    };
    let dialect = DIALECTS[usize::from(choice % 5)];
    let streaming = choice & 0x20 == 0;
    let status = if choice & 0x40 == 0 { 200 } else { 500 };
    let tap = || ReplyTap::new(dialect, streaming, status);
    let (whole, passed_whole) = feed(tap(), [body]);
    let (torn, passed_torn) = feed(tap(), body.chunks(usize::from(*split) + 1));
    let (single, _) = feed(tap(), body.chunks(1));
    assert_eq!(whole, torn);
    assert_eq!(whole, single);
    assert!(passed_whole <= body.len() && passed_torn <= body.len());
    if !whole.is_broken && (dialect != Dialect::Messages || !streaming) {
        assert_eq!(passed_whole, body.len(), "something was held back");
    }
    if whole.is_broken {
        assert_eq!(whole.end, StreamEnd::Cut, "broken, but whole");
    }
}

fn feed<'a>(mut tap: ReplyTap, chunks: impl IntoIterator<Item = &'a [u8]>) -> (Told, usize) {
    let (mut passed, mut is_broken) = (0, false);
    for chunk in chunks {
        match tap.feed(chunk) {
            TapOutput::Pass(bytes) => passed += bytes,
            TapOutput::Broken(bytes) => {
                passed += bytes;
                is_broken = true;
                break;
            }
        }
    }
    let end = tap.finish();
    let told = Told {
        end,
        usage: tap.usage(),
        saw_first_event: tap.saw_first_event(),
        is_broken,
    };
    (told, passed)
}
