//! Attacks from outside on the real binary: a module for each subject.

mod audit;
mod auth;
mod bursts;
mod calls;
mod child_processes;
mod connections;
mod fairness;
mod invisible;
mod lists;
mod modes;
mod private;
mod regex;
mod secrets;
mod tokens;
mod tools;
mod trust;
