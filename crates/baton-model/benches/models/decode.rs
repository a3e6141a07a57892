//! How fast each format is read, without a socket.

use std::hint::black_box;
use std::time::{Duration, Instant};

use baton_model::wire::{InlineTags, Wire, WireNames};

use crate::frames;

/// The words of an answer; the body is a few MiB.
const WORDS: usize = 20_000;

/// How many bytes come at once: as much as a busy connection gives, and a few words.
const PIECES: [usize; 2] = [16 * 1024, 1024];

pub(crate) fn report(time: Duration) {
    println!("decoding one long answer (best of its passes)");
    println!("{:>17} {:>6} {:>8} {:>11} {:>11}", "format", "MiB", "pieces", "MiB/s", "deltas/s");
    for wire in Wire::ALL {
        let body = frames::answer(wire, WORDS).concat().into_bytes();
        for piece in PIECES {
            let (fastest, deltas) = fastest(wire, &body, piece, time);
            let mib = body.len() as f64 / f64::from(1 << 20);
            println!(
                "{:>17} {mib:>6.1} {:>4} KiB {:>11.0} {:>11.0}",
                wire.as_str(),
                piece / 1024,
                mib / fastest,
                deltas as f64 / fastest
            );
        }
    }
}

/// The seconds of the fastest pass, and how many deltas one gives.
fn fastest(wire: Wire, body: &[u8], piece: usize, time: Duration) -> (f64, usize) {
    let begun = Instant::now();
    let (mut fastest, mut count) = (f64::INFINITY, 0);
    while begun.elapsed() < time {
        let pass = Instant::now();
        count = 0;
        let mut decoder = wire.decoder(WireNames::default(), InlineTags::default());
        let mut deltas = Vec::new();
        for bytes in body.chunks(piece) {
            decoder.push(bytes, &mut deltas).unwrap();
            count += black_box(&deltas).len();
            deltas.clear();
        }
        assert!(decoder.is_done() && count > WORDS, "{wire:?} gave {count} deltas");
        fastest = fastest.min(pass.elapsed().as_secs_f64());
    }
    (fastest, count)
}
