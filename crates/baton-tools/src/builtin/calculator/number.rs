//! Decimal numbers that record whether they are exact, with operations whose results are bounded.

use std::fmt;

use bigdecimal::num_bigint::BigInt;
use bigdecimal::num_traits::{Pow, Signed, ToPrimitive, Zero};
use bigdecimal::{BigDecimal, RoundingMode};

use super::parse::CalculationError;

/// The digits that a rounded quotient keeps.
const QUOTIENT_DIGITS: u64 = 40;
/// The most digits that any result has, before and after the point together.
pub(super) const MAX_DIGITS: u64 = 1_000;
/// Twice the bits of `MAX_DIGITS` digits: a base of few bits overestimates its power by up to that.
const MAX_POWER_BITS: u64 = 8_192;

/// A decimal number, exact or rounded.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Decimal {
    value: BigDecimal,
    exact: bool,
}

impl Decimal {
    /// Reads digits with at most one point.
    pub(super) fn read(text: &str) -> Result<Decimal, CalculationError> {
        let not_a_number = || CalculationError::NotANumber(text.to_owned());
        // bigdecimal also reads signs, exponents and underscores.
        if !text.bytes().any(|byte| byte.is_ascii_digit()) {
            return Err(not_a_number());
        }
        Decimal::bounded(text.parse().map_err(|_| not_a_number())?, true)
    }

    pub(super) fn is_exact(&self) -> bool {
        self.exact
    }

    pub(super) fn negated(self) -> Decimal {
        Decimal { value: -self.value, ..self }
    }

    pub(super) fn plus(self, other: Decimal) -> Result<Decimal, CalculationError> {
        Decimal::bounded(self.value + other.value, self.exact && other.exact)
    }

    pub(super) fn minus(self, other: Decimal) -> Result<Decimal, CalculationError> {
        self.plus(other.negated())
    }

    pub(super) fn times(self, other: Decimal) -> Result<Decimal, CalculationError> {
        Decimal::bounded(self.value * other.value, self.exact && other.exact)
    }

    /// The remainder of whole division; it has the sign of the dividend.
    pub(super) fn remainder(self, other: Decimal) -> Result<Decimal, CalculationError> {
        if other.value.is_zero() {
            return Err(CalculationError::DivisionByZero);
        }
        Decimal::bounded(self.value % other.value, self.exact && other.exact)
    }

    pub(super) fn divided_by(self, other: Decimal) -> Result<Decimal, CalculationError> {
        if other.value.is_zero() {
            return Err(CalculationError::DivisionByZero);
        }
        let inputs_exact = self.exact && other.exact;
        let (dividend, dividend_scale) = self.value.into_bigint_and_scale();
        let (divisor, divisor_scale) = other.value.into_bigint_and_scale();
        // Enough zeros behind the dividend for one digit more than is kept. A bit is 0.30103 digits: the
        // divisor's are counted too high and the dividend's too low.
        let zeros =
            (QUOTIENT_DIGITS + 3 + divisor.bits() * 31 / 100).saturating_sub(dividend.bits() * 3 / 10);
        let dividend = dividend * BigInt::from(10).pow(zeros);
        let (quotient, rest) = (&dividend / &divisor, &dividend % &divisor);
        let scale = zeros as i64 + dividend_scale - divisor_scale;
        if rest.is_zero() {
            return Decimal::bounded(BigDecimal::new(quotient, scale), inputs_exact);
        }
        // A last digit that stands for "and a bit more", so that rounding never sees a false tie.
        let bit_more = if dividend.is_negative() == divisor.is_negative() { 1 } else { -1 };
        let sticky = BigDecimal::new(quotient * 10 + bit_more, scale + 1);
        let scale = sticky.fractional_digit_count() - (sticky.digits() as i64 - QUOTIENT_DIGITS as i64);
        Decimal::bounded(sticky.with_scale_round(scale, RoundingMode::HalfEven), false)
    }

    /// A whole power; a negative one is a division.
    pub(super) fn raised_to(self, exponent: Decimal) -> Result<Decimal, CalculationError> {
        if !exponent.value.is_integer() {
            return Err(CalculationError::FractionalExponent);
        }
        let exact = self.exact && exponent.exact;
        let times = exponent.value.abs();
        let (base, scale) = self.value.into_bigint_and_scale();
        let odd = !(&times % BigDecimal::from(2)).is_zero();
        let power = if scale == 0 && base.bits() <= 1 {
            // 0, 1 and -1 have every power.
            let power = if times.is_zero() || (base.is_negative() && !odd) { BigInt::from(1) } else { base };
            Decimal { value: BigDecimal::new(power, 0), exact }
        } else {
            let times = times.to_u64().ok_or(CalculationError::TooManyDigits)?;
            let within =
                |size: u64, limit: u64| size.checked_mul(times).is_some_and(|product| product <= limit);
            if !within(base.bits(), MAX_POWER_BITS) || !within(scale.unsigned_abs(), MAX_DIGITS) {
                return Err(CalculationError::TooManyDigits);
            }
            Decimal::bounded(BigDecimal::new(base.pow(times), scale * times as i64), exact)?
        };
        let one = Decimal { value: BigDecimal::from(1), exact: true };
        if exponent.value.is_negative() { one.divided_by(power) } else { Ok(power) }
    }

    /// Every number passes here, so that no operation has a large operand.
    fn bounded(value: BigDecimal, exact: bool) -> Result<Decimal, CalculationError> {
        let value = value.normalized();
        let scale = value.fractional_digit_count();
        let before_point = (value.digits() as i64 - scale).max(0);
        if (before_point + scale.max(0)) as u64 > MAX_DIGITS {
            return Err(CalculationError::TooManyDigits);
        }
        Ok(Decimal { value, exact })
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.value.to_plain_string())
    }
}
