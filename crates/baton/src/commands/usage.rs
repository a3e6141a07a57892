//! `baton usage`: tokens and cost by day, thread or run, from what runs have stored.
//!
//! An unknown cost is shown as unknown, never as 0.

use std::collections::BTreeMap;

use baton_core::budget::Budget;
use baton_store::{RunFilter, RunRow};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::app::App;
use crate::columns::{columns, count, moment};
use crate::failure::{Failure, exit};
use crate::shape;
use crate::terminal::{line, note};

const EXAMPLES: &str = "\
Examples:
  baton usage                  by day, the latest first
  baton usage --by thread
  baton usage --by run --json

Prices stand in baton.toml, as in [prices.\"openai/gpt-5-mini\"]; models on this machine cost nothing.";

/// The number of runs read at a time.
const PAGE: u32 = 1000;

/// The arguments of `baton usage`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UsageArgs {
    /// How the sums are grouped
    #[arg(long, value_enum, default_value_t = By::Day)]
    by: By,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// Every day, in UTC, by when a run began
    Day,
    /// Every thread
    Thread,
    /// Every run
    Run,
}

/// The usage of some runs together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Sum {
    runs: u64,
    calls: u64,
    prompt_tokens: u64,
    completion_tokens: u64,
    /// The cost of the calls whose price is known.
    cost_micro_usd: u64,
    /// The number of calls without a known price.
    unpriced: u64,
    /// The number of calls whose tokens were estimated, because their provider reported none.
    estimated: u64,
}

impl Sum {
    fn add(&mut self, budget: &Budget) {
        self.runs += 1;
        self.calls += u64::from(budget.model_calls);
        self.prompt_tokens = self.prompt_tokens.saturating_add(budget.prompt_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(budget.completion_tokens);
        self.cost_micro_usd = self.cost_micro_usd.saturating_add(budget.cost_micro_usd);
        self.unpriced += u64::from(budget.unpriced);
        self.estimated += u64::from(budget.estimated);
    }

    fn cost_in_words(&self) -> String {
        let known = self.cost_micro_usd as f64 / 1e6;
        let calls = i64::try_from(self.unpriced).unwrap_or(i64::MAX);
        match (self.unpriced, self.cost_micro_usd) {
            (0, _) => format!("{known:.6} USD"),
            (_, 0) => "not known".to_owned(),
            _ => format!("{known:.6} USD and {} of unknown price", count(calls, "call", "calls")),
        }
    }

    fn to_json(&self, name: &str, key: &str) -> Value {
        let cost = (self.unpriced == 0).then_some(self.cost_micro_usd as f64 / 1e6);
        json!({
            name: key,
            "runs": self.runs,
            "model_calls": self.calls,
            "unpriced_calls": self.unpriced,
            "estimated_calls": self.estimated,
            "tokens": self.prompt_tokens.saturating_add(self.completion_tokens),
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "cost_usd": cost,
        })
    }
}

/// Runs the command.
pub(crate) async fn run(app: &App, args: UsageArgs) -> Result<u8, Failure> {
    let sums = added_up(&every_run(app).await?, args.by);
    if app.json {
        let name = name(args.by);
        let items = sums.iter().map(|(key, sum)| sum.to_json(name, key)).collect();
        line(shape::pretty(&shape::list(items, None)))?;
        return Ok(exit::OK);
    }
    if sums.is_empty() {
        note("nothing has been used yet; baton ask \"…\" begins");
        return Ok(exit::OK);
    }
    let row = |(key, sum): &(String, Sum)| {
        [
            key.clone(),
            sum.runs.to_string(),
            sum.calls.to_string(),
            sum.prompt_tokens.to_string(),
            sum.completion_tokens.to_string(),
            sum.cost_in_words(),
        ]
    };
    let rows: Vec<_> = sums.iter().map(row).collect();
    let heading = name(args.by).to_ascii_uppercase();
    line(columns([&heading, "RUNS", "CALLS", "TOKENS READ", "TOKENS WRITTEN", "COST"], &rows))?;
    let estimated = sums.iter().map(|(_, sum)| sum.estimated).sum::<u64>();
    if estimated > 0 {
        let calls = count(i64::try_from(estimated).unwrap_or(i64::MAX), "call is", "calls are");
        note(format!("the tokens of {calls} estimated, because their providers report none"));
    }
    Ok(exit::OK)
}

fn name(by: By) -> &'static str {
    match by {
        By::Day => "day",
        By::Thread => "thread",
        By::Run => "run",
    }
}

