//! Coalescing text: when text alone goes out, decided without I/O for moments that are passed in.
//!
//! A model's tokens may come ten to a millisecond, and each that is written alone costs a wake-up of its connection, a
//! system call and a packet. So once text was written, further text rests for a window ([`BREATH`]), and then goes out
//! with all that came meanwhile. A model slower than that never waits, the first piece does not either, and neither
//! does anything but text: a commit ends a window, and anything but text comes with one.

use std::time::Duration;

use baton_core::event::Event;
use baton_engine::{EngineError, Seen};
use tokio::time::Instant;

/// How long text rests: far below the perception of a person (a screen shows a picture every 16 ms), and long enough
/// for a fast model's whole sentence.
pub(super) const BREATH: Duration = Duration::from_millis(2);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Coalescer {
    since: Since,
    /// Text rests until then.
    rests_until: Option<Instant>,
}

/// The items that were read since everything last went out.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Since {
    #[default]
    Nothing,
    Text,
    /// An item that must not wait.
    More,
}

impl Coalescer {
    /// Notes an item that was read. Answers until when it should rest before more is read and all of it goes out:
    /// always in the future, since a timer that is set to the past would still wait for its next tick.
    pub(super) fn read(&mut self, is_text: bool, now: impl FnOnce() -> Instant) -> Option<Instant> {
        self.since = if is_text && self.since != Since::More { Since::Text } else { Since::More };
        let rests_until = self.rests_until.take();
        rests_until.filter(|until| self.since == Since::Text && now() < *until)
    }

    /// Notes that there is no more to read for now, and that everything read goes out.
    pub(super) fn goes_out(&mut self, now: impl FnOnce() -> Instant) {
        match std::mem::take(&mut self.since) {
            Since::Nothing => {}
            Since::Text => self.rests_until = Some(now() + BREATH),
            Since::More => self.rests_until = None,
        }
    }
}

/// Whether an item is a piece of text, and nothing else.
pub(super) fn is_text(seen: &Result<Option<Seen>, EngineError>) -> bool {
    matches!(seen, Ok(Some(Seen::Event(it))) if matches!(it.event, Event::Delta { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::event::NumberedEvent;
    use std::sync::Arc;

    const TEXT: bool = true;
    const OTHER: bool = false;

    /// Reads these items one after the other at a moment; answers until when each rests.
    fn read<const N: usize>(pace: &mut Coalescer, kinds: [bool; N], at: Instant) -> [Option<Instant>; N] {
        kinds.map(|is_text| pace.read(is_text, || at))
    }

    #[test]
    fn the_first_piece_of_text_goes_out_at_once_and_the_next_after_a_breath() {
        let (mut pace, now) = (Coalescer::default(), Instant::now());
        assert_eq!(read(&mut pace, [TEXT, TEXT], now), [None, None]);
        pace.goes_out(|| now);
        assert_eq!(read(&mut pace, [TEXT], now), [Some(now + BREATH)]);
        let later = now + BREATH;
        assert_eq!(
            read(&mut pace, [TEXT, TEXT], later),
            [None, None],
            "what came in the breath is read at once"
        );
        pace.goes_out(|| later);
        assert_eq!(read(&mut pace, [TEXT], later), [Some(later + BREATH)]);
    }

    #[test]
    fn a_slow_speaker_never_waits() {
        let (mut pace, mut now) = (Coalescer::default(), Instant::now());
        for _ in 0..3 {
            assert_eq!(read(&mut pace, [TEXT], now), [None]);
            pace.goes_out(|| now);
            now += BREATH;
        }
    }

    #[test]
    fn what_is_no_text_goes_out_at_once_and_text_right_after_it_does_too() {
        let (mut pace, now) = (Coalescer::default(), Instant::now());
        read(&mut pace, [TEXT], now);
        pace.goes_out(|| now);
        assert_eq!(read(&mut pace, [OTHER, TEXT], now), [None, None], "it takes text along");
        pace.goes_out(|| now);
        assert_eq!(read(&mut pace, [TEXT], now), [None]);
        pace.goes_out(|| now);
        assert_eq!(read(&mut pace, [TEXT], now), [Some(now + BREATH)]);
    }

    #[test]
    fn waking_up_for_nothing_changes_nothing() {
        let (mut pace, now) = (Coalescer::default(), Instant::now());
        pace.goes_out(|| now);
        assert_eq!(read(&mut pace, [TEXT], now), [None]);
        pace.goes_out(|| now);
        pace.goes_out(|| now + BREATH);
        assert_eq!(read(&mut pace, [TEXT], now), [Some(now + BREATH)]);
    }

    #[test]
    fn only_pieces_of_text_are_text() {
        let event = |event| Ok(Some(Seen::Event(Arc::new(NumberedEvent { epoch: 1, seq: 1, event }))));
        let piece =
            |reasoning| Event::Delta { effect: 1, message_id: String::new(), text: String::new(), reasoning };
        let told = [
            event(piece(false)),
            event(piece(true)),
            event(Event::Input { input_id: "i".to_owned() }),
            Ok(Some(Seen::Resumed { last_seq: 1 })),
            Ok(Some(Seen::Suspended)),
            Ok(None),
        ];
        assert_eq!(told.map(|seen| is_text(&seen)), [true, true, false, false, false, false]);
    }
}
