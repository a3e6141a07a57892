//! Any bytes as streams of Responses.

#![no_main]

use baton_model::wire::Wire;

libfuzzer_sys::fuzz_target!(|input: &[u8]| baton_fuzz::stream::check(Wire::Responses, input));
