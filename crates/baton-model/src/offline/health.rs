//! The result of `system_health` as text: a verdict as the headline, its numbers, and advice on problems.
//!
//! It accepts several names for each number (`memory.used_bytes`, `mem_used_percent`, …) and shows unknown fields
//! as they are, so that a change of the tool costs it a sentence and never the answer.

use serde_json::{Map, Value};

use super::clues::split_words;
use super::markdown::{bytes, duration, inline, percent};
use super::outline::outline;

/// How many processes and sensors are named.
const SHOWN: usize = 3;
/// Advice where memory or swap runs out.
const MEMORY_ADVICE: &str = "Close programs that take much memory and are not needed now.";

/// How full something is.
#[derive(Debug, Clone, Copy, PartialEq)]
struct UsageShare {
    used: f64,
    /// In bytes, where they are known.
    of: Option<(f64, f64)>,
}

/// Renders a result, if anything in it is known.
pub(super) fn health(value: &Value) -> Option<String> {
    let map = value.as_object()?;
    let mut report = HealthReport::default();
    let mut rest = Map::new();
    for (name, child) in map {
        let empty = child.is_null() || child.as_array().is_some_and(Vec::is_empty);
        if !empty && !report.read(name, child) {
            rest.insert(name.clone(), child.clone());
        }
    }
    if report.lines.is_empty() {
        return None;
    }
    report.lines.sort_by_key(|(place, _)| *place);
    let lines: Vec<&str> = report.lines.iter().map(|(_, line)| line.as_str()).collect();
    let mut text = format!("**{}**\n\n{}", report.headline(), lines.join("\n"));
    if !rest.is_empty() {
        text.push('\n');
        text.push_str(&outline(&Value::Object(rest)));
    }
    if !report.advice.is_empty() {
        text.push_str("\n\n**Advice**\n");
        report.advice.iter().for_each(|advice| text.push_str(&format!("\n- {advice}")));
    }
    Some(text)
}

/// The lines of the report in their order, which does not depend on the order of the fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum HealthLine {
    Cpu,
    Load,
    Memory,
    Swap,
    Disk,
    Heat,
    Uptime,
    Busy,
}

#[derive(Default)]
struct HealthReport {
    lines: Vec<(HealthLine, String)>,
    worries: Vec<String>,
    /// One line for each kind of worry.
    advice: Vec<String>,
    fine: Vec<&'static str>,
}

impl HealthReport {
    /// Takes a field that it knows; false: it does not know it.
    fn read(&mut self, name: &str, value: &Value) -> bool {
        let words: Vec<String> = split_words(name).collect();
        let about = |names: &[&str]| words.iter().any(|word| names.contains(&word.as_str()));
        match () {
            () if about(&["busiest", "processe"]) => self.busiest(about(&["memory"]), value),
            () if about(&["cpu", "processor"]) => self.cpu(value),
            () if about(&["load"]) => self.load(value),
            () if about(&["memory", "mem", "ram"]) => self.memory(value),
            () if about(&["swap"]) => self.swap(value),
            () if about(&["temperature"]) => self.heat(value),
            () if about(&["disk", "filesystem", "volume"]) => self.disks(value),
            () if about(&["uptime"]) => self.uptime(value),
            () => false,
        }
    }

    fn headline(&self) -> String {
        if !self.worries.is_empty() {
            return sentence(&self.worries.join("; "));
        }
        match self.fine[..] {
            [] => "Here is what the machine says of itself.".to_owned(),
            [one] => sentence(&format!("nothing looks wrong: {one} has room")),
            [ref most @ .., last] => {
                sentence(&format!("nothing looks wrong: {} and {last} have room", most.join(", ")))
            }
        }
    }

    fn worry(&mut self, worry: String, advice: String) {
        self.worries.push(worry);
        if !self.advice.contains(&advice) {
            self.advice.push(advice);
        }
    }

    /// Judges how full something is; `advice` is given from the first threshold on.
    fn judge(&mut self, what: &str, fine: &'static str, share: (f64, [f64; 2]), advice: &str) {
        let (used, [some, much]) = share;
        if used >= much {
            self.worry(format!("{what} is nearly full ({} used)", percent(used)), advice.to_owned());
        } else if used >= some {
            self.worry(format!("{what} is filling up ({} used)", percent(used)), advice.to_owned());
        } else if !self.fine.contains(&fine) {
            self.fine.push(fine);
        }
    }

    fn cpu(&mut self, value: &Value) -> bool {
        let used = value.as_f64().or_else(|| find(value, &["usage", "used", "percent", "busy"], &["idle"]));
        let Some(used) = used.filter(|used| (0.0..=100.0).contains(used)) else { return false };
        let cores =
            find(value, &["core", "count"], &[]).map(|n| format!(" of {n:.0} cores")).unwrap_or_default();
        let model = value.get("model").or_else(|| value.get("brand")).and_then(Value::as_str);
        let model = model.map(|model| format!(" ({})", inline(model))).unwrap_or_default();
        self.line(HealthLine::Cpu, "Processor", format!("{} busy{cores}{model}", percent(used)));
        if used >= 85.0 {
            let advice = "Look at the busiest programs: end those that should not be running.";
            self.worry(format!("the processor is very busy ({})", percent(used)), advice.to_owned());
        } else {
            self.fine.push("the processor");
        }
        true
    }

    fn load(&mut self, value: &Value) -> bool {
        let span = |name: &str| find(value, &[name], &[]);
        let (Some(one), Some(five), Some(fifteen)) = (span("one"), span("five"), span("fifteen")) else {
            return false;
        };
        let text = format!("{one:.2}, {five:.2}, {fifteen:.2} over 1, 5 and 15 minutes");
        self.line(HealthLine::Load, "Load", text);
        true
    }

