//! A client that reads a run to its end, through all faults of the processes and the connections.
//!
//! It behaves like a browser: it comes back with the last number that it saw, and always at the other process. It keeps
//! the frames that count: those that `resumed` declares void are dropped. A number that is not the next one is a
//! failure.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};

use super::super::wire::Frame;
use super::pair::Places;

/// A stream that is silent for that long is abandoned, although it should send a ping every second.
const SILENCE: Duration = Duration::from_secs(3);
/// A stream that sends only pings for that long is abandoned, too: its process may not know that it lost the run.
const NO_NEWS: Duration = Duration::from_secs(8);
/// The time limit of a run, with all faults.
const WHOLE: Duration = Duration::from_secs(150);

/// How far all readers have come.
#[derive(Default)]
pub(super) struct Progress {
    /// The events that were seen, and the readers that are done.
    state: Mutex<(usize, usize)>,
    changed: Condvar,
}

impl Progress {
    fn more(&self, events: usize, readers: usize) {
        let mut state = self.state.lock().unwrap();
        (state.0, state.1) = (state.0 + events, state.1 + readers);
        self.changed.notify_all();
    }

    /// The number of events that were seen.
    pub(super) fn seen(&self) -> usize {
        self.state.lock().unwrap().0
    }

    /// Waits until that many events were seen; false if that many readers are done first.
    pub(super) fn until(&self, events: usize, readers: usize) -> bool {
        let state = self.state.lock().unwrap();
        let waits = |state: &mut (usize, usize)| state.0 < events && state.1 < readers;
        let (state, timeout) = self.changed.wait_timeout_while(state, WHOLE, waits).unwrap();
        assert!(!timeout.timed_out(), "{} of {events} events, {} of {readers} readers", state.0, state.1);
        state.1 < readers
    }
}

/// The frames that a reader has seen and that count.
#[derive(Default)]
pub(super) struct Trail {
    pub(super) run: String,
    pub(super) frames: Vec<Frame>,
    /// The last number that it saw, as browsers keep it.
    cursor: Option<String>,
    /// The number of times that it had to come back.
    pub(super) moves: usize,
}

impl Trail {
    fn last(&self) -> u64 {
        self.frames.last().map_or(0, |frame| numbers(frame).1)
    }

    /// Takes a frame; returns whether it is the last of the log.
    fn take(&mut self, frame: Frame) -> bool {
        if frame.id.is_none() {
            if frame.event == "resumed" {
                let counts = frame.data["last_seq"].as_u64().unwrap();
                assert!(counts <= self.last(), "{counts} was not reached: {}", self.last());
                let void = self.frames.split_off(counts as usize);
                let kept = void.iter().find(|frame| frame.event != "delta");
                assert_eq!(kept, None, "only text that nobody had stored may be taken back");
            }
            return false; // or the stream could not be served any further
        }
        let (_, number) = numbers(&frame);
        let cursor = self.cursor.clone();
        assert_eq!(number, self.last() + 1, "after {cursor:?} of {}: {frame:?}", self.run);
        self.cursor.clone_from(&frame.id);
        self.frames.push(frame);
        self.frames.last().is_some_and(|frame| frame.event == "ended")
    }
}

/// The epoch and the number of a frame.
pub(super) fn numbers(frame: &Frame) -> (u32, u64) {
    let (epoch, number) = frame.id.as_ref().and_then(|id| id.split_once('.')).expect("EPOCH.SEQ");
    (epoch.parse().unwrap(), number.parse().unwrap())
}

/// A client, and the process that it asks next.
pub(super) struct Client {
    pub(super) places: Places,
    pub(super) at: usize,
    pub(super) progress: Arc<Progress>,
}

