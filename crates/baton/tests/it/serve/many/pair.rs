//! Two services on one database, with one script between them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use serde_json::Value;

use super::super::served::{Served, until};
use super::play;
use crate::postgres_server::Schema;
use crate::world::World;

/// The shortest possible lease, in seconds.
pub(super) const LEASE_S: u64 = 3;

/// The present addresses of the two processes.
pub(super) type Places = Arc<Mutex<[String; 2]>>;

/// The two services.
pub(super) struct Pair {
    /// The folder with the script and the effects.
    stage: World,
    settings: String,
    urls: [String; 2],
    pub(super) homes: [Served; 2],
    pub(super) places: Places,
}

impl Pair {
    /// Two services that reach one database at these addresses, ready for so many runs.
    pub(super) fn new(urls: [String; 2], runs: usize) -> Pair {
        let stage = World::new();
        let script = play::script(runs, &stage.path("ledger"), 8);
        Pair::playing(stage, &script, urls, &format!("[store]\nlease_s = {LEASE_S}\n"))
    }

    /// The same with a script and settings of their own.
    pub(super) fn playing(stage: World, script: &Value, urls: [String; 2], settings: &str) -> Pair {
        let model = stage.script(script);
        let settings = format!("model = '{model}'\n\n[serve]\nheartbeat_s = 1\n\n{settings}");
        let homes = [0, 1].map(|which| open(&settings, &urls[which], &[]));
        let places = Arc::new(Mutex::new([homes[0].address.clone(), homes[1].address.clone()]));
        Pair { stage, settings, urls, homes, places }
    }

    /// The file of effects.
    pub(super) fn ledger(&self) -> PathBuf {
        self.stage.path("ledger")
    }

    /// Kills one of them.
    pub(super) fn kill(&mut self, which: usize) {
        self.homes[which].signal(Signal::KILL);
        self.homes[which].ended();
    }

    /// Puts a new process in the place of one; the old one is ended if it still runs.
    pub(super) fn replace(&mut self, which: usize) {
        self.homes[which] = open(&self.settings, &self.urls[which], &[]);
        self.places.lock().unwrap()[which] = self.homes[which].address.clone();
    }

    /// Waits until a process drives no run any more, so that it adds nothing any more either.
    pub(super) fn until_idle(&self, which: usize) {
        until("a process rests", || figure(&self.homes[which], "runs_live") == 0);
    }
}

impl Drop for Pair {
    #[allow(clippy::print_stderr, reason = "shown when the test fails")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            for home in &self.homes {
                let log = home.log();
                let is_of_runs = |line: &&str| !line.contains("postgres") && !line.contains("answered");
                let lines: Vec<&str> = log.lines().filter(is_of_runs).collect();
                eprintln!("--- {}\n{}", home.address, lines[lines.len().saturating_sub(80)..].join("\n"));
            }
        }
    }
}

/// Puts every process on a machine of its own, now and later: no process sees the lock of another, so that leases alone
/// decide which one lives.
pub(super) const APART: &str = "CREATE FUNCTION apart() RETURNS trigger LANGUAGE plpgsql AS
       'BEGIN NEW.machine := NEW.owner::text; RETURN NEW; END';
     CREATE TRIGGER apart BEFORE INSERT OR UPDATE ON owners FOR EACH ROW EXECUTE FUNCTION apart();
     UPDATE owners SET beat = beat";

/// The same for the processes on a schema.
pub(super) fn put_apart(schema: &Schema) {
    schema.run(APART);
}

/// A figure of a process.
pub(super) fn figure(home: &Served, name: &str) -> u64 {
    let text = home.send("GET", "/metrics", &[], None).body;
    let text = String::from_utf8(text).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("baton_{name} ")));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).trim().parse().unwrap()
}

/// A service on a machine of its own.
pub(super) fn open(settings: &str, url: &str, variables: &[(&str, &str)]) -> Served {
    let world = World::new();
    world.settings(settings);
    let mut all = vec![("DATABASE_URL", url)];
    all.extend(variables);
    Served::on(world, &[], &all)
}
