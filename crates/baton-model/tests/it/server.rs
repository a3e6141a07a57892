//! A small HTTP server on loopback that does exactly what a test says, byte by byte.
//!
//! Each request is answered by a list of steps: bytes to send, gates to wait at, and ways to end badly. It
//! keeps what it was sent, and says when a client has closed its socket. Threads of the standard library
//! only, so that nothing of the code under test is used to test it; a wait that would last forever fails
//! after [`PATIENCE`]. It speaks HTTP/1.1 and knows bodies with a length only.

#![allow(dead_code, reason = "more than one crate includes this file, and each uses a part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// How long anything is waited for that should come at once.
const PATIENCE: Duration = Duration::from_secs(20);

/// Something that is closed until it is opened. Clones are the same gate.
#[derive(Debug, Clone, Default)]
pub(crate) struct Barrier {
    is_open: Arc<(Mutex<bool>, Condvar)>,
}

impl Barrier {
    pub(crate) fn new() -> Self {
        Barrier::default()
    }

    /// Lets everyone through, from now on.
    pub(crate) fn open(&self) {
        *self.is_open.0.lock().unwrap() = true;
        self.is_open.1.notify_all();
    }

    /// Waits until it is open; says whether it is.
    fn wait(&self) -> bool {
        let closed = self.is_open.0.lock().unwrap();
        let (open, _) = self.is_open.1.wait_timeout_while(closed, PATIENCE, |open| !*open).unwrap();
        *open
    }
}

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// With names in small letters, in the order in which they came.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    /// Which connection it came on; the first is 0.
    pub(crate) connection: usize,
}

impl Request {
    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

#[derive(Debug, Clone)]
enum Step {
    Send(Vec<u8>),
    Wait(Barrier),
    /// Does nothing until the client is gone.
    Stall,
    /// Ends the connection properly, whatever was promised.
    HangUp,
    /// Ends the connection with a reset.
    Reset,
}

/// What is done about one request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    steps: Vec<Step>,
}

impl Answer {
    /// Nothing yet: steps follow.
    pub(crate) fn nothing() -> Self {
        Answer::default()
    }

    /// A whole answer with a body of a known length.
    pub(crate) fn whole(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        Answer::nothing().head(status, headers, Some(body.len())).raw(body)
    }

    /// A whole JSON answer.
    pub(crate) fn json(status: u16, body: &str) -> Self {
        Answer::whole(status, &[("content-type", "application/json")], body)
    }

    /// The head of an answer whose body comes in chunks.
    pub(crate) fn stream(content_type: &str) -> Self {
        Answer::nothing().streaming(content_type)
    }

    /// As [`Answer::stream`], after other steps.
    pub(crate) fn streaming(self, content_type: &str) -> Self {
        self.head(200, &[("content-type", content_type)], None)
    }

    /// A head alone; without a length the body comes in chunks.
    pub(crate) fn head(self, status: u16, headers: &[(&str, &str)], length: Option<usize>) -> Self {
        let mut head = format!("HTTP/1.1 {status} Status\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &match length {
            Some(length) => format!("content-length: {length}\r\n\r\n"),
            None => "transfer-encoding: chunked\r\n\r\n".to_owned(),
        };
        self.raw(head)
    }

    /// Bytes as they are.
    pub(crate) fn raw(self, bytes: impl AsRef<[u8]>) -> Self {
        self.step(Step::Send(bytes.as_ref().to_vec()))
    }

    /// One chunk of the body.
    pub(crate) fn chunk(self, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        self.raw([format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat())
    }

    /// The end of a body in chunks. It goes out together with the bytes before it.
    pub(crate) fn end(mut self) -> Self {
        const END: &[u8] = b"0\r\n\r\n";
        if let Some(Step::Send(bytes)) = self.steps.last_mut() {
            bytes.extend_from_slice(END);
            return self;
        }
        self.raw(END)
    }

    /// Waits until the test opens the barrier.
    pub(crate) fn wait(self, barrier: &Barrier) -> Self {
        self.step(Step::Wait(barrier.clone()))
    }

    /// Does nothing more until the client is gone.
    pub(crate) fn stall(self) -> Self {
        self.step(Step::Stall)
    }

    /// Ends the connection, although more was promised.
    pub(crate) fn hang_up(self) -> Self {
        self.step(Step::HangUp)
    }

    /// Resets the connection. The request has to have a body.
    pub(crate) fn reset(self) -> Self {
        self.step(Step::Reset)
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    fn resets(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Reset))
    }
}

/// What happened so far.
#[derive(Debug, Default)]
struct Diary {
    requests: Vec<Request>,
    /// The connections that clients have closed.
    closed: Vec<usize>,
    connections: usize,
}

type Deciding = dyn Fn(usize, &Request) -> Answer + Send + Sync;

