//! Many requests at the same moment: no more are taken on than there are places.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::serve::house::House;
use crate::serve::served::until;
use crate::world::World;

/// The number of requests sent side by side.
const BURST: usize = 24;
const PLACES: usize = 3;

/// Sends requests to a service, all of them before any is answered; returns the first line of each answer as it comes.
fn burst(house: &House, requests: impl Iterator<Item = (&'static str, Value)>) -> Receiver<String> {
    let (tell, told) = channel();
    let sockets: Vec<(TcpStream, String)> = requests
        .map(|(path, body)| {
            let (address, body) = (&house.address, body.to_string());
            let request = format!(
                "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            (TcpStream::connect(address).unwrap(), request)
        })
        .collect();
    for (socket, request) in &sockets {
        (&*socket).write_all(request.as_bytes()).unwrap();
    }
    for (socket, _) in sockets {
        let tell = tell.clone();
        std::thread::spawn(move || {
            let mut line = String::new();
            // A request that is still pending when the service ends has no answer.
            if BufReader::new(socket).read_line(&mut line).is_ok_and(|read| read > 0) {
                let _ = tell.send(line.trim().to_owned());
            }
        });
    }
    told
}

#[test]
fn a_burst_of_messages_and_calls_takes_no_more_places_than_there_are() {
    let script = json!({"v": 1, "replies": [{"do": [{"stall": true}]}]});
    let house = House::with(World::new(), &script, &format!("[serve]\nruns = {PLACES}\n"));
    let file = house.world.path("effects");
    let requests = (0..BURST).map(|n| match n % 2 {
        0 => ("/v1/requests", json!({"session_id": format!("s-{n}"), "user_message": "hi"})),
        _ => {
            let arguments = json!({"file": file, "line": "x", "class": "unsafe", "delay_ms": 600_000});
            ("/execute", json!({"tool_name": "test_effect", "arguments": arguments}))
        }
    });
    let answers = burst(&house, requests);
    let mut refused = Vec::new();
    let begun = || {
        let runs = house.get("/v1/runs?status=running").json()["items"].as_array().unwrap().len();
        runs + std::fs::read_to_string(&file).unwrap_or_default().lines().count()
    };
    until("each is begun or refused", || {
        refused.extend(answers.try_iter());
        refused.len() + begun() == BURST
    });
    assert_eq!((begun(), refused.len()), (PLACES, BURST - PLACES));
    assert!(refused.iter().all(|line| line == "HTTP/1.1 503 Service Unavailable"), "{refused:?}");
}
