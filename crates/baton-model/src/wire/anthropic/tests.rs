mod decoding;
mod encoding;
