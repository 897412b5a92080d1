//! The quantities that can be followed over a collection.

use crate::entry::Curve;
use landau_report::history::Kind;
use landau_report::quantity::{Unit, count};
use landau_stats::Estimate;
use std::str::FromStr;

/// A quantity of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Quantity {
    /// The cost at an n; without an n, at the largest one that most records reach.
    Cost {
        /// The n.
        n: Option<f64>,
    },
    /// The cost at the largest judged n over that at the smallest.
    Growth,
    /// The exponent of the growth over the last decade of n.
    Exponent,
    /// The fixed cost of the law.
    Fixed,
    /// The slope of the law: the cost per unit of its function.
    Slope,
    /// The growth of the 99th percentile.
    P99,
    /// The n of the first cliff.
    Cliff,
    /// The n at which calls fail.
    Limit,
}

/// Returned for a text that is not the name of a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown quantity `{0}`; use cost, cost@N, growth, exponent, fixed, slope, p99, cliff or limit")]
pub struct UnknownQuantity(String);

impl FromStr for Quantity {
    type Err = UnknownQuantity;

    fn from_str(text: &str) -> Result<Self, UnknownQuantity> {
        let unknown = || UnknownQuantity(text.to_owned());
        if let Some(n) = text.strip_prefix("cost@") {
            let n: f64 = n.replace([',', '_'], "").parse().map_err(|_| unknown())?;
            return if n >= 1.0 && n.is_finite() { Ok(Self::Cost { n: Some(n) }) } else { Err(unknown()) };
        }
        match text {
            "cost" => Ok(Self::Cost { n: None }),
            "growth" => Ok(Self::Growth),
            "exponent" => Ok(Self::Exponent),
            "fixed" => Ok(Self::Fixed),
            "slope" => Ok(Self::Slope),
            "p99" => Ok(Self::P99),
            "cliff" => Ok(Self::Cliff),
            "limit" => Ok(Self::Limit),
            _ => Err(unknown()),
        }
    }
}

impl Quantity {
    /// Returns the quantity in words.
    pub(crate) fn words(self) -> String {
        match self {
            Self::Cost { n: Some(n) } => format!("cost at n = {}", count(n)),
            Self::Cost { n: None } => "cost".to_owned(),
            Self::Growth => "growth".to_owned(),
            Self::Exponent => "exponent over the last decade of n".to_owned(),
            Self::Fixed => "fixed cost".to_owned(),
            Self::Slope => "slope".to_owned(),
            Self::P99 => "growth of the 99th percentile".to_owned(),
            Self::Cliff => "n of the first cliff".to_owned(),
            Self::Limit => "n at which calls fail".to_owned(),
        }
    }

    /// Returns how its values are formatted.
    pub(crate) fn kind(self, unit: Unit) -> Kind {
        match self {
            Self::Cost { .. } | Self::Fixed | Self::Slope => Kind::Cost(unit),
            Self::Growth | Self::P99 => Kind::Factor,
            Self::Cliff | Self::Limit => Kind::Count,
            Self::Exponent => Kind::Exponent,
        }
    }

    /// Returns whether a value of a record with this unit has no error.
    pub(crate) fn is_exact(self, unit: Unit) -> bool {
        unit == Unit::Instructions && matches!(self, Self::Cost { .. } | Self::Limit)
    }

    /// Returns whether values are comparable only between curves of the same law.
    pub(crate) fn is_of_law(self) -> bool {
        matches!(self, Self::Fixed | Self::Slope)
    }

    /// Returns the value of a curve, or why it has none.
    pub(crate) fn of(self, curve: &Curve) -> Result<Estimate, String> {
        let value = match self {
            Self::Cost { n } => n.or(curve.last_n()).and_then(|n| curve.cost_at(n)),
            Self::Growth => curve.growth,
            Self::Exponent => curve.exponent,
            // A verdict that names no law may still have a fit, of a law that was chosen only for drawing.
            Self::Fixed => curve.fixed.filter(|_| curve.verdict_law().is_some()),
            Self::Slope => curve.slope.filter(|_| curve.verdict_law().is_some()),
            Self::P99 => curve.p99,
            Self::Cliff => curve.cliff,
            Self::Limit => curve.limit,
        };
        let is_usable = |one: &Estimate| one.value > 0.0 || self == Self::Exponent;
        value.filter(is_usable).ok_or_else(|| self.absent(curve))
    }

    /// Returns why a curve has no value.
    fn absent(self, curve: &Curve) -> String {
        match self {
            Self::Cost { .. } => match (curve.points.first(), curve.points.last()) {
                (Some(first), Some(last)) => {
                    format!("its points are at n = {} to {}", count(first.0), count(last.0))
                }
                _ => "it has no points".to_owned(),
            },
            Self::Cliff => "it has no cliff".to_owned(),
            Self::Limit => "no call failed".to_owned(),
            Self::Slope | Self::Fixed => "its law has no such value".to_owned(),
            Self::Growth | Self::Exponent | Self::P99 => {
                "it has no such value: too few points, calls or passes".to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_by_name() {
        assert_eq!("cost@1,000".parse(), Ok(Quantity::Cost { n: Some(1000.0) }));
        assert_eq!("growth".parse(), Ok(Quantity::Growth));
        for wrong in ["", "cost@", "cost@x", "cost@0", "cost@inf", "speed"] {
            let error = wrong.parse::<Quantity>().unwrap_err();
            assert!(error.to_string().contains("use cost"), "{error}");
        }
    }

    #[test]
    fn an_absent_value_has_a_reason() {
        assert_eq!(Quantity::Limit.of(&Curve::default()), Err("no call failed".to_owned()));
        let curve =
            Curve { points: vec![(4.0, Estimate::bare(9.0)), (900.0, Estimate::bare(9.0))], ..Curve::default() };
        assert_eq!(Quantity::Cost { n: Some(5000.0) }.of(&curve), Err("its points are at n = 4 to 900".to_owned()));
        assert!(Quantity::Cost { n: None }.of(&curve).is_ok());
    }
}