async fn every_run(app: &App) -> Result<Vec<RunRow>, Failure> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let filter = RunFilter { after, limit: PAGE, ..RunFilter::default() };
        let page = app.store().runs(&app.tenant, &filter).await?;
        let is_last = page.len() < PAGE as usize;
        after = page.last().map(|row| row.id);
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}

/// The sums, in the order of each one's newest run; `runs` are newest first.
fn added_up(runs: &[RunRow], by: By) -> Vec<(String, Sum)> {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut sums: Vec<(String, Sum)> = Vec::new();
    for row in runs {
        let key = match by {
            By::Day => moment(row.created).split(' ').next().unwrap_or_default().to_owned(),
            By::Thread => row.thread.to_string(),
            By::Run => row.id.to_string(),
        };
        let place = *places.entry(key.clone()).or_insert_with(|| {
            sums.push((key, Sum::default()));
            sums.len() - 1
        });
        if let Some((_, sum)) = sums.get_mut(place) {
            sum.add(&row.budget);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::id::RunId;
    use baton_core::time::Timestamp;
    use uuid::Uuid;

    const DAY: i64 = 86_400_000;
    const AT: i64 = 1_767_225_600_000;

    fn row(n: u128, thread: &str, at: i64, tokens: (u64, u64), cost: u64, unpriced: u32) -> RunRow {
        let branch = "main".parse().unwrap();
        let begun =
            RunRow::begun(RunId(Uuid::from_u128(n)), &thread.parse().unwrap(), &branch, -1, Timestamp(at));
        let budget = Budget {
            prompt_tokens: tokens.0,
            completion_tokens: tokens.1,
            model_calls: 2,
            cost_micro_usd: cost,
            unpriced,
            ..Budget::default()
        };
        RunRow { budget, ..begun }
    }

    fn sum(runs: u64, tokens: (u64, u64), cost: u64, unpriced: u64) -> Sum {
        let (prompt_tokens, completion_tokens) = tokens;
        Sum {
            runs,
            calls: 2 * runs,
            prompt_tokens,
            completion_tokens,
            cost_micro_usd: cost,
            unpriced,
            estimated: 0,
        }
    }

    #[test]
    fn runs_are_added_up_by_day_thread_and_run() {
        let rows = [
            row(3, "a", AT + DAY, (10, 1), 500, 0),
            row(2, "b", AT + 5, (20, 2), 0, 1),
            row(1, "a", AT, (30, 3), 7, 0),
        ];
        let named = |sums: [(&str, Sum); 2]| sums.map(|(key, sum)| (key.to_owned(), sum)).to_vec();
        let by_day = named([("2026-01-02", sum(1, (10, 1), 500, 0)), ("2026-01-01", sum(2, (50, 5), 7, 1))]);
        assert_eq!(added_up(&rows, By::Day), by_day);
        let by_thread = named([("a", sum(2, (40, 4), 507, 0)), ("b", sum(1, (20, 2), 0, 1))]);
        assert_eq!(added_up(&rows, By::Thread), by_thread);
        let by_run: Vec<String> = added_up(&rows, By::Run).into_iter().map(|(key, _)| key).collect();
        assert_eq!(by_run, rows.map(|row| row.id.to_string()));
        assert_eq!(added_up(&[], By::Day), []);
    }

    #[test]
    fn an_unknown_cost_is_never_zero() {
        assert_eq!(sum(1, (1, 1), 0, 0).cost_in_words(), "0.000000 USD");
        assert_eq!(sum(1, (1, 1), 0, 2).cost_in_words(), "not known");
        assert_eq!(sum(1, (1, 1), 1500, 1).cost_in_words(), "0.001500 USD and 1 call of unknown price");
        assert_eq!(sum(1, (1, 1), 1500, 1).to_json("day", "d")["cost_usd"], Value::Null);
        let expected = json!({
            "day": "d", "runs": 1, "model_calls": 2, "unpriced_calls": 0, "estimated_calls": 0, "tokens": 5,
            "prompt_tokens": 3, "completion_tokens": 2, "cost_usd": 0.0015,
        });
        assert_eq!(sum(1, (3, 2), 1500, 0).to_json("day", "d"), expected);
    }
}
