//! Raw arguments to validated ones.

use std::process::ExitCode;

/// Reads the arguments and runs the command.
pub(crate) fn main() -> ExitCode {
    ExitCode::SUCCESS
}
