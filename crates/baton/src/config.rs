//! The settings: one table, and the code that follows it.
//!
//! [`table`] lists every fixed setting once, [`named`] every field of the sections with chosen names. `baton.toml`
//! ([`file`]), `baton config show`, `baton init` and `docs/configuration.md` ([`pages`]) all follow them. A value comes
//! from a flag, else the environment, else the file, else the default; [`ResolvedConfig`] records which. The current
//! folder is never read unasked, and secrets are never values here: the file names where they are kept.

mod collecting;
mod database;
mod doubts;
mod file;
mod groups;
mod instructions;
mod logging;
mod named;
mod nearest;
mod pages;
mod policy;
mod rendering;
mod service;
mod services;
mod serving;
mod table;
mod value;
mod web;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::policy::Policy;
use baton_core::render::Rendering;
use baton_engine::spans::Telling;
use baton_engine::{Audit, Settings};
use baton_tools::execution::SERVICE;
use directories::ProjectDirs;

use crate::cli::Globals;
use crate::failure::Failure;
use crate::log::Logging;
use crate::models::built_in;
use crate::telemetry::CollectorSetting;
pub(crate) use database::DatabaseUrl;
pub(crate) use doubts::{ConfigWarning, unfit};
pub(crate) use groups::NamedTable;
pub(crate) use instructions::Template;
pub(crate) use nearest::{nearest, question};
pub(crate) use pages::{commented_file, service_file};
pub(crate) use policy::ToolList;
pub(crate) use service::{Retention, ServeSetting, StoreSetting, USUAL_SCOPES};
pub(crate) use services::{ContextSetting, ExecutionSetting, ServicesSetting};
pub(crate) use serving::{KeyPlace, ModelConfig, ProviderSetting};
pub(crate) use table::{SETTINGS, SettingSpec};
pub(crate) use value::Value;
pub(crate) use web::{SearchServiceKind, SearchSetting, WebSetting};

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ValueOrigin {
    /// A flag.
    Flag(&'static str),
    /// An environment variable.
    Environment(&'static str),
    /// A line of the file.
    File(PathBuf, usize),
    /// The default: no other origin has a value.
    Default,
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueOrigin::Flag(flag) => write!(f, "flag {flag}"),
            ValueOrigin::Environment(name) => write!(f, "environment {name}"),
            ValueOrigin::File(path, line) => write!(f, "file {}:{line}", path.display()),
            ValueOrigin::Default => f.write_str("default"),
        }
    }
}

/// One setting with its value and the origin of that.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResolvedSetting {
    pub(crate) setting: &'static SettingSpec,
    /// Absent where it is not set and has no default.
    pub(crate) value: Option<Value>,
    pub(crate) origin: ValueOrigin,
}

/// All settings with their values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResolvedConfig {
    /// The settings of the fixed table.
    pub(crate) fixed: Vec<ResolvedSetting>,
    /// The tables with chosen names.
    pub(crate) groups: Vec<NamedTable>,
    /// The providers, roles and models that those tables describe.
    pub(crate) serving: ModelConfig,
}

/// The values of a command's flags.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Flags<'a> {
    /// `--model`.
    pub(crate) model: Option<&'a str>,
    /// `--bind`.
    pub(crate) bind: Option<&'a str>,
    /// `--port`.
    pub(crate) port: Option<u16>,
}

/// The sources of a value that come before the file.
struct ValueSources<'a> {
    globals: &'a Globals,
    flags: Flags<'a>,
    environment: &'a dyn Fn(&str) -> Option<OsString>,
}

impl ResolvedConfig {
    /// Reads every setting for this process.
    pub(crate) fn find(globals: &Globals, model: Option<&str>) -> Result<ResolvedConfig, Failure> {
        ResolvedConfig::find_with(globals, Flags { model, ..Flags::default() })
    }

    /// The same, with the values of the command's flags.
    pub(crate) fn find_with(globals: &Globals, flags: Flags<'_>) -> Result<ResolvedConfig, Failure> {
        let environment = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        ValueSources { globals, flags, environment: &environment }.resolve()
    }

    /// A setting by its key.
    pub(crate) fn get(&self, key: &str) -> Option<&ResolvedSetting> {
        self.fixed.iter().find(|found| found.setting.key == key)
    }

    /// The path of the settings file, whether or not the file exists.
    pub(crate) fn config_file(&self) -> PathBuf {
        self.path("config")
    }

    fn value(&self, key: &str) -> Option<&Value> {
        self.get(key).and_then(|found| found.value.as_ref())
    }

    fn text(&self, key: &str) -> String {
        self.value(key).and_then(Value::as_text).unwrap_or_default().to_owned()
    }

    fn path(&self, key: &str) -> PathBuf {
        self.value(key).and_then(Value::as_path).unwrap_or(Path::new("")).to_owned()
    }

    /// The texts of a setting that is a list.
    pub(crate) fn names(&self, key: &str) -> Vec<String> {
        self.value(key).and_then(Value::as_names).unwrap_or_default().to_vec()
    }

