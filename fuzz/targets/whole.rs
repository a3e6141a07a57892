//! Any bytes as a whole answer, in each format.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| baton_fuzz::whole::check(input));
