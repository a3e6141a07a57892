//! The smallest server that streams: whatever it is asked, it gives the same answer.
//!
//! Threads of the standard library, so that it shares nothing with the clients that are measured. It goes on
//! until the process ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

/// How an answer leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Each piece by itself, as a model writes it.
    OneByOne,
    /// Everything in one write, as fast as it goes.
    AtOnce,
}

/// Starts one, which answers with these pieces; gives its address.
pub(crate) fn start(content_type: &str, pieces: &[String], pace: Pace) -> String {
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n");
    let chunks = pieces.iter().map(|piece| format!("{:x}\r\n{piece}\r\n", piece.len()));
    let mut writes: Vec<String> = [head].into_iter().chain(chunks).chain(["0\r\n\r\n".to_owned()]).collect();
    if pace == Pace::AtOnce {
        writes = vec![writes.concat()];
    }
    let writes: Arc<[String]> = writes.into();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let writes = writes.clone();
            std::thread::spawn(move || serve(stream.unwrap(), &writes));
        }
    });
    address
}

fn serve(stream: TcpStream, writes: &[String]) {
    stream.set_nodelay(true).unwrap();
    let mut input = BufReader::new(stream.try_clone().unwrap());
    let mut output = stream;
    while skip_request(&mut input).is_some() {
        for write in writes {
            output.write_all(write.as_bytes()).unwrap();
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
