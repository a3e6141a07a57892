//! Any names of tools and ids of calls.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| baton_fuzz::names::check(input));