    fn memory(&mut self, value: &Value) -> bool {
        let Some(share) = share(value) else { return false };
        self.line(HealthLine::Memory, "Memory", shown(share));
        self.judge("memory", "memory", (share.used, [75.0, 90.0]), MEMORY_ADVICE);
        true
    }

    fn swap(&mut self, value: &Value) -> bool {
        let none = find(value, &["total"], &[]) == Some(0.0);
        if none {
            self.line(HealthLine::Swap, "Swap", "none".to_owned());
            return true;
        }
        let Some(share) = share(value) else { return false };
        self.line(HealthLine::Swap, "Swap", shown(share));
        // Swap in use is ordinary; only a full one says that memory has run out.
        if share.used >= 80.0 {
            self.worry(
                format!("swap is nearly full ({} used)", percent(share.used)),
                MEMORY_ADVICE.to_owned(),
            );
        }
        true
    }

    fn disks(&mut self, value: &Value) -> bool {
        let list = match value {
            Value::Array(list) => list.as_slice(),
            one => std::slice::from_ref(one),
        };
        // Systems list things as disks that have no room at all.
        let real = list.iter().filter(|disk| find(disk, &["total"], &["percent"]) != Some(0.0));
        let disks: Option<Vec<(String, UsageShare)>> =
            real.map(|disk| Some((disk_name(disk), share(disk)?))).collect();
        let Some(disks) = disks else { return false };
        for (name, share) in disks.into_iter().take(12) {
            let label = if name.is_empty() { "Disk".to_owned() } else { format!("Disk {name}") };
            self.line(HealthLine::Disk, &label, shown(share));
            let disk = label.replacen("Disk", "disk", 1);
            let advice =
                format!("Make room on {disk}: downloads, caches and old logs are often the largest.");
            self.judge(&disk, "the disk", (share.used, [80.0, 90.0]), &advice);
        }
        true
    }

    fn uptime(&mut self, value: &Value) -> bool {
        let Some(seconds) = value.as_f64() else { return false };
        self.line(HealthLine::Uptime, "Up for", duration(seconds));
        true
    }

    fn heat(&mut self, value: &Value) -> bool {
        let Some(sensors) = value.as_array() else { return false };
        let read = |sensor: &Value| Some((inline(sensor["sensor"].as_str()?), sensor["celsius"].as_f64()?));
        let Some(read) = sensors.iter().map(read).collect::<Option<Vec<_>>>() else { return false };
        for (sensor, (name, celsius)) in sensors.iter().zip(&read) {
            if sensor["critical_celsius"].as_f64().is_some_and(|critical| *celsius >= critical) {
                let advice = "Let the machine cool down: free its vents and end heavy work.";
                self.worry(format!("{name} is too hot ({celsius:.0} °C)"), advice.to_owned());
            }
        }
        let shown = read.iter().take(SHOWN).map(|(name, celsius)| format!("{name} {celsius:.0} °C"));
        let shown = shown.collect::<Vec<_>>().join(", ");
        self.line(HealthLine::Heat, "Temperature", shown);
        true
    }

    fn busiest(&mut self, by_memory: bool, value: &Value) -> bool {
        let Some(list) = value.as_array() else { return false };
        let one = |process: &Value| {
            let name = inline(process["name"].as_str()?);
            let measure = if by_memory {
                bytes(process["memory_bytes"].as_f64()?)
            } else {
                percent(process["cpu_percent"].as_f64()?)
            };
            Some(format!("{name} ({measure})"))
        };
        let Some(shown) = list.iter().take(SHOWN).map(one).collect::<Option<Vec<_>>>() else { return false };
        let title = if by_memory { "Most memory" } else { "Busiest" };
        self.line(HealthLine::Busy, title, shown.join(", "));
        true
    }

    fn line(&mut self, place: HealthLine, title: &str, text: String) {
        self.lines.push((place, format!("- **{title}**: {text}")));
    }
}

fn shown(share: UsageShare) -> String {
    match share.of {
        Some((used, total)) => format!("{} of {} used ({})", bytes(used), bytes(total), percent(share.used)),
        None => format!("{} used", percent(share.used)),
    }
}

fn disk_name(disk: &Value) -> String {
    let name =
        ["mount", "mount_point", "mounted_on", "path", "name"].iter().find_map(|key| disk[*key].as_str());
    name.map(inline).unwrap_or_default()
}

/// The used share, from the total with the used or free part, or from a percentage.
fn share(value: &Value) -> Option<UsageShare> {
    let total = find(value, &["total", "size", "capacity"], &["percent"]).filter(|total| *total > 0.0);
    let used = find(value, &["used"], &["percent"]);
    let left = find(value, &["available", "free"], &["percent"]);
    let sized = total.and_then(|total| Some((used.or_else(|| left.map(|left| total - left))?, total)));
    let told = find(value, &["percent"], &["available", "free"]).or_else(|| value.as_f64());
    let used = sized.map(|(used, total)| used / total * 100.0).or(told)?;
    (0.0..=100.0).contains(&used).then_some(UsageShare { used, of: sized })
}

/// The first number of an object whose name has one of the words and none of the others.
fn find(value: &Value, wanted: &[&str], unwanted: &[&str]) -> Option<f64> {
    let map = value.as_object()?;
    let with = |wanted: &str| {
        map.iter().find_map(|(name, value)| {
            let words: Vec<String> = split_words(name).collect();
            let has = |word: &str| words.iter().any(|own| own == word);
            let fits = has(wanted) && !unwanted.iter().any(|word| has(word));
            value.as_f64().filter(|_| fits)
        })
    };
    wanted.iter().find_map(|word| with(word))
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), letters.as_str()),
        None => String::new(),
    }
}
