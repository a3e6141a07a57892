//! `baton models test`: asks models and reports how they answer.

use std::time::Duration;

use baton_core::fault::Fault;
use baton_model::{ModelProbe, ProbeFinding};
use serde_json::{Value, json};

use crate::columns::columns;
use crate::failure::{Failure, exit};
use crate::models::Models;
use crate::shape;
use crate::terminal::{brief, line, note, plain, turning};

/// The most characters of a failure that are shown.
const BRIEF: usize = 400;

/// Runs the command.
pub(super) async fn run(models: &Models, names: Vec<String>, json: bool) -> Result<u8, Failure> {
    for name in &names {
        models.serving().known(name).map_err(|why| Failure::usage(why).hint(models.serving().there_are()))?;
    }
    let names = if names.is_empty() { everybody(models, json).await? } else { names };
    let mut probes = Vec::new();
    for name in &names {
        // One after the other: two models on one machine would only slow each other down.
        let turning = turning(format!("asking {}", plain(name)));
        probes.push(models.probe(name).await?);
        if let Some(turning) = turning {
            turning.finish_and_clear();
        }
    }
    let all_answer = probes.iter().all(|probe| probe.answer.is_ok());
    if json {
        let tried: Vec<Value> = probes.iter().map(object).collect();
        line(shape::pretty(&json!({"ok": all_answer, "models": tried})))?;
    } else {
        line(plain(&text(&probes)))?;
    }
    Ok(if all_answer { exit::OK } else { exit::FAILED })
}

/// All models that may be asked. Which ones, and why, is printed in the text output.
async fn everybody(models: &Models, json: bool) -> Result<Vec<String>, Failure> {
    let chosen = models.intended().await?;
    if !json {
        note(plain(&super::in_one_line(&chosen)));
    }
    Ok(chosen.everybody())
}

fn text(probes: &[ModelProbe]) -> String {
    let heading =
        ["MODEL", "ANSWERS", "FIRST BYTE", "IN ALL", "STREAMED", "TOOLS", "STRUCTURED", "READ", "WRITTEN"];
    let rows: Vec<_> = probes.iter().map(row).collect();
    let told = probes.iter().flat_map(|probe| {
        problems(probe).into_iter().map(|(what, code, why)| {
            let code = code.map(|code| format!(" ({code})")).unwrap_or_default();
            format!("{}, {what}{code}: {why}", probe.model)
        })
    });
    let told: Vec<String> = told.collect();
    match told.as_slice() {
        [] => columns(heading, &rows),
        some => format!("{}\n\n{}", columns(heading, &rows), some.join("\n")),
    }
}

fn row(probe: &ModelProbe) -> [String; 9] {
    let nothing = || "-".to_owned();
    let [tools, structured] = [&probe.tools, &probe.structured].map(|finding| match found(finding) {
        Some(able) => yes(able),
        None => nothing(),
    });
    let model = probe.model.clone();
    match &probe.answer {
        Ok(answer) => [
            model,
            yes(true),
            in_words(answer.first),
            in_words(answer.total),
            yes(answer.pieces > 1),
            tools,
            structured,
            answer.usage.prompt_tokens.to_string(),
            answer.usage.completion_tokens.to_string(),
        ],
        Err(_) => {
            let mut cells = std::array::from_fn(|_| nothing());
            (cells[0], cells[1]) = (model, yes(false));
            cells
        }
    }
}

/// The problems of a probe: the part, the code if a call failed, and the reason.
fn problems(probe: &ModelProbe) -> Vec<(&'static str, Option<&'static str>, String)> {
    let failed = |fault: &Fault| (Some(fault.code.as_str()), brief(&fault.message, BRIEF));
    let of = |finding: &ProbeFinding| match finding {
        ProbeFinding::Yes | ProbeFinding::NotAsked => None,
        ProbeFinding::No(why) => Some((None, brief(why, BRIEF))),
        ProbeFinding::Failed(fault) => Some(failed(fault)),
    };
    let found = [
        ("answer", probe.answer.as_ref().err().map(failed)),
        ("tools", of(&probe.tools)),
        ("structured", of(&probe.structured)),
    ];
    found.into_iter().filter_map(|(what, told)| told.map(|(code, why)| (what, code, why))).collect()
}

