//! Looking for secrets in everything that can be read.

use serde_json::Value;

use super::super::served::Served;
use super::planted::WORD;
use crate::world::World;

/// The secrets to look for, and the texts to search.
pub(super) struct Search {
    secrets: Vec<String>,
    places: Vec<(String, Vec<u8>)>,
}

impl Search {
    /// A search for the planted secrets and for these.
    pub(super) fn of(more: &[&str]) -> Search {
        let secrets = [WORD].iter().chain(more).map(|secret| (*secret).to_owned()).collect();
        Search { secrets, places: Vec::new() }
    }

    pub(super) fn look(&mut self, place: impl Into<String>, bytes: impl AsRef<[u8]>) {
        self.places.push((place.into(), bytes.as_ref().to_vec()));
    }

    /// Reads the whole data folder, whether or not any command shows it.
    pub(super) fn look_into_data(&mut self, world: &World) {
        for name in ["baton.db", "baton.db-wal"] {
            self.look(
                name,
                std::fs::read(world.path(&format!("home/data/baton/{name}"))).unwrap_or_default(),
            );
        }
    }

    #[track_caller]
    pub(super) fn finds_nothing(&self) {
        let held = |secret: &String, bytes: &[u8]| {
            bytes.windows(secret.len()).position(|part| part == secret.as_bytes())
        };
        for (place, bytes) in &self.places {
            for secret in &self.secrets {
                let Some(at) = held(secret, bytes) else { continue };
                let around = &bytes[at.saturating_sub(300)..bytes.len().min(at + 100)];
                panic!("{secret} in {place}: {}", String::from_utf8_lossy(around));
            }
        }
    }
}

/// Everything that can be read of a run.
pub(super) fn look_at_run(search: &mut Search, served: &Served, headers: &[(&str, &str)], run: &str) {
    let mut read = |path: String| {
        let answer = served.send("GET", &path, headers, None);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let document = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
        search.look(path, answer.body);
        document
    };
    let about = read(format!("/v1/runs/{run}"));
    for part in ["checkpoints", "trace", "events", "events?dialect=raw&show_reasoning=true"] {
        read(format!("/v1/runs/{run}/{part}"));
    }
    let thread = about["thread_id"].as_str().unwrap();
    for part in ["", "/entries", "/render", "/branches"] {
        read(format!("/v1/threads/{thread}{part}"));
    }
}
