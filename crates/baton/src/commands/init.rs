//! `baton init`: writes a commented settings file.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use clap::Args;

use crate::config::{self, commented_file, service_file};
use crate::failure::{Failure, exit};
use crate::terminal::{line, note};

const EXAMPLES: &str = "\
Examples:
  baton init                          in the platform's configuration folder
  baton init --service                for a service among others, with their usual addresses
  baton init --config ./baton.toml    somewhere else; name it with --config or BATON_CONFIG from then on";

/// The arguments of `baton init`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InitArgs {
    /// Writes over a file that is there
    #[arg(long)]
    force: bool,
    /// Writes the usual values of a service among others: PostgreSQL, an execution and a context service, Ollama
    #[arg(long)]
    service: bool,
}

/// Runs the command.
pub(crate) fn run(globals: &crate::cli::Globals, args: &InitArgs) -> Result<u8, Failure> {
    let path = config::file_to_write(globals)?;
    let (page, told) = if args.service { (service_file(), SERVICE) } else { (commented_file(), PLAIN) };
    write(&path, &page, args.force)?;
    line(path.display().to_string())?;
    note(told);
    Ok(exit::OK)
}

const PLAIN: &str = "Every setting in it is a remark: remove the `#` of what you want to change. `baton config show` shows the result.";
const SERVICE: &str = "The settings without a `#` hold: change what is elsewhere with you. The database's password stands \
                       in DATABASE_URL alone. `baton config show` shows the result, `baton doctor` tries it out.";

fn write(path: &Path, page: &str, force: bool) -> Result<(), Failure> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).mode(0o600);
    if force {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    let mut file = options.open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Failure::conflict(format!("{} is already there", path.display()))
                .hint("baton init --force writes over it")
        }
        _ => Failure::failed(format!("{} cannot be written: {error}", path.display())),
    })?;
    file.write_all(page.as_bytes())?;
    Ok(())
}
