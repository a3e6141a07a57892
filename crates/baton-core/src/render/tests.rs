//! Whole renderings of small threads, the windows of all policies, and properties of any thread.

mod continuing;
mod decisions;
mod failures;
mod messages;
mod revisions;
mod threads;
mod windows;
