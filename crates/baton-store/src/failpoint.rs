//! Points at which a test can kill or stop the process. Compiled only with `--features failpoints`.
//!
//! `BATON_FAILPOINT=NAME:HIT` kills the process with SIGKILL when it reaches NAME for the HIT-th time: no destructors,
//! no flush. `NAME:HIT:stop` stops it with SIGSTOP instead. With `BATON_FAILPOINT_PAGES=N` the disk is full as soon as
//! SQLite's file has N pages: SQLite then reports the same error as when the system has no more space.

/// Marks a point. It does nothing in ordinary builds.
#[inline]
pub fn point(name: &'static str) {
    #[cfg(feature = "failpoints")]
    armed::pass(name);
    #[cfg(not(feature = "failpoints"))]
    let _ = name;
}

/// The largest number of pages of SQLite's file, if a test sets one.
#[cfg(feature = "failpoints")]
pub(crate) fn most_pages() -> Option<u32> {
    std::env::var("BATON_FAILPOINT_PAGES").ok()?.parse().ok()
}

#[cfg(feature = "failpoints")]
mod armed {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use rustix::process::{Signal, getpid, kill_process};

    struct Armed {
        name: String,
        hit: u32,
        signal: Signal,
    }

    static ARMED: LazyLock<Option<Armed>> = LazyLock::new(|| {
        let setting = std::env::var("BATON_FAILPOINT").ok()?;
        let mut parts = setting.split(':');
        let name = parts.next()?.to_owned();
        let hit = parts.next()?.parse().ok()?;
        let signal = if parts.next() == Some("stop") { Signal::STOP } else { Signal::KILL };
        Some(Armed { name, hit, signal })
    });
    static HITS: AtomicU32 = AtomicU32::new(0);

    pub(super) fn pass(name: &str) {
        let Some(armed) = ARMED.as_ref().filter(|armed| armed.name == name) else { return };
        if HITS.fetch_add(1, Ordering::SeqCst) + 1 == armed.hit {
            let _ = kill_process(getpid(), armed.signal);
            // Another thread may be the first to take the signal: until then this one must not go on.
            let once = std::time::Duration::from_millis(200);
            std::thread::park_timeout(if armed.signal == Signal::KILL {
                std::time::Duration::MAX
            } else {
                once
            });
        }
    }
}
