//! Baton's vocabulary and its decisions.
//!
//! Everything here is a value or a pure function of values: no I/O, no async, no clock, no
//! randomness. Flows decide what should be outstanding; the engine performs it.
//!
//! Reading order: the words ([`id`], [`time`], [`json`], [`fault`]), what was said ([`thread`]),
//! what can be asked for ([`tool`], [`chat`], [`role`], [`effect`]), what is allowed ([`policy`], [`budget`]),
//! who decides ([`flow`]), and what is seen ([`event`], [`run`], [`render`], [`trace`]), and how
//! people see it ([`visible`], [`redact`]).

pub mod budget;
pub mod chat;
pub mod effect;
pub mod event;
pub mod fault;
pub mod flow;
pub mod id;
pub mod json;
pub mod policy;
pub mod redact;
pub mod render;
pub mod role;
pub mod run;
pub mod thread;
pub mod time;
pub mod tool;
pub mod trace;
pub mod turns;
pub mod visible;
