//! Faults of the engine that the checker of the promises (`tests/it/check.rs`) has to find. Only with
//! `--features failpoints`.

use crate::settings::Settings;

/// A planted fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "failpoints"), allow(unreachable_pub, reason = "public only for tests"))]
pub enum EngineBug {
    /// Events are shown before they are committed.
    PublishEarly,
    /// Intents are not written down.
    DropIntent,
    /// A tool with side effects runs again after a crash.
    RunUnsafeAgain,
    /// Text that is void is not withdrawn.
    ForgetRestart,
    /// The receipt of a cancelled run lists calls that were stopped as never started.
    WrongReceipt,
    /// The flow's state counts as too long.
    GrowState,
}

impl Settings {
    /// Whether a fault was planted. Never, in ordinary builds.
    pub(crate) fn has(&self, bug: EngineBug) -> bool {
        #[cfg(feature = "failpoints")]
        return self.bug == Some(bug);
        #[cfg(not(feature = "failpoints"))]
        {
            let _ = bug;
            false
        }
    }
}
