//! One JSON object per line: `ts`, `level`, `target`, `msg`, then the other fields, under names that never change.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};

use baton_engine::{Clock, SystemClock};
use serde::Serialize;
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// What most lines need, in bytes.
const USUAL: usize = 512;

/// See the module.
pub(super) struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = LogFields::default();
        event.record(&mut fields);
        let about = event.metadata();
        let mut line = Vec::with_capacity(USUAL);
        let ts = SystemClock.now();
        member(&mut line, "{", "ts", &ts);
        member(&mut line, ",", "level", about.level().as_str());
        member(&mut line, ",", "target", about.target());
        member(&mut line, ",", "msg", &fields.message);
        for (name, value) in fields.others {
            member(&mut line, ",", name, &value);
        }
        line.extend_from_slice(b"}\n");
        writer.write_str(str::from_utf8(&line).map_err(|_| fmt::Error)?)
    }
}

/// Writes a name and its value.
fn member(line: &mut Vec<u8>, before: &str, name: &str, value: &(impl Serialize + ?Sized)) {
    line.extend_from_slice(before.as_bytes());
    // The fields of an event are texts, numbers and booleans, which can always be written.
    let _ = serde_json::to_writer(&mut *line, name);
    line.push(b':');
    let _ = serde_json::to_writer(line, value);
}

/// The fields of one event.
#[derive(Default)]
struct LogFields {
    message: String,
    others: BTreeMap<&'static str, Value>,
}

impl LogFields {
    fn put(&mut self, field: &Field, value: Value) {
        let name = match field.name() {
            "run" => "run_id",
            "thread" => "thread_id",
            "correlation" => "correlation_id",
            "trace" => "trace_id",
            // These names are written first, and only once.
            "ts" | "level" | "target" | "msg" => return,
            other => other,
        };
        self.others.insert(name, value);
    }
}

impl Visit for LogFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            _ => self.put(field, format!("{value:?}").into()),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = value.to_owned(),
            _ => self.put(field, value.into()),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use serde_json::json;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_is_one_object_whatever_is_said() {
        let writer = Kept::default().0;
        let into = Kept(writer.clone());
        let layer =
            tracing_subscriber::fmt::layer().event_format(JsonLines).with_writer(move || into.clone());
        let run = "0198-7";
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!(run, ms = 12_u64, ok = true, "two\nlines \u{1b}[31m and \"quotes\"");
            tracing::warn!(error = %"broken\r\n", level = "loud");
        });
        let text = String::from_utf8(writer.lock().unwrap().clone()).unwrap();
        let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for line in &mut lines {
            assert!(line.as_object_mut().unwrap().remove("ts").is_some());
        }
        let target = "baton::log::json::tests";
        let expected = vec![
            json!({"level": "INFO", "target": target, "msg": "two\nlines \u{1b}[31m and \"quotes\"",
                   "run_id": run, "ms": 12, "ok": true}),
            json!({"level": "WARN", "target": target, "msg": "", "error": "broken\r\n"}),
        ];
        assert_eq!(lines, expected);
        assert!(!text.contains('\u{1b}'));
    }
}
