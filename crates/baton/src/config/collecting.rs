//! Who is sent the spans of runs.

use super::{Origin, Settled, Value, serving};
use crate::failure::Failure;
use crate::telemetry::Collector;

/// The collector, or the variable that names one which cannot be used, and why not.
pub(super) type Collecting = (Option<Collector>, Option<(&'static str, &'static str)>);

/// A variable may be meant for other programs, which speak more than we do, so an address there that cannot be used
/// is no reason to refuse a command.
pub(super) fn collector(settled: &Settled) -> Result<Collecting, Failure> {
    let Some(found) = settled.get("telemetry.endpoint") else { return Ok((None, None)) };
    let Some(base) = found.value.as_ref().and_then(Value::as_text) else { return Ok((None, None)) };
    let (headers, service) = (settled.text("telemetry.headers_env"), settled.text("telemetry.service_name"));
    let why = match Collector::at(base, headers, service) {
        Ok(collector) => return Ok((Some(collector), None)),
        Err(error) => serving::unusable(&error),
    };
    match found.origin {
        Origin::Environment(name) => Ok((None, Some((name, why)))),
        _ => Err(serving::wrong(&found.origin, &format!("`telemetry.endpoint`: {why}")).hint(
            "write it like http://127.0.0.1:4318; headers stand in the variable that headers_env names",
        )),
    }
}
