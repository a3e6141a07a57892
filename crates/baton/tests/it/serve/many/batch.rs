//! Some runs at once, each begun at one process and watched at the other.

use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use super::pair::Pair;
use super::play;
use super::reader::{Client, Progress, Trail};

/// A batch of runs with their readers.
pub(super) struct Batch {
    runs: Vec<(usize, [JoinHandle<Trail>; 2])>,
    pub(super) progress: Arc<Progress>,
}

/// A run that has ended, with the trails of its readers.
pub(super) struct Kept {
    /// The number of the run among all runs.
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

    /// The approximate number of events that its readers see.
    pub(super) fn events(&self) -> usize {
        let words: usize = play::SAYS.iter().map(|says| says.split(' ').count()).sum();
        self.readers() * (words + 6)
    }

    fn readers(&self) -> usize {
        2 * self.runs.len()
    }

    /// Waits until that many events were seen; false if all runs have ended by then.
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
