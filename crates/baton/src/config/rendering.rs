//! The rendering of threads for models, from the settings.

use baton_core::render::{RenderPolicy, Rendering};

use super::ResolvedConfig;
use crate::failure::Failure;

pub(super) fn rendering(resolved: &ResolvedConfig) -> Result<Rendering, Failure> {
    let policy = match resolved.text("render.policy").as_str() {
        "full" => RenderPolicy::Full,
        "summary" => RenderPolicy::Summary,
        "last_n" if resolved.whole("last_n").is_none() => {
            let origin = resolved.get("render.policy").map(|found| found.origin.to_string());
            return Err(Failure::usage(format!(
                "`render.policy` ({}) is \"last_n\", and `last_n` is not set",
                origin.unwrap_or_default()
            ))
            .hint("add a line like last_n = 40 at the top of the file"));
        }
        "last_n" => RenderPolicy::Full,
        _ => RenderPolicy::TokenBudget,
    };
    Ok(Rendering { policy, exclude: resolved.names("render.exclude"), then: Vec::new() })
}
