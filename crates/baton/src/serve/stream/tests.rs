use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use http_body::Body as _;
use std::task::Waker;

fn events(pump: impl Future<Output = ()> + Send + 'static, slot: Arc<Slot>) -> Events {
    Events { pump: Some(Box::pin(pump)), slot, gone: None, _permit: None }
}

fn poll(events: &mut Events) -> Poll<Option<String>> {
    let mut cx = Context::from_waker(Waker::noop());
    Pin::new(events).poll_frame(&mut cx).map(|frame| {
        let bytes = frame?.unwrap().into_data().unwrap();
        Some(String::from_utf8(bytes.to_vec()).unwrap())
    })
}

#[test]
fn what_is_ready_goes_out_in_one_piece_and_then_the_end() {
    let slot = Arc::new(Slot::default());
    let pump = {
        let slot = slot.clone();
        async move {
            let mut out = b"one ".to_vec();
            slot.put(&mut out);
            out.extend_from_slice(b"two");
            slot.put(&mut out);
        }
    };
    let mut body = events(pump, slot);
    assert_eq!(poll(&mut body), Poll::Ready(Some("one two".to_owned())));
    assert_eq!(poll(&mut body), Poll::Ready(None));
    assert_eq!(poll(&mut body), Poll::Ready(None));
}

#[test]
fn a_reader_who_takes_nothing_holds_up_the_pump_and_nothing_else() {
    let (slot, written) = (Arc::new(Slot::default()), Arc::new(AtomicUsize::new(0)));
    let pump = {
        let (slot, written) = (slot.clone(), written.clone());
        async move {
            let mut out = Vec::new();
            for _ in 0..3 {
                out.extend_from_slice(b"piece");
                written.fetch_add(1, Ordering::Relaxed);
                slot.taken(&mut out).await;
            }
        }
    };
    let mut body = events(pump, slot);
    for n in 1..=3 {
        assert_eq!(poll(&mut body), Poll::Ready(Some("piece".to_owned())));
        assert_eq!(written.load(Ordering::Relaxed), n, "one piece is ahead, and no more");
    }
    assert_eq!(poll(&mut body), Poll::Ready(None));
}

#[test]
fn a_stream_that_waits_is_pending_and_holds_no_buffer() {
    let slot = Arc::new(Slot::default());
    let pump = {
        let slot = slot.clone();
        async move {
            slot.put(&mut b"hello".to_vec());
            std::future::pending::<()>().await;
        }
    };
    let mut body = events(pump, slot.clone());
    assert_eq!(poll(&mut body), Poll::Ready(Some("hello".to_owned())));
    assert_eq!(poll(&mut body), Poll::Pending);
    assert_eq!(slot.lock().capacity(), 0);
}

#[test]
fn readers_do_not_come_back_all_at_once() {
    let moments: std::collections::BTreeSet<u32> = (0..64).map(|_| soon()).collect();
    assert!(moments.iter().all(|ms| (1000..=3000).contains(ms)), "{moments:?}");
    assert!(moments.len() > 8, "{moments:?}");
}

fn engine() -> Engine {
    let fault = || baton_core::fault::Fault::new(baton_core::fault::Code::LlmAuth, "there is nobody to ask");
    Engine::new(baton_engine::Parts {
        store: baton_store::Store::memory(),
        tools: baton_tools::Registry::new(Vec::new()).unwrap(),
        models: Arc::new(move |_| Err(fault())),
        renderers: Default::default(),
        policy: baton_core::policy::Policy::fixed(baton_core::policy::default_decision()),
        clock: Arc::new(baton_engine::SystemClock),
        settings: baton_engine::Settings::default(),
    })
    .unwrap()
}

async fn watch(engine: &Engine, closing: CancellationToken) -> Watch {
    let request = baton_engine::RunRequest::new("hi", "nobody/there");
    let mut handle = engine.start(request).await.unwrap();
    handle.rested().await;
    Watch {
        engine: engine.clone(),
        pass: Pass::default(),
        auth: Arc::new(Auth::new(baton_store::Store::memory(), Vec::new())),
        tenant: Tenant::local(),
        run: handle.run,
        from: Cursor::default(),
        showing: Showing::default(),
        until: Until::End,
        heartbeat: Duration::from_secs(15),
        buffer: 16 << 10,
        closing,
        gone: None,
        permit: None,
    }
}

#[tokio::test]
async fn a_run_that_ended_is_replayed_to_its_end() {
    let engine = engine();
    let response = watch(&engine, CancellationToken::new()).await.open().await.unwrap();
    let headers: Vec<(&str, &[u8])> =
        response.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let expected: [(&str, &[u8]); 3] = [
        ("content-type", b"text/event-stream"),
        ("cache-control", b"no-store"),
        ("x-accel-buffering", b"no"),
    ];
    assert_eq!(headers, expected);
    let bytes = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("event: ")).collect();
    assert_eq!(lines.last(), Some(&"event: done"), "{text}");
    assert!(text.starts_with("retry: ") && text.ends_with("}\n\n"), "{text}");
    assert_eq!(lines.iter().filter(|line| **line == "event: error").count(), 1, "{text}");
}

#[tokio::test]
async fn an_open_stream_is_small() {
    let engine = engine();
    let watch = watch(&engine, CancellationToken::new()).await;
    let reader = engine.events(&watch.tenant, watch.run, watch.from).await.unwrap();
    let size = std::mem::size_of_val(&watch.pump(reader, Arc::new(Slot::default())));
    assert!(size < 2048, "{size}");
}
