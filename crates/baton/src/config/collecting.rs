//! The collector of spans.

use super::{ResolvedConfig, Value, ValueOrigin, serving};
use crate::failure::Failure;
use crate::telemetry::CollectorSetting;

/// The collector, or the variable that names an unusable one, and the reason.
pub(super) type Collecting = (Option<CollectorSetting>, Option<(&'static str, &'static str)>);

/// The collector of the settings. The variable may be meant for other programs, which support more than Baton, so an
/// unusable address there is no reason to refuse a command.
pub(super) fn collector(resolved: &ResolvedConfig) -> Result<Collecting, Failure> {
    let Some(found) = resolved.get("telemetry.endpoint") else { return Ok((None, None)) };
    let Some(base) = found.value.as_ref().and_then(Value::as_text) else { return Ok((None, None)) };
    let (headers, service) =
        (resolved.text("telemetry.headers_env"), resolved.text("telemetry.service_name"));
    let why = match CollectorSetting::at(base, headers, service) {
        Ok(collector) => return Ok((Some(collector), None)),
        Err(error) => serving::unusable(&error),
    };
    match found.origin {
        ValueOrigin::Environment(name) => Ok((None, Some((name, why)))),
        _ => Err(serving::wrong(&found.origin, &format!("`telemetry.endpoint`: {why}")).hint(
            "write it like http://127.0.0.1:4318; headers stand in the variable that headers_env names",
        )),
    }
}
