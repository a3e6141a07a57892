//! Threads: an append-only tree of typed, immutable entries with named branches.
//!
//! [`entry`] has the types, [`order`] the one table of allowed successors, [`tree`] the lanes and
//! branches. Storage is elsewhere; a stored entry is an envelope around one of these values.

pub mod entry;
pub mod order;
pub mod tree;

pub use entry::{Closing, Entry, NewEntry, PlacedEntry, SaidCall, WaitingKind};
pub use order::{OrderError, Tail};
pub use tree::{Branch, Lane, Place, Segment, Tree, TreeError};
