use std::sync::atomic::{AtomicBool, Ordering};

use uuid::Uuid;

use super::*;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    private_folder(&folder.path().join("live")).unwrap();
    folder
}

fn files(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder.join("live")).unwrap();
    let mut names: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn an_owner_lives_as_long_as_its_lock() {
    let folder = folder();
    let owner = OwnerId(Uuid::from_u128(1));
    let lock = LifeLock::take(folder.path(), owner).unwrap();
    assert_eq!((is_alive(folder.path(), owner), files(folder.path())), (true, vec![owner.to_string()]));
    drop(lock);
    assert_eq!((is_alive(folder.path(), owner), files(folder.path())), (false, vec![]));
}

/// A process that removes dead owners' files meanwhile never finds a file before it is locked.
#[test]
fn nobody_is_taken_for_dead_while_it_comes_to_life() {
    let folder = folder();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    clear_away(folder.path());
                }
            });
        }
        let dead: Vec<u128> = (0..1000)
            .filter(|n| {
                let owner = OwnerId(Uuid::from_u128(*n));
                let _lock = LifeLock::take(folder.path(), owner).unwrap();
                !is_alive(folder.path(), owner)
            })
            .collect();
        done.store(true, Ordering::Relaxed);
        assert_eq!(dead, []);
    });
}