impl Client {
    /// Begins a run and reads it to its end; sends the run's id as soon as it is known.
    pub(super) fn ask(self, message: &str, begun: &mpsc::Sender<String>) -> Trail {
        let body = serde_json::json!({"flow": "turn", "input": message, "dialect": "raw"}).to_string();
        let key = message.trim_end_matches('.');
        let request = format!(
            "POST /v1/runs HTTP/1.1\r\nhost: HOST\r\naccept: text/event-stream\r\nidempotency-key: {key}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.read(Trail::default(), &request, begun)
    }

    /// Reads a run from its start to its end.
    pub(super) fn watch(self, run: String) -> Trail {
        self.read(Trail { run, ..Trail::default() }, "", &mpsc::channel().0)
    }

    fn read(mut self, mut trail: Trail, first: &str, begun: &mpsc::Sender<String>) -> Trail {
        let deadline = Instant::now() + WHOLE;
        loop {
            assert!(Instant::now() < deadline, "{first} {:?} of {:?}", trail.cursor, trail.run);
            let place = self.places.lock().unwrap()[self.at].clone();
            let request = match trail.run.is_empty() {
                true => first.to_owned(),
                false => again(&trail),
            };
            if let Ok(mut open) = Open::send(&place, &request) {
                if trail.run.is_empty() {
                    trail.run.clone_from(&open.run);
                    let _ = begun.send(open.run.clone());
                }
                assert_eq!(open.run, trail.run);
                while let Ok(frame) = open.frame() {
                    let is_last = trail.take(frame);
                    self.progress.more(1, usize::from(is_last));
                    if is_last {
                        return trail;
                    }
                }
            }
            trail.moves += 1;
            self.at = 1 - self.at;
            std::thread::yield_now();
        }
    }
}

fn again(trail: &Trail) -> String {
    let cursor = trail.cursor.as_ref().map(|cursor| format!("last-event-id: {cursor}\r\n"));
    let (run, cursor) = (&trail.run, cursor.unwrap_or_default());
    format!("GET /v1/runs/{run}/events?dialect=raw HTTP/1.1\r\nhost: HOST\r\n{cursor}\r\n")
}

/// A stream that is open.
struct Open {
    run: String,
    lines: BufReader<Chunks>,
}

impl Open {
    /// Sends a request. An answer that asks to come back counts as none; any other but a stream is a failure.
    fn send(place: &str, request: &str) -> io::Result<Open> {
        let mut socket = TcpStream::connect_timeout(&place.parse().unwrap(), SILENCE)?;
        socket.set_read_timeout(Some(SILENCE))?;
        socket.write_all(request.replace("HOST", place).as_bytes())?;
        let mut reader = BufReader::new(socket);
        let status = line(&mut reader)?;
        let mut headers = Vec::new();
        loop {
            match line(&mut reader)? {
                end if end.is_empty() => break,
                header => headers.push(header),
            }
        }
        let find = |name: &str| headers.iter().find_map(|header| header.strip_prefix(name));
        if !status.contains(" 200 ") {
            let length = find("content-length: ").map_or(0, |length| length.parse().unwrap());
            let mut body = vec![0; length];
            reader.read_exact(&mut body)?;
            assert!(status.contains(" 503 "), "{request}\n{status}\n{}", String::from_utf8_lossy(&body));
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let run = find("x-run-id: ").expect("the run's id").to_owned();
        Ok(Open { run, lines: BufReader::new(Chunks { reader, left: 0 }) })
    }

    /// The next frame that arrives whole.
    fn frame(&mut self) -> io::Result<Frame> {
        let (mut frame, began) = (Frame::default(), Instant::now());
        loop {
            let line = line(&mut self.lines)?;
            if line.starts_with(':') && began.elapsed() > NO_NEWS {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match line.split_once(": ") {
                Some(("id", id)) => frame.id = Some(id.to_owned()),
                Some(("event", name)) => frame.event = name.to_owned(),
                Some(("data", data)) => frame.data = serde_json::from_str(data).unwrap(),
                None if line.is_empty() && frame != Frame::default() => return Ok(frame),
                _ => {} // a comment, `retry`, or an empty line
            }
        }
    }
}

fn line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    match line.strip_suffix('\n') {
        Some(whole) => Ok(whole.trim_end_matches('\r').to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// A body in chunks that may end anywhere.
struct Chunks {
    reader: BufReader<TcpStream>,
    left: usize,
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            let mut length = line(&mut self.reader)?;
            if length.is_empty() {
                length = line(&mut self.reader)?; // the line break that ends the chunk before
            }
            self.left = usize::from_str_radix(&length, 16)
                .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            if self.left == 0 {
                return Ok(0);
            }
        }
        let room = buffer.len().min(self.left);
        let read = self.reader.read(&mut buffer[..room])?;
        self.left -= read;
        if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(read) }
    }
}
