//! Child processes: the one place where the product starts another program.
//!
//! A child gets nothing of Baton's environment, which holds the keys of providers, and its program is
//! named by an absolute path: a name alone would be looked up in `PATH`, where a foreign program may come
//! first. `clippy.toml` refuses every other way to start a program outside of tests.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

/// Folders that only the administrator of a system writes to.
const TRUSTED: [&str; 3] = ["/usr/bin", "/bin", "/run/current-system/sw/bin"];

/// The whole environment of a child.
const ENVIRONMENT: [(&str, &str); 2] =
    [("LANG", "C.UTF-8"), ("PATH", "/usr/bin:/bin:/run/current-system/sw/bin")];

/// The path of a program of the operating system. `PATH` is not used.
///
/// # Errors
///
/// If it is in none of the trusted folders.
pub fn system_program(name: &str) -> io::Result<PathBuf> {
    let found = TRUSTED.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file());
    found.ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("it is not in {}", TRUSTED.join(", ")))
    })
}

/// A command that runs `program` in a short, fixed environment, without input, and that ends when it is dropped.
///
/// # Errors
///
/// If the path is not absolute.
#[allow(clippy::disallowed_methods, reason = "the one place where child processes are made")]
pub fn command(program: &Path) -> io::Result<Command> {
    if !program.is_absolute() {
        let why = format!("{} is not an absolute path", program.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let mut command = Command::new(program);
    command.env_clear().envs(ENVIRONMENT).stdin(Stdio::null()).kill_on_drop(true);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[tokio::test]
    async fn a_child_sees_the_fixed_environment_and_nothing_else() {
        assert!(std::env::vars_os().count() > ENVIRONMENT.len(), "there is something to hide");
        let output = command(&system_program("env").unwrap()).unwrap().output().await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut seen: Vec<&str> = text.lines().collect();
        seen.sort_unstable();
        assert_eq!(seen, ["LANG=C.UTF-8", "PATH=/usr/bin:/bin:/run/current-system/sw/bin"]);
    }

    #[test]
    fn a_name_alone_is_not_looked_up() {
        let refused = command(Path::new("env")).unwrap_err();
        assert_eq!(refused.to_string(), "env is not an absolute path");
        let refused = command(Path::new("./env")).unwrap_err();
        assert_eq!(refused.to_string(), "./env is not an absolute path");
    }

    #[test]
    fn a_program_outside_the_trusted_folders_is_not_found() {
        let missing = system_program("baton-has-no-such-program").unwrap_err();
        assert_eq!(missing.to_string(), "it is not in /usr/bin, /bin, /run/current-system/sw/bin");
    }
}
