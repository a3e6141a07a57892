//! A relay to a database, which can be closed.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// The relay.
pub(super) struct Way {
    /// The port at which the database seems to be.
    pub(super) port: u16,
    open: Arc<Mutex<Option<Vec<TcpStream>>>>,
}

impl Way {
    /// A relay to this port.
    pub(super) fn to(port: u16) -> Way {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let way =
            Way { port: listener.local_addr().unwrap().port(), open: Arc::new(Mutex::new(Some(Vec::new()))) };
        let open = Arc::clone(&way.open);
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Some(kept) = &mut *open.lock().unwrap() else { continue };
                let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                kept.extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
                carry(near.try_clone().unwrap(), far.try_clone().unwrap());
                carry(far, near);
            }
        });
        way
    }

    /// Cuts all connections, and accepts none any more.
    pub(super) fn close(&self) {
        let kept = self.open.lock().unwrap().take();
        for stream in kept.into_iter().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(read @ 1..) = from.read(&mut piece) {
            if to.write_all(&piece[..read]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}
