//! A small HTTP client that hides nothing: whole answers with their headers, and streams frame by frame.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// The time limit of an answer: so long that a busy machine does not matter.
const PATIENCE: Duration = Duration::from_secs(60);

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The body as a document.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {} {text}", self.status))
    }

    /// The status, and the code of the problem.
    #[track_caller]
    pub(crate) fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        let body = self.json();
        assert_eq!(body["status"], self.status, "{body}");
        (self.status, body["code"].as_str().unwrap().to_owned())
    }

    /// A header, empty if there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// One frame of a stream, or a line between frames.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Frame {
    pub(crate) id: Option<String>,
    pub(crate) event: String,
    pub(crate) data: Value,
}

/// An answer that is still arriving.
pub(crate) struct Stream {
    /// Its status and headers; the body only if it is no stream.
    pub(crate) head: Answer,
    lines: BufReader<Chunked>,
    /// Comments and `retry` so far.
    pub(crate) between: Vec<String>,
}

/// Sends a request and reads the head of the answer.
pub(crate) fn open(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&str>,
) -> Stream {
    let socket = TcpStream::connect(address).unwrap();
    open_on(socket, address, method, path, headers, body)
}

/// The same on an open connection.
pub(crate) fn open_on(
    mut socket: TcpStream,
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&str>,
) -> Stream {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(body) = body {
        text.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    text.push_str(body.unwrap_or_default());
    socket.write_all(text.as_bytes()).unwrap();
    let mut reader = BufReader::new(socket);
    let status = line(&mut reader).split(' ').nth(1).unwrap().parse().unwrap();
    let mut headers = BTreeMap::new();
    loop {
        let line = line(&mut reader);
        let Some((name, value)) = line.split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let is_chunked = headers.get("transfer-encoding").is_some_and(|it| it == "chunked");
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let left = if is_chunked { Left::Chunk(0) } else { Left::Body(length) };
    let head = Answer { status, headers, body: Vec::new() };
    Stream { head, lines: BufReader::new(Chunked { reader, left }), between: Vec::new() }
}

fn line(reader: &mut impl BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    line.trim_end_matches(['\r', '\n']).to_owned()
}

impl Stream {
    /// The rest of it, as a whole answer.
    pub(crate) fn whole(mut self) -> Answer {
        self.lines.read_to_end(&mut self.head.body).unwrap();
        self.head
    }

    /// The next frame, or none after the last.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        let mut frame = Frame::default();
        loop {
            let mut text = String::new();
            if self.lines.read_line(&mut text).unwrap() == 0 {
                assert_eq!(frame, Frame::default(), "the stream ends within a frame");
                return None;
            }
            let line = text.strip_suffix('\n').expect("a whole line");
            match line.split_once(": ") {
                Some(("id", id)) => frame.id = Some(id.to_owned()),
                Some(("event", name)) => frame.event = name.to_owned(),
                Some(("data", data)) => {
                    assert_eq!(frame.data, Value::Null, "more than one line of data");
                    frame.data = serde_json::from_str(data).unwrap();
                }
                None if line.is_empty() && frame == Frame::default() => {}
                None if line.is_empty() => return Some(frame),
                _ => self.between.push(line.to_owned()),
            }
        }
    }

    /// The next byte, or none after the last: for readers that are cut off anywhere.
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let mut byte = [0];
        (self.lines.read(&mut byte).unwrap() == 1).then_some(byte[0])
    }

    /// Reads one line between frames.
    pub(crate) fn peek(&mut self) {
        let text = line(&mut self.lines);
        assert!(text.is_empty() || text.starts_with(':') || text.starts_with("retry: "), "{text}");
        self.between.push(text);
    }

    /// The next frame of a type; those before it are passed over.
    pub(crate) fn until(&mut self, event: &str) -> Frame {
        loop {
            let frame = self.next().unwrap_or_else(|| panic!("the stream ends without {event}"));
            if frame.event == event {
                return frame;
            }
        }
    }

    /// All frames to the end.
    pub(crate) fn rest(&mut self) -> Vec<Frame> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

/// The remaining part of an answer.
enum Left {
    Body(usize),
    /// The rest of the present chunk.
    Chunk(usize),
    Nothing,
}

/// A body, however it is sent.
struct Chunked {
    reader: BufReader<TcpStream>,
    left: Left,
}

impl Read for Chunked {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = match &mut self.left {
            Left::Nothing | Left::Body(0) => return Ok(0),
            Left::Body(left) => left,
            Left::Chunk(left) => {
                if *left == 0 {
                    *left =
                        usize::from_str_radix(&line(&mut self.reader), 16).expect("the length of a chunk");
                    if *left == 0 {
                        self.left = Left::Nothing;
                        return Ok(0);
                    }
                }
                left
            }
        };
        let room = buffer.len().min(*most);
        let read = self.reader.read(&mut buffer[..room])?;
        *most -= read;
        if matches!(self.left, Left::Chunk(0)) {
            assert_eq!(line(&mut self.reader), "");
        }
        assert_ne!(read, 0, "the connection was cut");
        Ok(read)
    }
}
