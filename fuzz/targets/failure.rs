//! Any bytes as what a server says about its failure.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| baton_fuzz::failure::check(input));
