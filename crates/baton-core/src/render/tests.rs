//! Whole renderings of small threads, the windows of all policies, and what holds for any thread.

mod continuing;
mod messages;
mod threads;
mod windows;
