use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use baton_core::chat::{FinishReason, TokenUsage};
use baton_model::{Delta, DeltaStream, Model, ModelRequest};
use http_body::Body as _;
use std::task::Waker;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

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
    asking(Arc::new(move |_| Err(fault())))
}

fn asking(models: baton_engine::ModelSource) -> Engine {
    Engine::new(baton_engine::Parts {
        store: baton_store::Store::memory(),
        tools: baton_tools::Registry::new(Vec::new()).unwrap(),
        models,
        renderers: Default::default(),
        policy: baton_core::policy::Policy::fixed(baton_core::policy::default_decision()),
        clock: Arc::new(baton_engine::SystemClock),
        settings: baton_engine::Settings::default(),
    })
    .unwrap()
}

async fn watch(engine: &Engine, closing: CancellationToken) -> RunStream {
    let request = baton_engine::RunRequest::new("hi", "nobody/there");
    let mut handle = engine.start(request).await.unwrap();
    handle.rested().await;
    watching(engine, handle.run, closing)
}

fn watching(engine: &Engine, run: RunId, closing: CancellationToken) -> RunStream {
    RunStream {
        engine: engine.clone(),
        pass: Pass::default(),
        auth: Arc::new(Auth::new(baton_store::Store::memory(), Vec::new())),
        tenant: Tenant::local(),
        run,
        from: Cursor::default(),
        showing: SseRendering::default(),
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

/// A model that writes the text it is sent, when it is sent.
struct Dictated(Mutex<Option<UnboundedReceiver<Delta>>>);

impl Model for Dictated {
    fn name(&self) -> String {
        "dictated".to_owned()
    }

    fn stream(&self, _: ModelRequest) -> DeltaStream {
        let told = self.0.lock().unwrap().take().unwrap();
        Box::pin(futures_util::stream::unfold(told, async |mut told| Some((Ok(told.recv().await?), told))))
    }

    fn cost(&self, _: &TokenUsage) -> Option<u64> {
        Some(0)
    }
}

/// A stream of a run whose model writes the text that is sent to it.
async fn dictating() -> (UnboundedSender<Delta>, Body) {
    let (say, told) = unbounded_channel();
    let model: Arc<dyn Model> = Arc::new(Dictated(Mutex::new(Some(told))));
    let engine = asking(Arc::new(move |_| Ok(model.clone())));
    let run = engine.start(baton_engine::RunRequest::new("hi", "dictated")).await.unwrap().run;
    let response = watching(&engine, run, CancellationToken::new()).open().await.unwrap();
    (say, response.into_body())
}

/// The pieces of text of the next chunk that has anything but comments in it.
async fn heard(body: &mut Body) -> Vec<String> {
    loop {
        let frame = http_body_util::BodyExt::frame(body).await.unwrap().unwrap().into_data().unwrap();
        let text = String::from_utf8(frame.to_vec()).unwrap();
        assert!(text.ends_with("\n\n"), "{text}");
        let data: Vec<serde_json::Value> = text
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        if !data.is_empty() {
            return data.iter().map(|it| it["content"].as_str().unwrap_or("-").to_owned()).collect();
        }
    }
}

#[tokio::test]
async fn pieces_of_text_that_come_fast_go_out_in_breaths() {
    let (say, mut body) = dictating().await;
    let began = Instant::now();
    for n in 0..20 {
        say.send(Delta::Text(n.to_string())).unwrap();
        assert_eq!(heard(&mut body).await, [n.to_string()]);
    }
    // A timer is never early: it can only have taken longer.
    assert!(began.elapsed() >= pace::BREATH * 19, "{:?}", began.elapsed());
}

#[tokio::test]
async fn what_comes_during_a_breath_is_neither_lost_nor_repeated_and_the_end_comes_last() {
    let (say, mut body) = dictating().await;
    say.send(Delta::Text("first ".to_owned())).unwrap();
    assert_eq!(heard(&mut body).await, ["first "]);
    let (mut all, words) = (Vec::new(), ["a ", "b ", "c ", "d ", "e "]);
    for word in words {
        say.send(Delta::Text(word.to_owned())).unwrap();
    }
    say.send(Delta::Usage(TokenUsage::default())).unwrap();
    say.send(Delta::Finish(FinishReason::Stop)).unwrap();
    drop(say);
    while all.last().is_none_or(|last| last != "-") {
        all.extend(heard(&mut body).await);
    }
    assert_eq!(all, ["a ", "b ", "c ", "d ", "e ", "-"]);
    assert!(http_body_util::BodyExt::frame(&mut body).await.is_none(), "the end comes last");
}
