use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    crate::live::private_folder(&folder.path().join("live")).unwrap();
    folder
}

const SHORT: Duration = Duration::from_millis(50);

#[test]
fn one_that_does_not_move_is_named_and_those_behind_it_go_on_when_it_does() {
    let folder = folder();
    let (first, second) =
        (Turnstile::open(folder.path()).unwrap(), Turnstile::with_deadline(folder.path(), SHORT).unwrap());
    let inside = first.enter().unwrap();
    for _ in 0..3 {
        let error = second.enter().unwrap_err();
        let NoTurn::Held(holder) = error else { panic!("{error}") };
        let me = format!("process {}", std::process::id());
        assert!(holder.to_string().starts_with(&me) || cfg!(not(target_os = "linux")), "{holder}");
    }
    drop(inside);
    // Its thread is still in the queue and gets the turn soon: how soon is up to the operating system.
    let entered = std::iter::repeat_with(|| second.enter()).find_map(Result::ok).unwrap();
    drop(entered);
    drop(first.enter().unwrap());
}

#[test]
fn a_turn_that_nobody_wants_any_more_is_given_back() {
    let folder = folder();
    let (first, second) =
        (Turnstile::open(folder.path()).unwrap(), Turnstile::with_deadline(folder.path(), SHORT).unwrap());
    let inside = first.enter().unwrap();
    second.enter().unwrap_err();
    drop(inside);
    drop(first.enter().unwrap()); // behind the second, which gets the turn and does not use it
    let inside = first.enter().unwrap();
    second.enter().unwrap_err();
    drop(second);
    drop(inside);
    drop(first.enter().unwrap());
}

/// All of them get a turn, one at a time, and waiting ones are not overtaken for ever.
#[test]
fn many_writers_share_the_turns() {
    const TURNS: u32 = 200;
    let (folder, inside) = (folder(), AtomicU32::new(0));
    let turns: Vec<u32> = std::thread::scope(|scope| {
        let work = || {
            let turnstile = Turnstile::open(folder.path()).unwrap();
            for _ in 0..TURNS {
                let turn = turnstile.enter().unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
                inside.fetch_sub(1, Ordering::SeqCst);
                drop(turn);
            }
            TURNS
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(turns, [TURNS; 4]);
}
