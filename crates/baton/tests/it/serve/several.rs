//! Several services on one store: their shared files, their start, and the requests to them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use super::served::Served;
use super::wire::{self, Answer, Stream};
use crate::postgres_server::Schema;
use crate::stage::Did;
use crate::world::World;

/// The store of their data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kept {
    /// A folder.
    Sqlite,
    /// A schema of its own.
    Postgres,
}

/// The services' shared files and store.
pub(crate) struct Several {
    world: World,
    schema: Option<Schema>,
}

impl Several {
    pub(crate) fn new(kept: Kept) -> Several {
        Several { world: World::new(), schema: (kept == Kept::Postgres).then(Schema::new) }
    }

    /// A file that they share.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.world.path(name)
    }

    /// Gives them a model that plays a script, and settings.
    pub(crate) fn play(&self, script: &Value, settings: &str) {
        let model = self.world.script(script);
        self.world.settings(&format!("model = '{model}'\n{settings}"));
    }

    /// Gives them settings alone.
    pub(crate) fn settings(&self, settings: &str) {
        self.world.settings(settings);
    }

    /// Starts one more.
    pub(crate) fn start(&self) -> Served {
        self.start_with(&[], &[])
    }

    /// The same, with arguments and variables.
    pub(crate) fn start_with(&self, args: &[&str], more: &[(&str, &str)]) -> Served {
        let shared = self.variables();
        let mut variables: Vec<(&str, &str)> =
            shared.iter().map(|(name, value)| (*name, value.as_str())).collect();
        variables.extend(more);
        Served::on(World::new(), args, &variables)
    }

    /// Runs a command on their store and settings.
    pub(crate) fn baton(&self, args: &[&str]) -> Did {
        let shared = self.variables();
        let variables: Vec<(&str, &str)> =
            shared.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.world.baton_with(&variables, args)
    }

    fn variables(&self) -> Vec<(&'static str, String)> {
        let path = |name: &str| self.path(name).display().to_string();
        // The locks of processes lie in the data folder, also on PostgreSQL: a killed process is found dead at once.
        let mut variables =
            vec![("BATON_CONFIG", path("home/config/baton/baton.toml")), ("BATON_DATA", path("data"))];
        variables.extend(self.schema.as_ref().map(|schema| ("DATABASE_URL", schema.url.clone())));
        variables
    }

    /// The lines of the file `effects`, each with the keys under which it was written.
    pub(crate) fn effects(&self) -> BTreeMap<String, Vec<String>> {
        let text = std::fs::read_to_string(self.path("effects")).unwrap_or_default();
        let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in text.lines() {
            let (key, line) = line.split_once('\t').unwrap();
            lines.entry(line.to_owned()).or_default().push(key.to_owned());
        }
        lines
    }

    /// The lines that a run left there, sorted.
    pub(crate) fn effects_of(&self, run: &str) -> Vec<String> {
        let of = |(line, keys): (String, Vec<String>)| {
            let often = keys.iter().filter(|key| key.starts_with(run)).count();
            vec![line; often]
        };
        self.effects().into_iter().flat_map(of).collect()
    }
}

pub(crate) fn get(served: &Served, path: &str) -> Answer {
    served.send("GET", path, &[], None)
}

pub(crate) fn post(served: &Served, path: &str, body: Value) -> Answer {
    served.send("POST", path, &[], Some(&body.to_string()))
}

/// Asks the agent; returns the stream.
pub(crate) fn ask(served: &Served, body: Value) -> Stream {
    wire::open(&served.address, "POST", "/v1/agent/run", &[], Some(&body.to_string()))
}

/// Watches a run from its first event, or after a place.
pub(crate) fn watch(served: &Served, run: &str, after: Option<&str>) -> Stream {
    let headers: Vec<(&str, &str)> = after.map(|id| ("last-event-id", id)).into_iter().collect();
    wire::open(&served.address, "GET", &format!("/v1/runs/{run}/events"), &headers, None)
}

/// The status of a run.
pub(crate) fn status(served: &Served, run: &str) -> String {
    get(served, &format!("/v1/runs/{run}")).json()["status"].as_str().unwrap().to_owned()
}

/// How many rounds: a few by default, all with `BATON_FULL=1`.
pub(crate) fn rounds(small: usize, full: usize) -> usize {
    if std::env::var_os("BATON_FULL").is_some() { full } else { small }
}

/// SplitMix64: a good enough die, the same on every machine.
pub(crate) struct Die(pub(crate) u64);

impl Die {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % sides as u64) as usize
    }

    /// The same things in another order.
    pub(crate) fn shuffled<T>(&mut self, mut things: Vec<T>) -> Vec<T> {
        for at in (1..things.len()).rev() {
            things.swap(at, self.roll(at + 1));
        }
        things
    }
}