    fn whole(&self, key: &str) -> Option<u64> {
        self.value(key).and_then(Value::as_whole)
    }

    fn seconds(&self, key: &str) -> Duration {
        Duration::from_secs(self.whole(key).unwrap_or_default())
    }

    fn millis(&self, key: &str) -> Duration {
        Duration::from_millis(self.whole(key).unwrap_or_default())
    }
}

impl ValueSources<'_> {
    fn resolve(&self) -> Result<ResolvedConfig, Failure> {
        let config = self.config()?;
        let data = self.place("data", || Ok(folders()?.data_dir().to_owned()))?;
        let file::Contents { lines, mut groups } = match config.value.as_ref().and_then(Value::as_path) {
            Some(path) => file::read(path, config.origin != ValueOrigin::Default)?,
            None => file::Contents::default(),
        };
        let (mut fixed, mut mistakes) = (vec![config, data], Vec::new());
        for setting in SETTINGS.iter().filter(|setting| !setting.is_place()) {
            match self.one(setting, &lines) {
                Ok(found) => fixed.push(found),
                Err(failure) => mistakes.push(failure),
            }
        }
        mistakes.extend(groups::from_environment(&mut groups, self.environment).err());
        Failure::of_all(mistakes)?;
        let serving = ModelConfig::of(&groups, &built_in::ollama_address())?;
        Ok(ResolvedConfig { fixed, groups, serving })
    }

    fn config(&self) -> Result<ResolvedSetting, Failure> {
        self.place("config", || Ok(folders()?.config_dir().join("baton.toml")))
    }

    /// The value of a path that is set outside the file.
    fn place(
        &self,
        key: &str,
        otherwise: impl FnOnce() -> Result<PathBuf, Failure>,
    ) -> Result<ResolvedSetting, Failure> {
        let setting = table::setting(key).ok_or_else(|| Failure::failed(format!("no setting {key}")))?;
        let given = match key {
            "config" => &self.globals.config,
            _ => &self.globals.data,
        };
        let from_environment = || setting.env.and_then(|name| Some((name, (self.environment)(name)?)));
        let (path, origin) = if let (Some(path), Some(flag)) = (given, setting.flag) {
            (path.clone(), ValueOrigin::Flag(flag))
        } else if let Some((name, path)) = from_environment() {
            (PathBuf::from(path), ValueOrigin::Environment(name))
        } else {
            (otherwise()?, ValueOrigin::Default)
        };
        Ok(ResolvedSetting { setting, value: Some(Value::Path(path)), origin })
    }

    fn one(&self, spec: &'static SettingSpec, lines: &[file::FileLine]) -> Result<ResolvedSetting, Failure> {
        let found = |value, origin| ResolvedSetting { setting: spec, value, origin };
        if let (Some(text), Some(flag)) = (self.flag(spec.key), spec.flag) {
            let value = value::from_text(spec.kind, &text).map_err(|why| wrong(flag, &why))?;
            return Ok(found(Some(value), ValueOrigin::Flag(flag)));
        }
        if let Some((name, text)) = spec.env.and_then(|name| Some((name, (self.environment)(name)?))) {
            let text = text.to_str().ok_or_else(|| wrong(name, "it is not UTF-8 text"))?;
            let value = value::from_text(spec.kind, text).map_err(|why| wrong(name, &why))?;
            return Ok(found(Some(value), ValueOrigin::Environment(name)));
        }
        if let Some(line) = lines.iter().find(|line| line.key == spec.key) {
            return Ok(found(Some(line.value.clone()), line.origin.clone()));
        }
        Ok(found(spec.default_value(), ValueOrigin::Default))
    }

    fn flag(&self, key: &str) -> Option<String> {
        match (key, self.globals.verbose) {
            ("model", _) => self.flags.model.map(str::to_owned),
            ("serve.bind", _) => self.flags.bind.map(str::to_owned),
            ("serve.port", _) => self.flags.port.map(|port| port.to_string()),
            ("log.level", 1) => Some("info".to_owned()),
            ("log.level", 2) => Some("debug".to_owned()),
            ("log.level", 3..) => Some("trace".to_owned()),
            _ => None,
        }
    }
}

/// The file that `baton init` writes: the one that would be read, whether or not it could be.
pub(crate) fn file_to_write(globals: &Globals) -> Result<PathBuf, Failure> {
    let environment = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let found = ValueSources { globals, flags: Flags::default(), environment: &environment }.config()?;
    Ok(found.value.as_ref().and_then(Value::as_path).unwrap_or(Path::new("baton.toml")).to_owned())
}

fn wrong(whose: &str, why: &str) -> Failure {
    Failure::usage(format!("{whose}: {why}"))
}

fn folders() -> Result<ProjectDirs, Failure> {
    ProjectDirs::from("", "", "baton").ok_or_else(|| {
        Failure::usage("there is no home folder to keep settings and data in")
            .hint("name them with --config FILE and --data DIR, or BATON_CONFIG and BATON_DATA")
    })
}

