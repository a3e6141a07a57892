//! A language model of half a megabyte, in the file format that llama.cpp reads (GGUF, version 3).
//!
//! Nothing is downloaded and nothing is trained: the weights are random, the same ones every time. On top of them lie
//! *habits*: which token follows which. A habit is strong enough to drown the noise, so at temperature 0 the model
//! always gives the same answer. Its text is written here, and tests can compare it whole.
//!
//! A tool call needs no more than a beginning: the habit opens one, and llama.cpp's own grammar then admits only text
//! that fits the tool's schema. Habits choose where the grammar leaves a choice.

mod file;

use std::collections::HashMap;
use std::path::Path;

use file::{Gguf, Value};

/// The model's behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    /// Says [`RECITED`] and stops.
    Recites,
    /// Says it again and again, and never stops.
    Babbles,
    /// Calls the tool that it is offered; recites once it has seen a result.
    Calls,
}

/// The text that a model recites. The face is written byte by byte: each of its tokens is a quarter of a code point.
pub(crate) const RECITED: &str = "Random weights, firm habits: naïve 世界 🙂 done.";

/// The pieces of it, one token each but for the face. No piece occurs twice, for a habit knows only the token before.
pub(crate) const PIECES: [&str; 13] =
    ["Random", " weights", ",", " firm", " habits", ":", " naïve", " 世", "界", " ", "🙂", " done", "."];

/// The arguments of a call of `calculator`; each character of them is a habit.
pub(crate) const CALCULATED: &str = "1+2";

const WIDTH: usize = 128;
const LAYERS: usize = 2;
const HEADS: usize = 4;
const CONTEXT: u32 = 65_536;

const UNKNOWN: &str = "<unk>";
const BEGIN: &str = "<s>";
const TURN: &str = "<|im_start|>";
const END: &str = "<|im_end|>";
const CALL: &str = "<tool_call>";
const CALL_END: &str = "</tool_call>";

