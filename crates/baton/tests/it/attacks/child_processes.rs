//! A program of the attacker that comes first in `PATH`, and the keys in the environment.

use std::os::unix::fs::PermissionsExt as _;

use crate::world::World;

/// A folder with programs of these names, each of which records its environment and prints a word.
fn planted(world: &World, names: &[&str]) -> String {
    let loot = world.path("loot");
    for name in names {
        let script = format!("#!/bin/sh\n/usr/bin/env >> '{}'\necho planted\n", loot.display());
        let program = world.write(&format!("planted/{name}"), &script);
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let others = std::env::var("PATH").unwrap_or_default();
    format!("{}:{others}", world.path("planted").display())
}

#[test]
fn a_program_that_is_first_in_path_is_not_run_and_sees_no_key() {
    let world = World::new();
    let path = planted(&world, &["journalctl", "log"]);
    let variables = [("PATH", path.as_str()), ("OPENAI_API_KEY", "sk-the-key-of-a-person")];
    for args in [
        &["tools", "call", "system_logs", "limit=1"][..],
        &["ask", "--model", "offline", "Show the last 20 errors in the logs"],
        &["doctor"],
    ] {
        let did = world.baton_with(&variables, args);
        assert!(!did.out.contains("planted"), "{did:?}");
        assert!(!world.path("loot").exists(), "{args:?} ran it: {did:?}");
    }
}
