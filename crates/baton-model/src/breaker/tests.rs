use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A breaker and its time, which stands still unless it is moved.
struct Scene {
    breaker: Breaker,
    now: Instant,
}

impl Scene {
    fn new() -> Self {
        Scene { breaker: Breaker::new("ollama/x"), now: Instant::now() }
    }

    fn admit(&self) -> Result<BreakerPermit, Fault> {
        self.breaker.admit(self.now, false)
    }

    fn fail(&self, code: Code) {
        self.admit().unwrap().failed(self.now, code);
    }

    fn succeed(&self) {
        self.admit().unwrap().succeeded(self.now);
    }

    /// Whether it lets calls through; what it says if not.
    fn refusal(&self) -> Option<Fault> {
        self.admit().err()
    }
}

fn degraded(code: Code, words: &str) -> Option<Fault> {
    Some(Fault::new(code, format!("ollama/x is marked as degraded {words}")).unsent())
}

fn opened(code: Code) -> Scene {
    let scene = Scene::new();
    (0..5).for_each(|_| scene.fail(code));
    scene
}

#[test]
fn the_fifth_failure_opens_it() {
    let mut scene = Scene::new();
    for _ in 0..4 {
        scene.fail(Code::LlmServer);
        assert_eq!(scene.refusal(), None);
    }
    scene.fail(Code::LlmConnection);
    assert_eq!(scene.refusal(), degraded(Code::LlmConnection, "for 30 more seconds after 5 failures"));
    scene.now += 28 * SECOND + SECOND / 2;
    assert_eq!(scene.refusal(), degraded(Code::LlmConnection, "for 2 more seconds after 5 failures"));
    scene.now += SECOND;
    assert_eq!(scene.refusal(), degraded(Code::LlmConnection, "for 1 more second after 5 failures"));
}

#[test]
fn failures_that_are_less_than_half_do_not_open_it() {
    let scene = Scene::new();
    (0..22).for_each(|_| scene.succeed());
    for _ in 0..21 {
        scene.fail(Code::LlmServer);
        assert_eq!(scene.refusal(), None);
    }
    scene.fail(Code::LlmServer); // one of two
    assert_eq!(scene.refusal(), degraded(Code::LlmServer, "for 30 more seconds after 22 failures"));
}

#[test]
fn a_few_failures_among_successes_do_not_open_it() {
    let scene = Scene::new();
    scene.succeed();
    for _ in 0..19 {
        scene.fail(Code::LlmServer);
        assert_eq!(scene.refusal(), None);
    }
    scene.fail(Code::LlmServer);
    assert_eq!(scene.refusal(), degraded(Code::LlmServer, "for 30 more seconds after 20 failures"));
}

#[test]
fn outcomes_older_than_the_window_do_not_count() {
    let mut scene = Scene::new();
    (0..4).for_each(|_| scene.fail(Code::LlmServer));
    scene.now += WINDOW + SECOND;
    scene.fail(Code::LlmServer);
    assert_eq!(scene.refusal(), None);
    (0..4).for_each(|_| scene.fail(Code::LlmServer));
    assert_eq!(scene.refusal(), degraded(Code::LlmServer, "for 30 more seconds after 5 failures"));
}

#[test]
fn one_timeout_opens_it_at_once() {
    let scene = Scene::new();
    (0..50).for_each(|_| scene.succeed());
    scene.fail(Code::LlmTimeout);
    assert_eq!(scene.refusal(), degraded(Code::LlmTimeout, "for 30 more seconds after 1 failure"));
}

#[test]
fn after_the_pause_one_probe_at_a_time_goes_through() {
    let mut scene = opened(Code::LlmServer);
    scene.now += PAUSE;
    let probe = scene.admit().unwrap();
    let busy = degraded(Code::LlmServer, "after 5 failures, and is being tried by another call");
    assert_eq!(scene.refusal(), busy);
    drop(probe); // cancelled: nobody knows more than before
    let probe = scene.admit().unwrap();
    assert_eq!(scene.refusal(), busy);
    probe.succeeded(scene.now);
    let several = [scene.admit().unwrap(), scene.admit().unwrap()];
    drop(several);
    // It begins anew: the failures from before are forgotten.
    (0..4).for_each(|_| scene.fail(Code::LlmServer));
    assert_eq!(scene.refusal(), None);
}

#[test]
fn a_probe_that_fails_opens_it_for_another_pause() {
    let mut scene = opened(Code::LlmServer);
    scene.now += PAUSE;
    scene.admit().unwrap().failed(scene.now, Code::LlmConnection);
    assert_eq!(scene.refusal(), degraded(Code::LlmConnection, "for 30 more seconds after 6 failures"));
    scene.now += PAUSE;
    assert_eq!(scene.refusal(), None);
}

