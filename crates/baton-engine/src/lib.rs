//! The engine: performs the effects that flows want, commits their outcomes, and publishes the events.
//!
//! The loop is in [`driver`](Engine): ask the flow for its wanted effects, start each once its intent is committed,
//! apply its outcome to the flow, commit, publish. A new run, a resumed one and one that was taken over take the same
//! path. Events are shown only after they are committed, except the pieces of model text, and those are withdrawn by a
//! number if they are lost.
//!
//! Only the engine emits events. Models, tools and flows return values; they never hold a sink.

mod afar;
mod audit;
mod bug;
mod clock;
mod driver;
mod engine;
mod error;
mod figures;
mod hub;
mod loads;
mod narrow;
mod orchestrator;
mod patience;
mod perform;
mod plan;
mod reader;
mod recent;
mod request;
mod session;
mod settings;
pub mod spans;
pub mod template;
mod trace;

pub use audit::{correlation_of, said_of};
#[cfg(feature = "failpoints")]
pub use bug::EngineBug;
pub use clock::{Clock, ManualClock, SystemClock};
pub use driver::Rested;
pub use engine::{Engine, Parts, RunHandle};
pub use error::EngineError;
pub use figures::{COMMIT_BUCKETS_US, Figures};
pub use loads::Load;
pub use narrow::Narrow;
pub use orchestrator::Orchestrator;
pub use perform::{ModelSource, Renderer, Renderers};
pub use reader::{EventReader, Seen};
pub use request::{Execute, Executed, OnBusy, RunRequest, RunView, Submitted};
pub use session::Session;
pub use settings::{Audit, KnownSecrets, Settings};
pub use spans::trace_id_of;
pub use trace::{Trace, TraceSpan};
