//! The smallest server that streams: whatever it is asked, it gives the same answer.
//!
//! A thread of the standard library, so that it shares nothing with the clients that are measured. It goes on
//! until the process ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How much a client has read of the answer at hand. It says so itself.
pub(crate) type Progress = Arc<AtomicUsize>;

/// Something that is sent.
pub(crate) struct Piece {
    /// How far the client has to be before.
    pub(crate) after: usize,
    /// One chunk of the body.
    pub(crate) text: String,
}

/// Starts one, which answers with these pieces; gives its address.
pub(crate) fn start(content_type: &str, pieces: &[Piece], progress: Progress) -> String {
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n");
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let chunks = pieces.iter().map(|piece| (piece.after, chunk(&piece.text)));
    let all = [(0, head)].into_iter().chain(chunks).chain([(0, "0\r\n\r\n".to_owned())]);
    // What waits for nobody is sent together with what came before it.
    let mut writes: Vec<(usize, String)> = Vec::new();
    for (after, bytes) in all {
        match writes.last_mut() {
            Some((_, before)) if after == 0 => before.push_str(&bytes),
            _ => writes.push((after, bytes)),
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        // Its client makes one call at a time, so one connection at a time is enough.
        for stream in listener.incoming() {
            serve(stream.unwrap(), &writes, &progress);
        }
    });
    address
}

fn serve(stream: TcpStream, writes: &[(usize, String)], progress: &AtomicUsize) {
    stream.set_nodelay(true).unwrap();
    let mut input = BufReader::new(stream.try_clone().unwrap());
    let mut output = stream;
    while skip_request(&mut input).is_some() {
        for (after, bytes) in writes {
            // A client that had to wake us would be measured doing it.
            while progress.load(Ordering::Relaxed) < *after {
                std::thread::yield_now();
            }
            output.write_all(bytes.as_bytes()).unwrap();
        }
    }
}

/// Reads one request to its end; none: the client is gone.
fn skip_request(input: &mut impl BufRead) -> Option<()> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    std::io::copy(&mut input.take(length), &mut std::io::sink()).ok().map(drop)
}