/// The configuration: the settings, typed and checked.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// The data folder.
    pub(crate) data: PathBuf,
    /// The model that was named, and the origin of that.
    pub(crate) model: Option<(String, ValueOrigin)>,
    /// The providers, and the models of each role.
    pub(crate) serving: ModelConfig,
    /// The agent's instructions.
    pub(crate) system: String,
    /// The template that the instructions are rendered from, instead of `system`.
    pub(crate) template: Option<Template>,
    /// The rendering of a thread for a model.
    pub(crate) render: Rendering,
    /// The number of entries that a model sees; absent: all.
    pub(crate) last_n: Option<u32>,
    /// The policy.
    pub(crate) policy: Policy,
    /// The lists in the policy that name tools.
    pub(crate) tool_lists: Vec<ToolList>,
    /// The search service, the pages that may be visited, and the operator's overrides of tools.
    pub(crate) web: WebSetting,
    /// The services around this one: execution and context.
    pub(crate) services: ServicesSetting,
    /// The engine's times and limits.
    pub(crate) engine: Settings,
    /// The folders that a service's file tools read.
    pub(crate) files: Vec<PathBuf>,
    /// Files that the file tools show although files like them hold secrets.
    pub(crate) shown_files: Vec<String>,
    /// Whether this is for a service, whose current folder means nothing.
    pub(crate) is_service: bool,
    /// The level and format of the log.
    pub(crate) log: Logging,
    /// The address of the service, its tokens and its limits.
    pub(crate) serve: ServeSetting,
    /// The database, if the data is not in the data folder.
    pub(crate) store: StoreSetting,
    /// The times after which data is deleted.
    pub(crate) retention: Retention,
    /// The collector that the spans of runs are sent to.
    pub(crate) collector: Option<CollectorSetting>,
    /// The variable that names an unusable collector, and the reason.
    pub(crate) ignored: Option<(&'static str, &'static str)>,
}

impl Config {
    /// Checks the settings against one another and types them.
    pub(crate) fn new(resolved: &ResolvedConfig) -> Result<Config, Failure> {
        let named = |key: &str| {
            let found = resolved.get(key)?;
            let text = found.value.as_ref().and_then(Value::as_text)?;
            Some((text.to_owned(), found.origin.clone()))
        };
        let template =
            named("behavior_template").map(|(text, origin)| Template::of(&text, &origin)).transpose();
        let (services, collecting) = (ServicesSetting::of(resolved), collecting::collector(resolved));
        let (render, policy) = (rendering::rendering(resolved), policy::table(resolved));
        let (web, serve) = (WebSetting::of(resolved), ServeSetting::of(resolved));
        let mistakes = [
            mistake(&template),
            mistake(&collecting),
            mistake(&services),
            mistake(&render),
            mistake(&policy),
            mistake(&web),
            mistake(&serve),
        ];
        Failure::of_all(mistakes.into_iter().flatten().collect())?;
        let ((collector, ignored), services) = (collecting?, services?);
        Ok(Config {
            data: resolved.path("data"),
            model: named("model"),
            serving: resolved.serving.clone(),
            system: resolved.text("system"),
            template: template?,
            render: render?,
            last_n: resolved.whole("last_n").map(narrow),
            policy: Policy::Table(policy?),
            tool_lists: resolved.tool_lists(),
            web: web?,
            engine: engine(resolved, &services),
            services,
            files: service::folders(resolved),
            shown_files: resolved.names("files.allow"),
            is_service: false,
            log: logging::logging(resolved),
            serve: serve?,
            store: StoreSetting::of(resolved),
            retention: Retention::of(resolved),
            collector,
            ignored,
        })
    }
}

fn mistake<T>(read: &Result<T, Failure>) -> Option<Failure> {
    read.as_ref().err().cloned()
}

fn engine(resolved: &ResolvedConfig, services: &ServicesSetting) -> Settings {
    let switch = |key: &str| resolved.value(key).and_then(Value::as_switch).unwrap_or_default();
    let size = |key: &str| usize::try_from(resolved.whole(key).unwrap_or_default()).unwrap_or(usize::MAX);
    Settings {
        effects_at_once: size("engine.effects_at_once"),
        grace: resolved.seconds("engine.grace_s"),
        shutdown: resolved.seconds("engine.shutdown_s"),
        flush_after: resolved.millis("engine.flush_ms"),
        flush_watched: resolved.millis("engine.flush_watched_ms"),
        flush_bytes: size("engine.flush_bytes"),
        poll: resolved.millis("engine.poll_ms"),
        adopt_every: resolved.millis("engine.adopt_ms"),
        store_patience: resolved.seconds("engine.store_patience_s"),
        most_attempts: resolved.whole("engine.most_attempts").map_or(1, narrow),
        services: services.execution.iter().map(|_| SERVICE.to_owned()).collect(),
        audit: Audit {
            source: resolved.text("services.context.source"),
            send: services.context.is_some(),
            with_text: switch("services.context.with_text"),
            ..Audit::default()
        },
        telling: Telling { content: switch("telemetry.content"), propagate: switch("telemetry.propagate") },
        ..Settings::default()
    }
}

/// Narrows a number; the table's ranges keep every such number small enough.
fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