/// Tools are declared and called as many open models do it. An answer begins after a newline, and after a tab if
/// a result came last: so a habit can tell the two apart.
const TEMPLATE: &str = "\
{%- if tools %}<|im_start|>system
# Tools
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
To call a function, answer with its name and arguments as a JSON object inside <tool_call></tool_call> tags:
<tool_call>
{\"name\": <function-name>, \"arguments\": <args-json-object>}
</tool_call><|im_end|>
{%- endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}
{%- if message.tool_calls %}{%- for call in message.tool_calls %}<tool_call>
{\"name\": \"{{ call.function.name }}\", \"arguments\": {{ call.function.arguments | tojson }}}
</tool_call>{%- endfor %}{%- endif %}<|im_end|>
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{%- if messages[-1].role == 'tool' %}{{ '\\t' }}{%- else %}{{ '\\n' }}{%- endif %}{%- endif %}";

/// Writes the model with this habit.
pub(crate) fn write(path: &Path, habit: Habit) {
    let vocabulary = Vocabulary::new();
    let mut file = Gguf::default();
    describe(&mut file, &vocabulary);
    weigh(&mut file, &vocabulary, habit);
    std::fs::write(path, file.bytes()).unwrap();
}

fn describe(file: &mut Gguf, vocabulary: &Vocabulary) {
    let number = |of: usize| Value::U32(u32::try_from(of).unwrap());
    file.set("general.architecture", Value::Text("llama".into()));
    file.set("general.name", Value::Text("habits".into()));
    file.set("llama.context_length", Value::U32(CONTEXT));
    file.set("llama.embedding_length", number(WIDTH));
    file.set("llama.block_count", number(LAYERS));
    file.set("llama.feed_forward_length", number(WIDTH));
    file.set("llama.attention.head_count", number(HEADS));
    file.set("llama.attention.head_count_kv", number(HEADS));
    file.set("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5));
    file.set("llama.rope.dimension_count", number(WIDTH / HEADS));
    file.set("llama.vocab_size", number(vocabulary.tokens.len()));
    file.set("tokenizer.ggml.model", Value::Text("llama".into()));
    file.set("tokenizer.ggml.pre", Value::Text("default".into()));
    file.set("tokenizer.ggml.tokens", Value::Texts(vocabulary.tokens.clone()));
    file.set("tokenizer.ggml.scores", Value::F32s(vocabulary.scores()));
    file.set("tokenizer.ggml.token_type", Value::I32s(vocabulary.kinds.clone()));
    file.set("tokenizer.ggml.unknown_token_id", number(vocabulary.id(UNKNOWN)));
    file.set("tokenizer.ggml.bos_token_id", number(vocabulary.id(BEGIN)));
    file.set("tokenizer.ggml.eos_token_id", number(vocabulary.id(END)));
    file.set("tokenizer.ggml.add_bos_token", Value::Bool(true));
    // With the prefix llama.cpp cannot build a sampler for its grammars.
    file.set("tokenizer.ggml.add_space_prefix", Value::Bool(false));
    file.set("tokenizer.chat_template", Value::Text(TEMPLATE.into()));
}

fn weigh(file: &mut Gguf, vocabulary: &Vocabulary, habit: Habit) {
    let mut noise = Noise(1);
    let meanings = noise.matrix(vocabulary.tokens.len(), 1.0);
    let mut answers = noise.matrix(vocabulary.tokens.len(), 0.05);
    for (before, after, strength) in habits(habit) {
        let (before, after) = (vocabulary.id(&before) * WIDTH, vocabulary.id(&after) * WIDTH);
        for at in 0..WIDTH {
            answers[after + at] += meanings[before + at] * strength / 2.0;
        }
    }
    let tokens = vocabulary.tokens.len();
    file.tensor("token_embd.weight", &[WIDTH, tokens], meanings);
    file.tensor("output.weight", &[WIDTH, tokens], answers);
    file.tensor("output_norm.weight", &[WIDTH], vec![1.0; WIDTH]);
    for layer in 0..LAYERS {
        for name in ["attn_norm", "ffn_norm"] {
            file.tensor(&format!("blk.{layer}.{name}.weight"), &[WIDTH], vec![1.0; WIDTH]);
        }
        for name in ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"] {
            let weights = noise.matrix(WIDTH, 0.02);
            file.tensor(&format!("blk.{layer}.{name}.weight"), &[WIDTH, WIDTH], weights);
        }
    }
}

/// Which token follows which, and how strongly: the strongest that a grammar allows is said.
fn habits(habit: Habit) -> Vec<(String, String, f32)> {
    let recited = recited();
    let (first, last) = (recited[0].clone(), recited[recited.len() - 1].clone());
    let mut follows = Vec::new();
    let mut after = |before: &str, said: &str, strength| {
        follows.push((before.to_owned(), said.to_owned(), strength));
    };
    recited.windows(2).for_each(|two| after(&two[0], &two[1], 1.0));
    after(&byte(b'\t'), &first, 1.0);
    after(&last, if habit == Habit::Babbles { &first } else { END }, 1.0);
    let newline = byte(b'\n');
    if habit == Habit::Calls {
        after(&newline, CALL, 1.0);
        after(CALL, &newline, 1.0);
        // No argument, if none is required; else a sum, in quotes.
        after(&byte(b'{'), &byte(b'}'), 1.0);
        let sum: Vec<String> = format!("\"{CALCULATED}\"").bytes().map(byte).collect();
        sum.windows(2).for_each(|two| after(&two[0], &two[1], 1.0));
        // Then close all that is open, and stop. The closing tag may have to be spelt letter by letter.
        after(&byte(b'}'), &byte(b'}'), 1.0);
        after(&byte(b'}'), &newline, 0.8);
        after(&newline, CALL_END, 0.8);
        after(&newline, &byte(b'<'), 0.6);
        after(CALL_END, END, 1.0);
        after(&byte(b'>'), END, 1.0);
    } else {
        after(&newline, &first, 1.0);
    }
    follows
}

/// The tokens of the recited text: one a piece; single characters and the face as their bytes.
fn recited() -> Vec<String> {
    let tokens = |piece: &str| match piece {
        "🙂" => piece.bytes().map(byte).collect(),
        piece if piece.len() == 1 => piece.bytes().map(byte).collect(),
        piece => vec![piece.replace(' ', "\u{2581}")], // how a vocabulary writes a space
    };
    PIECES.iter().flat_map(|piece| tokens(piece)).collect()
}

/// The token of one byte.
fn byte(of: u8) -> String {
    format!("<0x{of:02X}>")
}

/// The tokens, and what kind each is.
struct Vocabulary {
    tokens: Vec<String>,
    kinds: Vec<i32>,
    ids: HashMap<String, usize>,
}

impl Vocabulary {
    const NORMAL: i32 = 1;
    const UNKNOWN: i32 = 2;
    const CONTROL: i32 = 3;
    const BYTE: i32 = 6;

    /// A character that is no token of its own is written as its bytes.
    fn new() -> Vocabulary {
        let mut all = Vocabulary { tokens: Vec::new(), kinds: Vec::new(), ids: HashMap::new() };
        all.add(UNKNOWN.into(), Self::UNKNOWN);
        all.add(BEGIN.into(), Self::CONTROL);
        (0..=u8::MAX).for_each(|of| all.add(byte(of), Self::BYTE));
        recited().into_iter().for_each(|piece| all.add(piece, Self::NORMAL));
        [CALL, CALL_END].into_iter().for_each(|tag| all.add(tag.into(), Self::NORMAL));
        [TURN, END].into_iter().for_each(|tag| all.add(tag.into(), Self::CONTROL));
        all
    }

    /// Adds a token that is not there yet.
    fn add(&mut self, token: String, kind: i32) {
        if !self.ids.contains_key(&token) {
            self.ids.insert(token.clone(), self.tokens.len());
            self.tokens.push(token);
            self.kinds.push(kind);
        }
    }

    fn id(&self, token: &str) -> usize {
        self.ids[token]
    }

    /// Earlier tokens first; this matters only for splitting a prompt into tokens.
    fn scores(&self) -> Vec<f32> {
        (0..u16::try_from(self.tokens.len()).unwrap()).map(|at| -f32::from(at)).collect()
    }
}

/// Numbers without pattern, the same ones every time (splitmix64).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Rows of [`WIDTH`] numbers around 0 with this deviation.
    fn matrix(&mut self, rows: usize, deviation: f32) -> Vec<f32> {
        let mut one = || {
            let upper = u16::try_from(self.next() >> 48).unwrap();
            (f32::from(upper) / 32768.0 - 1.0) * 3f32.sqrt() * deviation
        };
        (0..rows * WIDTH).map(|_| one()).collect()
    }
}

#[test]
fn a_model_is_the_same_every_time() {
    let folder = tempfile::tempdir().unwrap();
    let written = |name: &str, habit| {
        write(&folder.path().join(name), habit);
        std::fs::read(folder.path().join(name)).unwrap()
    };
    let calls = written("calls", Habit::Calls);
    assert!(calls.starts_with(b"GGUF\x03\0\0\0"));
    assert!(calls == written("again", Habit::Calls));
    assert!(calls != written("babbles", Habit::Babbles));
}

#[test]
fn what_is_recited_is_in_pieces_that_occur_once() {
    assert_eq!(PIECES.concat(), RECITED);
    let mut tokens = recited();
    let count = tokens.len();
    tokens.sort();
    tokens.dedup();
    assert_eq!(tokens.len(), count);
}
