//! Baton's vocabulary and its decisions.
//!
//! Everything here is a value or a pure function of values: no I/O, no async, no clock, no
//! randomness. Flows decide which effects should be outstanding; the engine performs them.
//!
//! Reading order: the basic types ([`id`], [`time`], [`json`], [`fault`]), the conversation ([`thread`]),
//! the work ([`tool`], [`chat`], [`role`], [`effect`]), the permissions and limits ([`policy`], [`budget`]),
//! the decisions ([`flow`]), their results and views ([`event`], [`run`], [`render`], [`trace`]), and the
//! protection of text for people ([`visible`], [`redact`]).

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
