use uuid::Uuid;

use super::*;

fn due(n: u128) -> Due {
    Due {
        tenant: Tenant::local(),
        run: RunId(Uuid::from_u128(n)),
        attempts: 0,
        inbox: 0,
        definition: "d".to_owned(),
        is_queued: false,
    }
}

fn suspect(n: u128, attempts: u32) -> Due {
    Due { attempts, ..due(n) }
}

/// A process that looks at due runs, at some milliseconds.
struct Looker {
    attention: Attention,
    settings: Settings,
    start: Instant,
}

impl Looker {
    fn new() -> Looker {
        Looker { attention: Attention::default(), settings: Settings::default(), start: Instant::now() }
    }

    fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    /// The runs that are tried.
    fn looks(&mut self, ms: u64, all: &[Due], is_alone: bool) -> Vec<u128> {
        let now = self.at(ms);
        let chosen = self.attention.choose(all.to_vec(), is_alone, &self.settings, now);
        self.attention.swept(0, now);
        chosen.iter().map(|due| due.run.0.as_u128()).collect()
    }

    fn refuses(&mut self, ms: u64, due: &Due, why: Refusal) -> bool {
        let now = self.at(ms);
        self.attention.refused(due, why, &self.settings, now)
    }
}

#[test]
fn a_run_that_cannot_be_driven_is_tried_less_and_less_often() {
    let (mut looker, all) = (Looker::new(), [due(1)]);
    let mut tried = Vec::new();
    for ms in (0..20 * 60_000).step_by(500) {
        if !looker.looks(ms, &all, true).is_empty() {
            let is_news = looker.refuses(ms, &all[0], Refusal::Run);
            assert_eq!(is_news, tried.is_empty(), "it is told of once");
            tried.push(ms / 1000);
        }
    }
    assert_eq!(tried, [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111]);
}

#[test]
fn a_definition_that_cannot_be_driven_is_tried_with_one_of_its_runs() {
    let mut looker = Looker::new();
    let all: Vec<Due> = (1..=1500).map(due).collect();
    assert_eq!(looker.looks(0, &all, true).len(), 1500, "nobody knows yet");
    for due in &all {
        looker.refuses(0, due, Refusal::Definition);
    }
    let healthy = Due { definition: "other".to_owned(), ..due(2000) };
    let with_healthy: Vec<Due> = all.iter().cloned().chain([healthy]).collect();
    assert_eq!(looker.looks(500, &with_healthy, true), [2000]);
    let mut tries = 0;
    for ms in (1000..600_000).step_by(500) {
        let tried = looker.looks(ms, &all, true);
        assert!(tried.len() <= 1, "at {ms}: {}", tried.len());
        for n in tried {
            tries += 1;
            looker.refuses(ms, &due(n), Refusal::Definition);
        }
    }
    assert!(tries <= 30, "{tries} in ten minutes");
}

#[test]
fn what_changed_is_tried_at_once() {
    let mut looker = Looker::new();
    assert_eq!(looker.looks(0, &[due(1), due(2)], true), [1, 2]);
    looker.refuses(0, &due(1), Refusal::Definition);
    looker.refuses(0, &due(2), Refusal::Definition);
    let written_to = Due { inbox: 1, ..due(2) };
    assert_eq!(looker.looks(100, &[due(1), written_to.clone()], true), [2], "it may have been cancelled");
    looker.refuses(100, &written_to, Refusal::Definition);
    assert_eq!(looker.looks(200, &[due(1), written_to.clone()], true), []);
    let now = looker.at(300);
    looker.attention.swept(1, now);
    assert_eq!(looker.looks(400, &[due(1), written_to], true), [1, 2], "there are other tools");
}

#[test]
fn one_suspect_is_tried_at_a_time_and_healthy_runs_beside_it() {
    let mut looker = Looker::new();
    let all = [suspect(1, 4), suspect(2, 3), due(3), suspect(4, 1), suspect(5, 3)];
    assert_eq!(looker.looks(0, &all, true), [3, 4], "suspects are left alone for a while");
    assert_eq!(looker.looks(1000, &all, true), [2, 3, 4], "who was to blame least often comes first");
    assert_eq!(looker.looks(1000, &all, false), [3, 4], "while one is driven the others wait");
    assert_eq!(looker.looks(1500, &[suspect(6, 5)], false), [6], "what is given up is not driven");
}

#[test]
fn a_suspect_waits_twice_as_long_after_each_death_and_five_seconds_at_most() {
    for (attempts, ms) in [(0, 0), (1, 0), (2, 500), (3, 1000), (4, 2000), (5, 4000), (6, 5000), (60, 5000)] {
        let mut looker = Looker::new();
        looker.settings.most_attempts = 100;
        looker.looks(0, &[suspect(1, attempts)], true);
        if ms > 0 {
            assert_eq!(looker.looks(ms - 1, &[suspect(1, attempts)], true), [], "{attempts}");
        }
        assert_eq!(looker.looks(ms, &[suspect(1, attempts)], true), [1], "{attempts}");
    }
}

#[test]
fn a_run_that_is_due_no_more_is_forgotten() {
    let mut looker = Looker::new();
    looker.looks(0, &[due(1), due(2)], true);
    looker.refuses(0, &due(1), Refusal::Run);
    looker.looks(100, &[due(2)], true);
    assert_eq!(looker.attention.runs.len(), 1);
    assert_eq!(looker.looks(200, &[due(1)], true), [1]);
}

#[test]
fn a_run_that_is_first_in_line_is_given_up_after_a_grace() {
    let mut looker = Looker::new();
    let first = Due { is_queued: true, ..due(1) };
    let mut tried = Vec::new();
    for ms in (0..=130_000).step_by(500) {
        // A message is posted to it, which is a reason to try it at once and none to wait longer.
        let first = Due { inbox: u32::from(ms > 40_000), ..first.clone() };
        if !looker.looks(ms, &[first.clone(), due(2)], true).contains(&1) {
            continue;
        }
        looker.refuses(ms, &first, Refusal::Definition);
        let now = looker.at(ms);
        let is_hopeless = looker.attention.is_hopeless(&first, &looker.settings, now);
        tried.push((ms / 1000, is_hopeless));
        if is_hopeless {
            break;
        }
    }
    let calm = [0, 1, 3, 7, 15, 31, 40, 41, 43, 47, 55, 71, 103].map(|second| (second, false));
    assert_eq!(tried, [calm.as_slice(), &[(120, true)]].concat());
}

#[test]
fn what_has_begun_and_what_is_broken_is_not_given_up() {
    let mut looker = Looker::new();
    looker.settings.turn_grace = Duration::ZERO;
    let (begun, broken) = (due(1), Due { is_queued: true, ..due(2) });
    looker.looks(0, &[begun.clone(), broken.clone()], true);
    for (due, why) in [(begun, Refusal::Definition), (broken, Refusal::Run)] {
        looker.refuses(0, &due, why);
        assert!(!looker.attention.is_hopeless(&due, &looker.settings, looker.at(9)), "{due:?}");
    }
}
