//! Some runs at once, each begun at one process and watched at the other.

use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use super::pair::Pair;
use super::play;
use super::reader::{Client, Progress, Trail};

/// See the module.
pub(super) struct Batch {
    runs: Vec<(usize, [JoinHandle<Trail>; 2])>,
    pub(super) progress: Arc<Progress>,
}

/// A run that has ended, and what its readers saw.
pub(super) struct Kept {
    /// Which of all runs it is.
    pub(super) n: usize,
    pub(super) trails: [Trail; 2],
}

impl Batch {
    /// Begins runs at a process.
    pub(super) fn begin(pair: &Pair, at: usize, runs: Range<usize>) -> Batch {
        let progress = Arc::new(Progress::default());
        let client = |at| Client { places: pair.places.clone(), at, progress: progress.clone() };
        let begin = |n| {
            let (begun, known) = mpsc::channel();
            let (asking, watching) = (client(at), client(1 - at));
            let asks = std::thread::spawn(move || asking.ask(&play::message(n), &begun));
            let watches = std::thread::spawn(move || watching.watch(known.recv().expect("it begins")));
            (n, [asks, watches])
        };
        Batch { runs: runs.map(begin).collect(), progress: progress.clone() }
    }

    /// How many events its readers see, about.
    pub(super) fn events(&self) -> usize {
        let words: usize = play::SAYS.iter().map(|says| says.split(' ').count()).sum();
        self.readers() * (words + 6)
    }

    fn readers(&self) -> usize {
        2 * self.runs.len()
    }

    /// Waits until so many events were seen; false if all have ended by then.
    pub(super) fn reaches(&self, events: usize) -> bool {
        self.progress.until(events, self.readers())
    }

    /// Waits until all have ended.
    pub(super) fn ends(self) -> Vec<Kept> {
        self.progress.until(usize::MAX, self.readers());
        let joined = |reader: JoinHandle<Trail>| reader.join().unwrap();
        self.runs.into_iter().map(|(n, readers)| Kept { n, trails: readers.map(joined) }).collect()
    }
}
