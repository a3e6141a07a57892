//! The settings of `[services]`: the execution service, whose tools are called, and the context service, which receives
//! events.
//!
//! Values only; no token is read here. A token is named by its variable or its file and belongs to one address.

use std::time::Duration;

use super::serving::{beside, endpoint, wrong};
use super::{KeyPlace, ResolvedConfig, Value, ValueOrigin};
use crate::failure::Failure;

/// The services around this one.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ServicesSetting {
    /// The service whose tools are called.
    pub(crate) execution: Option<ExecutionSetting>,
    /// The service that receives events.
    pub(crate) context: Option<ContextSetting>,
}

/// A service with tools.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExecutionSetting {
    /// Its validated address.
    pub(crate) url: String,
    pub(crate) token: KeyPlace,
    /// The timeout of a call, where its tool states none.
    pub(crate) timeout: Duration,
    /// The interval at which its list of tools is read.
    pub(crate) refresh: Duration,
}

/// A service that keeps events.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ContextSetting {
    /// Its validated address.
    pub(crate) url: String,
    pub(crate) token: KeyPlace,
}

impl ServicesSetting {
    /// Puts the settings together.
    pub(super) fn of(resolved: &ResolvedConfig) -> Result<ServicesSetting, Failure> {
        let execution = match address(resolved, "services.execution")? {
            None => None,
            Some(url) => Some(ExecutionSetting {
                url,
                token: token(resolved, "services.execution")?,
                timeout: resolved.seconds("services.execution.timeout_s"),
                refresh: resolved.seconds("services.execution.refresh_s"),
            }),
        };
        let context = match address(resolved, "services.context")? {
            None => None,
            Some(url) => Some(ContextSetting { url, token: token(resolved, "services.context")? }),
        };
        Ok(ServicesSetting { execution, context })
    }
}

/// A validated address, otherwise as written: its path may matter.
fn address(resolved: &ResolvedConfig, of: &str) -> Result<Option<String>, Failure> {
    let key = format!("{of}.url");
    let Some(found) = resolved.get(&key) else { return Ok(None) };
    let Some(text) = found.value.as_ref().and_then(Value::as_text) else { return Ok(None) };
    endpoint(&key, text, &found.origin)?;
    Ok(Some(text.trim().trim_end_matches('/').to_owned()))
}

/// The place of the token: a file if one is named, else a variable.
fn token(resolved: &ResolvedConfig, of: &str) -> Result<KeyPlace, Failure> {
    let (variable, file) = (resolved.get(&format!("{of}.key_env")), resolved.get(&format!("{of}.key_file")));
    let file = file.and_then(|found| Some((found.value.as_ref()?, &found.origin)));
    match (variable, file) {
        (Some(named), Some((_, origin))) if named.origin != ValueOrigin::Default => {
            let why = format!("`{of}`: there are a key_env and a key_file");
            Err(wrong(origin, &why).hint("keep one of them"))
        }
        (_, Some((value, origin))) => Ok(KeyPlace::File(beside(value, origin), origin.clone())),
        (_, None) => Ok(KeyPlace::Variable(resolved.text(&format!("{of}.key_env")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::config::tests::resolve;

    fn services(text: &str, variables: &[(&str, &str)]) -> Result<ServicesSetting, String> {
        let resolved = resolve(text, variables, None).map_err(|failure| failure.message)?;
        ServicesSetting::of(&resolved).map_err(|failure| failure.message)
    }

    #[test]
    fn nobody_is_called_or_told_unless_somebody_is_named() {
        assert_eq!(services("", &[]), Ok(ServicesSetting::default()));
        let token = [("EXECUTION_SERVICE_TOKEN", "secret")];
        assert_eq!(services("[services.execution]\ntimeout_s = 3\n", &token), Ok(ServicesSetting::default()));
    }

    #[test]
    fn the_variables_of_the_document_name_both() {
        let variables = [
            ("EXECUTION_SERVICE_URL", "http://localhost:8002/v1"),
            ("CONTEXT_SERVICE_URL", "http://localhost:8001/"),
        ];
        let expected = ServicesSetting {
            execution: Some(ExecutionSetting {
                url: "http://localhost:8002/v1".to_owned(),
                token: KeyPlace::Variable("EXECUTION_SERVICE_TOKEN".to_owned()),
                timeout: Duration::from_secs(30),
                refresh: Duration::from_secs(30),
            }),
            context: Some(ContextSetting {
                url: "http://localhost:8001".to_owned(),
                token: KeyPlace::Variable("CONTEXT_SERVICE_TOKEN".to_owned()),
            }),
        };
        assert_eq!(services("", &variables), Ok(expected));
    }

    #[test]
    fn the_file_says_more() {
        let text = "[services.execution]\nurl = \"http://10.0.0.7:8002\"\nkey_file = \"exec.token\"\ntimeout_s = 5\nrefresh_s = 60\n\
                    [services.context]\nurl = \"http://10.0.0.8:8001\"\nkey_env = \"AUDIT_TOKEN\"\nsource = \"desk\"\nwith_text = true\n";
        let resolved = resolve(text, &[], None).unwrap();
        let services = ServicesSetting::of(&resolved).unwrap();
        let execution = services.execution.unwrap();
        assert!(matches!(execution.token, KeyPlace::File(..)), "{execution:?}");
        assert_eq!((execution.timeout, execution.refresh), (Duration::from_secs(5), Duration::from_secs(60)));
        assert_eq!(services.context.unwrap().token, KeyPlace::Variable("AUDIT_TOKEN".to_owned()));
        let engine = Config::new(&resolved).unwrap().engine;
        let audit = baton_engine::Audit {
            source: "desk".to_owned(),
            send: true,
            with_text: true,
            ..Default::default()
        };
        assert_eq!((engine.services, engine.audit), (vec!["execution".to_owned()], audit));
    }

    #[test]
    fn what_cannot_work_is_refused_without_repeating_it() {
        let odd = services("", &[("CONTEXT_SERVICE_URL", "http://user:hidden@host")]).unwrap_err();
        assert_eq!(
            odd,
            "CONTEXT_SERVICE_URL: `services.context.url`: a user or a password does not belong into a URL"
        );
        let both = "[services.execution]\nurl = \"http://host\"\nkey_env = \"A\"\nkey_file = \"b\"\n";
        let both = services(both, &[]).unwrap_err();
        assert!(
            both.ends_with("baton.toml:4: `services.execution`: there are a key_env and a key_file"),
            "{both}"
        );
        let secret = services("[services.execution]\ntoken = \"hidden\"\n", &[]).unwrap_err();
        assert!(
            secret.ends_with("secrets are never values in this file") && !secret.contains("hidden"),
            "{secret}"
        );
    }
}
