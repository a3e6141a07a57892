//! Any bytes as streams of Chat Completions.

#![no_main]

use baton_model::wire::Wire;

libfuzzer_sys::fuzz_target!(|input: &[u8]| baton_fuzz::stream::check(Wire::ChatCompletions, input));