/// The server. Clones are the same one. It goes on until the test process ends.
#[derive(Clone)]
pub(crate) struct Server {
    address: SocketAddr,
    diary: Arc<(Mutex<Diary>, Condvar)>,
    decide: Arc<Deciding>,
}

impl Server {
    /// One that decides by the number of the request, from 0, and by the request.
    pub(crate) fn deciding(decide: impl Fn(usize, &Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server { address, diary: Arc::default(), decide: Arc::new(decide) };
        let serving = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (server, stream) = (serving.clone(), stream.unwrap());
                let connection = server.note(|diary| {
                    diary.connections += 1;
                    diary.connections - 1
                });
                std::thread::spawn(move || server.connection(connection, stream));
            }
        });
        server
    }

    /// One that gives these answers in their order, and then says that there are no more.
    pub(crate) fn answering(answers: impl IntoIterator<Item = Answer>) -> Self {
        let answers: Vec<Answer> = answers.into_iter().collect();
        Server::deciding(move |n, _| match answers.get(n) {
            Some(answer) => answer.clone(),
            None => Answer::json(500, r#"{"error":"the test has no more answers"}"#),
        })
    }

    /// An address at which nobody listens: a port that is never given away, unlike one that was just let go.
    pub(crate) fn nobody() -> String {
        "http://127.0.0.1:1".to_owned()
    }

    /// Its base URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it was sent so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.note(|diary| diary.requests.clone())
    }

    /// The paths of what it was sent so far.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.requests().into_iter().map(|request| request.path).collect()
    }

    /// Waits until it has been sent so many requests. Blocks: a client's runtime has to run elsewhere.
    pub(crate) fn until_requests(&self, count: usize) {
        self.until("requests", |diary| diary.requests.len() >= count);
    }

    /// Waits until the client has closed a connection. Blocks: a client's runtime has to run elsewhere.
    pub(crate) fn until_closed(&self, connection: usize) {
        self.until("the end of a connection", |diary| diary.closed.contains(&connection));
    }

    /// Whether the client has closed a connection by now.
    pub(crate) fn has_closed(&self, connection: usize) -> bool {
        self.note(|diary| diary.closed.contains(&connection))
    }

    fn until(&self, what: &str, happened: impl Fn(&Diary) -> bool) {
        let diary = self.diary.0.lock().unwrap();
        let (diary, wait) =
            self.diary.1.wait_timeout_while(diary, PATIENCE, |diary| !happened(diary)).unwrap();
        assert!(!wait.timed_out(), "waited in vain for {what}: {diary:?}");
    }

    fn note<T>(&self, change: impl FnOnce(&mut Diary) -> T) -> T {
        let noted = change(&mut self.diary.0.lock().unwrap());
        self.diary.1.notify_all();
        noted
    }

    /// Serves one connection until either side ends it. A client may go at any moment, so no failure to
    /// write is an error here.
    fn connection(&self, connection: usize, stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        let mut input = BufReader::with_capacity(1, stream.try_clone().unwrap());
        let mut output = stream;
        while let Some((mut request, length)) = head(&mut input) {
            request.connection = connection;
            let (mut body, last) = (vec![0; length], length.saturating_sub(1));
            input.read_exact(&mut body[..last]).unwrap();
            // The last byte is looked at and stays where it is, for the case that the answer is a reset.
            if length > 0 && !matches!(output.peek(&mut body[last..]), Ok(1)) {
                break;
            }
            request.body = String::from_utf8(body).unwrap();
            let n = self.note(|diary| {
                diary.requests.push(request.clone());
                diary.requests.len() - 1
            });
            let answer = (self.decide)(n, &request);
            if length > 0 && !answer.resets() {
                input.read_exact(&mut [0]).unwrap();
            }
            for step in answer.steps {
                match step {
                    Step::Send(bytes) => drop(output.write_all(&bytes)),
                    Step::Wait(barrier) => assert!(barrier.wait(), "nobody opened the barrier"),
                    Step::Stall => {
                        self.gone(connection, &mut input);
                        return;
                    }
                    // Closing a socket with something unread in it is a reset.
                    Step::HangUp | Step::Reset => return,
                }
            }
        }
        self.note(|diary| diary.closed.push(connection));
    }

    /// Waits until the client has closed its side, properly or not.
    fn gone(&self, connection: usize, input: &mut impl Read) {
        while matches!(input.read(&mut [0; 64]), Ok(1..)) {}
        self.note(|diary| diary.closed.push(connection));
    }
}

/// The head of the next request, and how long its body is; `None` if there is none.
fn head(input: &mut impl BufRead) -> Option<(Request, usize)> {
    let mut line = || {
        let mut line = String::new();
        input.read_line(&mut line).ok().filter(|read| *read > 0)?;
        Some(line.trim_end().to_owned())
    };
    let first = line()?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = Vec::new();
    loop {
        let line = line()?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let request = Request { method, path, headers, body: String::new(), connection: 0 };
    let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    Some((request, length))
}