fn object(probe: &ModelProbe) -> Value {
    let answer = probe.answer.as_ref().ok();
    let usage = answer.map(|answer| {
        let cost = answer.usage.cost_micro_usd.map(|cost| cost as f64 / 1e6);
        let (read, written) = (answer.usage.prompt_tokens, answer.usage.completion_tokens);
        json!({"prompt_tokens": read, "completion_tokens": written, "cost_usd": cost})
    });
    let problem =
        |(what, code, why): (&str, Option<&str>, String)| json!({"what": what, "code": code, "message": why});
    json!({
        "model": probe.model,
        "api": (!probe.wire.is_empty()).then_some(probe.wire),
        "local": probe.is_local,
        "answers": answer.is_some(),
        "first_ms": answer.map(|answer| millis(answer.first)),
        "total_ms": answer.map(|answer| millis(answer.total)),
        "streamed": answer.map(|answer| answer.pieces > 1),
        "tools": found(&probe.tools),
        "structured": found(&probe.structured),
        "usage": usage,
        "problems": problems(probe).into_iter().map(problem).collect::<Vec<_>>(),
    })
}

/// Whether the model has the ability, if that is known.
fn found(finding: &ProbeFinding) -> Option<bool> {
    match finding {
        ProbeFinding::Yes => Some(true),
        ProbeFinding::No(_) => Some(false),
        ProbeFinding::Failed(_) | ProbeFinding::NotAsked => None,
    }
}

fn yes(it: bool) -> String {
    if it { "yes" } else { "no" }.to_owned()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn in_words(time: Duration) -> String {
    match millis(time) {
        ms @ 0..1000 => format!("{ms} ms"),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::chat::TokenUsage;
    use baton_core::fault::Code;
    use baton_model::ProbeAnswer;

    fn well() -> ModelProbe {
        let usage =
            TokenUsage { prompt_tokens: 12, completion_tokens: 9, cost_micro_usd: Some(0), estimated: false };
        let (first, total) = (Duration::from_millis(80), Duration::from_millis(1234));
        ModelProbe {
            model: "ollama/x".to_owned(),
            wire: "ollama",
            is_local: true,
            answer: Ok(ProbeAnswer { first, total, pieces: 5, usage }),
            tools: ProbeFinding::Yes,
            structured: ProbeFinding::No("it wrote prose".to_owned()),
        }
    }

    fn badly() -> ModelProbe {
        ModelProbe {
            model: "lab/y".to_owned(),
            wire: "",
            is_local: false,
            answer: Err(Fault::new(Code::LlmAuth, "no\u{1b} key")),
            tools: ProbeFinding::NotAsked,
            structured: ProbeFinding::NotAsked,
        }
    }

    #[test]
    fn a_table_and_below_it_what_did_not_go_well() {
        let expected = "\
MODEL     ANSWERS  FIRST BYTE  IN ALL  STREAMED  TOOLS  STRUCTURED  READ  WRITTEN
ollama/x  yes      80 ms       1.2 s   yes       yes    no          12    9
lab/y     no       -           -       -         -      -           -     -

ollama/x, structured: it wrote prose
lab/y, answer (llm_auth): no\u{fffd} key";
        assert_eq!(text(&[well(), badly()]), expected);
    }

    #[test]
    fn json_says_the_same() {
        let expected = json!({
            "model": "ollama/x", "api": "ollama", "local": true, "answers": true, "first_ms": 80, "total_ms": 1234,
            "streamed": true, "tools": true, "structured": false,
            "usage": {"prompt_tokens": 12, "completion_tokens": 9, "cost_usd": 0.0},
            "problems": [{"what": "structured", "code": null, "message": "it wrote prose"}],
        });
        assert_eq!(object(&well()), expected);
        let expected = json!({
            "model": "lab/y", "api": null, "local": false, "answers": false, "first_ms": null, "total_ms": null,
            "streamed": null, "tools": null, "structured": null, "usage": null,
            "problems": [{"what": "answer", "code": "llm_auth", "message": "no\u{fffd} key"}],
        });
        assert_eq!(object(&badly()), expected);
    }
}
