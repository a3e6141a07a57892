//! The engine's times and limits. Tests use small ones.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use baton_core::redact::{Redactor, redact_json};
use serde_json::Value;

use crate::spans::Telling;

/// The times and limits of one engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Effects of one run that are performed side by side; the others queue without an intent.
    pub effects_at_once: usize,
    /// How long effects that were cancelled are waited for.
    pub grace: Duration,
    /// How long a shutdown waits for effects in flight before it releases the runs.
    pub shutdown: Duration,
    /// Pieces of text are committed alone when the oldest is this old.
    pub flush_after: Duration,
    /// The same, while a reader on another process watches.
    pub flush_watched: Duration,
    /// Pieces of text are committed alone when they are this many bytes.
    pub flush_bytes: usize,
    /// How often an owner asks for messages from other processes, and a reader for events.
    pub poll: Duration,
    /// How often orphaned and due runs are looked for.
    pub adopt_every: Duration,
    /// How long a store call is retried while the store does not answer.
    pub store_patience: Duration,
    /// How often a run may bring its process down before it is given up: counts only times at which it was driven
    /// alone, which it is after two other crashes.
    pub most_attempts: u32,
    /// How long a suspect has to run until it is not to blame.
    pub cleared_after: Duration,
    /// The longest pause before a suspect is tried again.
    pub most_back_off: Duration,
    /// Events that are kept in memory for readers that keep up; slower readers read the store.
    pub ring: usize,
    /// The services whose tools may be missing for a while: runs that use them are adopted all the same.
    pub services: Vec<String>,
    /// Settings of the audit trail.
    pub audit: Audit,
    /// How long a run that is first in line and cannot be begun here is left to other processes, which may have the
    /// missing tools; then it ends, and the next one has its turn.
    pub turn_grace: Duration,
    /// How many runs may wait for one branch.
    pub most_queued: u32,
    /// Which data telemetry holds beside names, ids and times.
    pub telling: Telling,
    /// Drops all state that can be read back after every transition, and reads it back. For tests.
    pub reload: bool,
    /// A planted fault. For tests of the checker.
    #[cfg(feature = "failpoints")]
    pub bug: Option<crate::bug::EngineBug>,
}

/// The settings of the audit trail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    /// The source that events name.
    pub source: String,
    /// Whether events are sent to a receiver, too.
    pub send: bool,
    /// Whether events hold the texts of users and models.
    pub with_text: bool,
    /// The secrets that are removed from arguments.
    pub secrets: KnownSecrets,
}

/// Secrets that are looked up only when a value is redacted. Cheap to clone.
#[derive(Clone)]
pub struct KnownSecrets(Arc<LazyLock<Vec<Redactor>, Search>>);

type Search = Box<dyn FnOnce() -> Vec<Redactor> + Send>;

impl KnownSecrets {
    /// The secrets that `search` finds; it is called at most once.
    pub fn new(search: impl FnOnce() -> Vec<Redactor> + Send + 'static) -> KnownSecrets {
        KnownSecrets(Arc::new(LazyLock::new(Box::new(search))))
    }

    /// A value without the secrets.
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
