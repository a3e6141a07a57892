//! `calculator`: exact decimal arithmetic.
//!
//! Sums, products and powers are exact. Division is exact where it comes out even, and otherwise
//! rounded to 40 significant digits; the answer says which. Everything is bounded before it is
//! computed: the length and depth of the expression, and the digits of every intermediate result.
//! There are no variables, no functions and no floating point.

mod number;
mod parse;

use std::sync::Arc;

use baton_core::tool::{EffectClass, Trust};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tool::{Tool, ToolError};
use crate::typed::{Structured, ToolInfo, typed};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CalculatorArguments {
    /// Like "(0.1 + 0.2) * 3". Operators: + - * / % (remainder) ^ (power, whole exponents), parentheses.
    /// Plain decimal numbers without separators, units or currency signs.
    #[schemars(length(min = 1, max = 1000))]
    expression: String,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct CalculatorResult {
    /// The value, as a plain decimal number.
    result: String,
    /// Whether it is exact; if not, it was rounded to 40 significant digits.
    exact: bool,
}

pub(crate) fn tool() -> Arc<dyn Tool> {
    let about = ToolInfo {
        name: "calculator",
        description: "Calculates arithmetic exactly: add, subtract, multiply, divide, remainder and powers of decimal \
                      numbers. Use it for any math or sum instead of working it out yourself.",
        class: EffectClass::SideEffectFree,
        timeout_ms: 5_000,
        trust: Trust::BUILT_IN,
    };
    typed(about, |arguments: CalculatorArguments, _| {
        std::future::ready(calculate(&arguments.expression).map(Structured))
    })
}

fn calculate(expression: &str) -> Result<CalculatorResult, ToolError> {
    let number = parse::evaluate(expression).map_err(|error| ToolError::invalid_call(error.to_string()))?;
    Ok(CalculatorResult { result: number.to_string(), exact: number.is_exact() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn exact_results() {
        let cases = [
            ("0.1+0.2", "0.3"),
            ("1", "1"),
            (" 1 +\t2\n* 3 ", "7"),
            ("(1+2)*3", "9"),
            ("2^10", "1024"),
            ("2^3^2", "512"),
            ("-2^2", "-4"),
            ("(-2)^2", "4"),
            ("2^-2", "0.25"),
            ("--3", "3"),
            ("+3", "3"),
            ("2*-3", "-6"),
            ("1-2-3", "-4"),
            ("8/4/2", "1"),
            ("1/8", "0.125"),
            ("7%3", "1"),
            ("-7%3", "-1"),
            ("5.5%2", "1.5"),
            ("0^0", "1"),
            ("0*-1", "0"),
            ("1.000", "1"),
            ("1000", "1000"),
            (".5+5.", "5.5"),
            ("10^30/10^29", "10"),
            ("12345678901234567890*98765432109876543210", "1219326311370217952237463801111263526900"),
            ("1^999999999", "1"),
            ("(-1)^999999999", "-1"),
            ("0^999999999", "0"),
        ];
        for (expression, result) in cases {
            assert_eq!(
                calculate(expression),
                Ok(CalculatorResult { result: result.to_owned(), exact: true }),
                "{expression}"
            );
        }
    }

    #[test]
    fn rounded_results_say_so() {
        let cases = [
            ("1/3", format!("0.{}", "3".repeat(40))),
            ("2/3", format!("0.{}7", "6".repeat(39))),
            ("-2/3", format!("-0.{}7", "6".repeat(39))),
            ("1/3*3", format!("0.{}", "9".repeat(40))),
            ("3^-1", format!("0.{}", "3".repeat(40))),
            ("100/3", format!("33.{}", "3".repeat(38))),
            ("1/3-1/3", "0".to_owned()),
            ("2*10^999/(3*10^999+1)", format!("0.{}7", "6".repeat(39))),
            ("1/(3*10^900+7)", format!("0.{}{}", "0".repeat(900), "3".repeat(40))),
        ];
        for (expression, result) in cases {
            assert_eq!(calculate(expression), Ok(CalculatorResult { result, exact: false }), "{expression}");
        }
    }

    #[test]
    fn an_expression_that_cannot_be_calculated_is_explained() {
        let deep = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
        assert_eq!(calculate(&deep(60)).unwrap().result, "1");
        let long = "1+".repeat(500) + "1";
        let (too_deep, minuses) = (deep(65), "-".repeat(900) + "1");
        let powers = "2^".repeat(400) + "1";
        let cases = [
            ("", "The expression ends too early."),
            ("1+", "The expression ends too early."),
            ("(1+2", "A `(` is not closed."),
            ("1)", "`)` at character 2 is not expected there."),
            ("()", "`)` at character 2 is not expected there."),
            ("1 2", "`2` at character 3 is not expected there."),
            ("1/0", "Division by zero."),
            ("1%0", "Division by zero."),
            ("0^-1", "Division by zero."),
            ("1/(0.1+0.2-0.3)", "Division by zero."),
            ("9^9^9", "The result would have more than 1000 digits."),
            ("9^99999999999999999999", "The result would have more than 1000 digits."),
            ("0.1^1001", "The result would have more than 1000 digits."),
            ("10^1000", "The result would have more than 1000 digits."),
            ("2^0.5", "Only whole exponents are supported."),
            (
                "1,000+1",
                "`,` at character 2 is not expected there. Write numbers like 1234.5, without separators.",
            ),
            ("1.2.3", "`1.2.3` is not a number."),
            (".", "`.` is not a number."),
            ("1e5", "`e` at character 2 is not expected there."),
            ("sqrt(2)", "`s` at character 1 is not expected there."),
            ("2+\u{0}", "`\\0` at character 3 is not expected there."),
            (&long, "The expression is longer than 1000 characters."),
            (&too_deep, "The expression is nested more than 64 levels deep."),
            (&minuses, "The expression is nested more than 64 levels deep."),
            (&powers, "The expression is nested more than 64 levels deep."),
        ];
        for (expression, message) in cases {
            assert_eq!(calculate(expression), Err(ToolError::invalid_call(message)), "{expression}");
        }
        assert_eq!(calculate("10^999").unwrap().result.len(), 1000);
    }

    proptest! {
        #[test]
        fn the_result_of_any_expression_is_bounded(expression in "[0-9.+*/%^() -]{0,60}") {
            if let Ok(answer) = calculate(&expression) {
                prop_assert!(answer.result.len() <= 1_003, "{}", answer.result.len());
            }
        }
    }
}
