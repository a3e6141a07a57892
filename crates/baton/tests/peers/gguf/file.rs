//! The container that llama.cpp reads: named values, then named tensors, little-endian, version 3.
//!
//! It has only the parts that a small model needs: tensors of 32-bit numbers, and the kinds of value that describe it.

/// The alignment of tensors.
const ALIGNMENT: usize = 32;

/// A named value.
pub(crate) enum Value {
    /// A whole number.
    U32(u32),
    /// A number.
    F32(f32),
    /// Yes or no.
    Bool(bool),
    /// Text.
    Text(String),
    /// Texts.
    Texts(Vec<String>),
    /// Numbers.
    F32s(Vec<f32>),
    /// Whole numbers.
    I32s(Vec<i32>),
}

/// A file that is being put together.
#[derive(Default)]
pub(crate) struct Gguf {
    values: Vec<(String, Value)>,
    tensors: Vec<(String, Vec<usize>, Vec<f32>)>,
}

impl Gguf {
    /// Adds a value.
    pub(crate) fn set(&mut self, name: &str, value: Value) {
        self.values.push((name.to_owned(), value));
    }

    /// Adds a tensor. The first length is the one whose numbers lie side by side.
    pub(crate) fn tensor(&mut self, name: &str, lengths: &[usize], numbers: Vec<f32>) {
        assert_eq!(lengths.iter().product::<usize>(), numbers.len(), "{name}");
        self.tensors.push((name.to_owned(), lengths.to_vec(), numbers));
    }

    /// The whole file.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = Bytes::default();
        out.0.extend_from_slice(b"GGUF");
        out.u32(3);
        out.length(self.tensors.len());
        out.length(self.values.len());
        for (name, value) in &self.values {
            out.text(name);
            out.value(value);
        }
        let mut data = Bytes::default();
        for (name, lengths, numbers) in &self.tensors {
            data.pad();
            out.text(name);
            out.u32(u32::try_from(lengths.len()).unwrap());
            lengths.iter().for_each(|length| out.length(*length));
            out.u32(0); // 32-bit numbers
            out.length(data.0.len());
            numbers.iter().for_each(|number| data.f32(*number));
        }
        data.pad();
        out.pad();
        out.0.append(&mut data.0);
        out.0
    }
}

#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn f32(&mut self, number: f32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn length(&mut self, length: usize) {
        self.0.extend_from_slice(&u64::try_from(length).unwrap().to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.length(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }

    /// The kind of a value, then the value. The numbers of the kinds are the format's.
    fn value(&mut self, value: &Value) {
        match value {
            Value::U32(number) => {
                self.u32(4);
                self.u32(*number);
            }
            Value::F32(number) => {
                self.u32(6);
                self.f32(*number);
            }
            Value::Bool(yes) => {
                self.u32(7);
                self.0.push(u8::from(*yes));
            }
            Value::Text(text) => {
                self.u32(8);
                self.text(text);
            }
            Value::Texts(texts) => {
                self.list(8, texts.len());
                texts.iter().for_each(|text| self.text(text));
            }
            Value::F32s(numbers) => {
                self.list(6, numbers.len());
                numbers.iter().for_each(|number| self.f32(*number));
            }
            Value::I32s(numbers) => {
                self.list(5, numbers.len());
                numbers.iter().for_each(|number| self.0.extend_from_slice(&number.to_le_bytes()));
            }
        }
    }

    fn list(&mut self, kind: u32, length: usize) {
        self.u32(9);
        self.u32(kind);
        self.length(length);
    }

    fn pad(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(ALIGNMENT), 0);
    }
}
