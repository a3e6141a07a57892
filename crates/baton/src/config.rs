//! Settings.

use std::path::PathBuf;

use baton_core::policy::{Policy, default_decision};
use baton_engine::Settings;

use crate::cli::Globals;
use crate::failure::Failure;

/// What the settings come to.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// Where everything is kept.
    pub(crate) data: PathBuf,
    /// Which model answers.
    pub(crate) model: String,
    /// The agent's instructions.
    pub(crate) system: String,
    /// How many entries a model sees.
    pub(crate) last_n: Option<u32>,
    /// What is allowed.
    pub(crate) policy: Policy,
    /// Times and limits.
    pub(crate) engine: Settings,
}

impl Config {
    pub(crate) fn load(globals: &Globals, model: Option<&str>) -> Result<Config, Failure> {
        Ok(Config {
            data: globals.data.clone().or_else(|| std::env::var_os("BATON_DATA").map(PathBuf::from)).unwrap_or_default(),
            model: model.unwrap_or("offline").to_owned(),
            system: String::new(),
            last_n: None,
            policy: Policy { rules: Vec::new(), otherwise: default_decision() },
            engine: Settings::default(),
        })
    }
}
