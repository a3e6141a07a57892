//! Attacks from outside on the real binary: a module for each subject.

mod child_processes;
