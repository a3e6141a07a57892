//! Reading an expression and evaluating it on the way.
//!
//! ```text
//! sum     = product (("+" | "-") product)*
//! product = signed (("*" | "/" | "%") signed)*
//! signed  = ("+" | "-") signed | power
//! power   = atom ("^" signed)?            right to left: 2^3^2 is 2^9, and -2^2 is -4
//! atom    = number | "(" sum ")"
//! ```

use super::number::{Decimal, MAX_DIGITS};

const MAX_CHARACTERS: usize = 1_000;
const MAX_DEPTH: usize = 64;

/// Why there is no result.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CalculationError {
    #[error("The expression is longer than {MAX_CHARACTERS} characters.")]
    TooLong,
    #[error("The expression is nested more than {MAX_DEPTH} levels deep.")]
    TooDeep,
    #[error("The expression ends too early.")]
    EndsEarly,
    #[error("A `(` is not closed.")]
    Unclosed,
    #[error("`{}` at character {position} is not expected there.{}", found.escape_debug(), hint(*found))]
    Unexpected { found: char, position: usize },
    #[error("`{0}` is not a number.")]
    NotANumber(String),
    #[error("Division by zero.")]
    DivisionByZero,
    #[error("Only whole exponents are supported.")]
    FractionalExponent,
    #[error("The result would have more than {MAX_DIGITS} digits.")]
    TooManyDigits,
}

fn hint(found: char) -> &'static str {
    match found {
        ',' | '_' | '\'' => " Write numbers like 1234.5, without separators.",
        _ => "",
    }
}

/// The value of an expression.
pub(super) fn evaluate(expression: &str) -> Result<Decimal, CalculationError> {
    let characters: Vec<char> = expression.chars().take(MAX_CHARACTERS + 1).collect();
    if characters.len() > MAX_CHARACTERS {
        return Err(CalculationError::TooLong);
    }
    let mut parser = Parser { characters, at: 0, depth: 0 };
    let value = parser.sum()?;
    match parser.peek() {
        None => Ok(value),
        Some(_) => Err(parser.unexpected()),
    }
}

struct Parser {
    characters: Vec<char>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn sum(&mut self) -> Result<Decimal, CalculationError> {
        let mut value = self.product()?;
        while let Some(operator) = self.take(&['+', '-']) {
            let other = self.product()?;
            value = if operator == '+' { value.plus(other)? } else { value.minus(other)? };
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<Decimal, CalculationError> {
        let mut value = self.signed()?;
        while let Some(operator) = self.take(&['*', '/', '%']) {
            let other = self.signed()?;
            value = match operator {
                '*' => value.times(other)?,
                '/' => value.divided_by(other)?,
                _ => value.remainder(other)?,
            };
        }
        Ok(value)
    }

    /// Every way to nest leads through here, so the depth is counted here alone.
    fn signed(&mut self) -> Result<Decimal, CalculationError> {
        if self.depth > MAX_DEPTH {
            return Err(CalculationError::TooDeep);
        }
        self.depth += 1;
        let value = match self.take(&['+', '-']) {
            Some('-') => self.signed()?.negated(),
            Some(_) => self.signed()?,
            None => self.power()?,
        };
        self.depth -= 1;
        Ok(value)
    }

    fn power(&mut self) -> Result<Decimal, CalculationError> {
        let base = self.atom()?;
        match self.take(&['^']) {
            Some(_) => base.raised_to(self.signed()?),
            None => Ok(base),
        }
    }

    fn atom(&mut self) -> Result<Decimal, CalculationError> {
        match self.peek() {
            None => Err(CalculationError::EndsEarly),
            Some('(') => {
                self.at += 1;
                let value = self.sum()?;
                match self.peek() {
                    Some(')') => self.at += 1,
                    Some(_) => return Err(self.unexpected()),
                    None => return Err(CalculationError::Unclosed),
                }
                Ok(value)
            }
            Some('0'..='9' | '.') => {
                let rest = &self.characters[self.at..];
                let text: String = rest.iter().take_while(|c| c.is_ascii_digit() || **c == '.').collect();
                self.at += text.len();
                Decimal::read(&text)
            }
            Some(_) => Err(self.unexpected()),
        }
    }

    /// The next character that is not white space.
    fn peek(&mut self) -> Option<char> {
        while self.characters.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
        self.characters.get(self.at).copied()
    }

    fn take(&mut self, wanted: &[char]) -> Option<char> {
        let next = self.peek().filter(|next| wanted.contains(next))?;
        self.at += 1;
        Some(next)
    }

    fn unexpected(&mut self) -> CalculationError {
        match self.peek() {
            Some(found) => CalculationError::Unexpected { found, position: self.at + 1 },
            None => CalculationError::EndsEarly,
        }
    }
}