#[test]
fn a_probe_closes_it_when_its_answer_begins() {
    let mut scene = opened(Code::LlmServer);
    scene.now += PAUSE;
    let mut probe = scene.admit().unwrap();
    probe.answer_began(scene.now);
    assert_eq!(scene.refusal(), None);
    // What becomes of the answer counts as for any other call.
    probe.failed(scene.now, Code::LlmTimeout);
    assert_eq!(scene.refusal(), degraded(Code::LlmTimeout, "for 30 more seconds after 1 failure"));
}

#[test]
fn last_resort_calls_are_admitted_where_failing_is_fast() {
    for code in [Code::LlmServer, Code::LlmConnection] {
        let mut scene = opened(code);
        let anyway = |scene: &Scene| scene.breaker.admit(scene.now, true).unwrap();
        let refusal = degraded(code, "for 30 more seconds after 5 failures");
        let several = [anyway(&scene), anyway(&scene), anyway(&scene)];
        assert_eq!(scene.refusal(), refusal);
        // Their failures say nothing new, and do not make the others wait for longer.
        several.into_iter().for_each(|permit| permit.failed(scene.now, code));
        assert_eq!(scene.refusal(), refusal);
        drop(anyway(&scene)); // cancelled
        assert_eq!(scene.refusal(), refusal);
        // After the pause one of the others tries, beside those who have nobody else.
        scene.now += PAUSE;
        let last = anyway(&scene);
        let probe = scene.admit().unwrap();
        let busy = degraded(code, "after 5 failures, and is being tried by another call");
        assert_eq!(scene.refusal(), busy);
        last.succeeded(scene.now);
        assert_eq!(scene.refusal(), None);
        // It is closed, so the probe counts as any other call by now.
        probe.failed(scene.now, code);
        assert_eq!(scene.refusal(), None);
    }
}

#[test]
fn last_resort_calls_are_admitted_one_at_a_time_after_a_timeout() {
    let scene = Scene::new();
    scene.fail(Code::LlmTimeout);
    let probe = scene.breaker.admit(scene.now, true).unwrap();
    let busy = degraded(Code::LlmTimeout, "after 1 failure, and is being tried by another call");
    assert_eq!(scene.breaker.admit(scene.now, true).err(), busy);
    let refusal = degraded(Code::LlmTimeout, "for 30 more seconds after 1 failure");
    assert_eq!(scene.refusal(), refusal);
    drop(probe);
    assert_eq!(scene.refusal(), refusal);
    scene.breaker.admit(scene.now, true).unwrap().succeeded(scene.now);
    assert_eq!(scene.refusal(), None);
}

#[test]
fn a_probe_that_outlives_an_opening_is_the_only_one_all_the_same() {
    let mut scene = opened(Code::LlmServer);
    scene.now += PAUSE;
    let probe = scene.admit().unwrap();
    scene.breaker.admit(scene.now, true).unwrap().succeeded(scene.now); // closed
    scene.fail(Code::LlmTimeout); // and open again
    let busy = degraded(Code::LlmTimeout, "after 1 failure, and is being tried by another call");
    assert_eq!(scene.breaker.admit(scene.now, true).err(), busy);
    drop(probe);
    drop(scene.breaker.admit(scene.now, true).unwrap());
}

#[test]
fn a_cancelled_call_counts_as_neither() {
    let scene = Scene::new();
    (0..4).for_each(|_| scene.fail(Code::LlmServer));
    (0..50).for_each(|_| drop(scene.admit().unwrap()));
    scene.fail(Code::LlmServer);
    assert_eq!(scene.refusal(), degraded(Code::LlmServer, "for 30 more seconds after 5 failures"));
}

#[test]
fn calls_that_began_before_it_opened_change_nothing() {
    let mut scene = Scene::new();
    let (good, bad) = (scene.admit().unwrap(), scene.admit().unwrap());
    (0..5).for_each(|_| scene.fail(Code::LlmServer));
    scene.now += SECOND;
    good.succeeded(scene.now);
    bad.failed(scene.now, Code::LlmTimeout);
    assert_eq!(scene.refusal(), degraded(Code::LlmServer, "for 29 more seconds after 5 failures"));
}

#[test]
fn remembered_outcomes_are_bounded() {
    let scene = Scene::new();
    (0..MAX_REMEMBERED * 2).for_each(|_| scene.succeed());
    assert_eq!(scene.breaker.lock().calls.len(), MAX_REMEMBERED);
}
