//! The engine's times and limits. Tests use small ones.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use baton_core::redact::{Redactor, redact_json};
use serde_json::Value;

use crate::spans::Telling;

/// See the fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Effects of one run that are performed side by side; the others queue without an intent.
    pub effects_at_once: usize,
    /// How long effects that were told to stop are waited for.
    pub grace: Duration,
    /// How long a shutdown waits for what is in flight before it lets go of the runs.
    pub shutdown: Duration,
    /// Pieces of text are committed alone when the oldest is this old.
    pub flush_after: Duration,
    /// The same, while somebody on another process watches.
    pub flush_watched: Duration,
    /// Pieces of text are committed alone when they are this many bytes.
    pub flush_bytes: usize,
    /// How often an owner asks for messages from other processes, and a reader for events.
    pub poll: Duration,
    /// How often orphaned and due runs are looked for.
    pub adopt_every: Duration,
    /// How long a store that does not answer is tried.
    pub store_patience: Duration,
    /// How often a run may bring its process down before it is given up: times at which it was driven alone, as it is
    /// after two others.
    pub most_attempts: u32,
    /// How long such a run has to live until it is not to blame.
    pub cleared_after: Duration,
    /// How long such a run is left alone before it is tried again, at most.
    pub most_back_off: Duration,
    /// Events that are kept in memory for readers that keep up; the others read the store.
    pub ring: usize,
    /// The services whose tools may be missing for a while: runs that use them are taken up all the same.
    pub services: Vec<String>,
    /// What the audit trail is told.
    pub audit: Audit,
    /// How long a run that is first in line and cannot be begun here is left to other processes, which may have what it
    /// needs; then it ends, and the next one has its turn.
    pub turn_grace: Duration,
    /// How many runs may wait for one branch.
    pub most_queued: u32,
    /// What telemetry tells, beside names, ids and times.
    pub telling: Telling,
    /// Drop everything that is remembered after every transition, and read it back. For tests.
    pub reload: bool,
    /// A planted fault. For tests of the checker.
    #[cfg(feature = "failpoints")]
    pub bug: Option<crate::bug::EngineBug>,
}

/// What the audit trail is told of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    /// Who says it.
    pub source: String,
    /// Whether somebody else is told, too.
    pub send: bool,
    /// Whether that holds what people and models said.
    pub with_text: bool,
    /// What is taken out of arguments.
    pub secrets: KnownSecrets,
}

/// Secrets that are looked for only when something is to be shown without them. Cheap to clone.
#[derive(Clone)]
pub struct KnownSecrets(Arc<LazyLock<Vec<Redactor>, Search>>);

type Search = Box<dyn FnOnce() -> Vec<Redactor> + Send>;

impl KnownSecrets {
    /// Those that `search` finds; asked once at most.
    pub fn new(search: impl FnOnce() -> Vec<Redactor> + Send + 'static) -> KnownSecrets {
        KnownSecrets(Arc::new(LazyLock::new(Box::new(search))))
    }

    /// A value without them.
    pub(crate) fn redact(&self, value: &Value) -> Value {
        redact_json(value, &self.0)
    }
}

impl Default for KnownSecrets {
    fn default() -> Self {
        KnownSecrets::new(Vec::new)
    }
}

impl std::fmt::Debug for KnownSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KnownSecrets")
    }
}

impl PartialEq for KnownSecrets {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || **self.0 == **other.0
    }
}

impl Eq for KnownSecrets {}

impl Default for Audit {
    fn default() -> Self {
        let secrets = KnownSecrets::default();
        Audit { source: "baton".to_owned(), send: false, with_text: false, secrets }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            effects_at_once: 8,
            grace: Duration::from_secs(10),
            shutdown: Duration::from_secs(8),
            flush_after: Duration::from_secs(2),
            flush_watched: Duration::from_millis(200),
            flush_bytes: 64 << 10,
            poll: Duration::from_millis(100),
            adopt_every: Duration::from_millis(500),
            store_patience: Duration::from_secs(15),
            most_attempts: 3,
            cleared_after: Duration::from_secs(10),
            most_back_off: Duration::from_secs(5),
            ring: 256,
            services: Vec::new(),
            audit: Audit::default(),
            turn_grace: Duration::from_secs(120),
            most_queued: 16,
            telling: Telling::default(),
            reload: false,
            #[cfg(feature = "failpoints")]
            bug: None,
        }
    }
}
