//! Facts that a pass established in addition to its samples: each is a number with its unit, or a text.

use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// The unit of a fact. Facts are in base units; the report chooses µs, MiB or per cent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactUnit {
    /// A count of the objects or events that the fact's name gives.
    Count,
    /// A share of a whole: 0.12 is 12%.
    Share,
    /// Nanoseconds.
    Ns,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerS,
}

/// A fact: a number with its unit, or a text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Fact {
    /// A number: `{"value": 0.12, "unit": "share"}`.
    Number {
        /// The number.
        #[serde(serialize_with = "shortest")]
        value: f64,
        /// Its unit.
        unit: FactUnit,
    },
    /// A text: `"all odd"`.
    Text(String),
}

/// Facts by name. Names are in `snake_case`, like the members of a record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Facts(BTreeMap<String, Fact>);

impl Facts {
    /// Returns an empty set of facts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a number. A number that is not finite is left out, because JSON cannot represent it.
    pub fn number(&mut self, name: &str, value: f64, unit: FactUnit) {
        if value.is_finite() {
            self.0.insert(name.to_owned(), Fact::Number { value, unit });
        }
    }

    /// Adds a count.
    pub fn count(&mut self, name: &str, value: u64) {
        self.number(name, value as f64, FactUnit::Count);
    }

    /// Adds a text.
    pub fn text(&mut self, name: &str, text: impl Into<String>) {
        self.0.insert(name.to_owned(), Fact::Text(text.into()));
    }

    /// Returns the fact of that name.
    pub fn get(&self, name: &str) -> Option<&Fact> {
        self.0.get(name)
    }

    /// Returns the facts in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Fact)> {
        self.0.iter().map(|(name, fact)| (name.as_str(), fact))
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FactUnit {
    /// Returns the unit's name in records.
    pub fn name(self) -> &'static str {
        match self {
            FactUnit::Count => "count",
            FactUnit::Share => "share",
            FactUnit::Ns => "ns",
            FactUnit::Bytes => "bytes",
            FactUnit::BytesPerS => "bytes_per_s",
        }
    }
}

impl fmt::Display for Fact {
    /// Formats the fact as in the record, but a count without its unit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fact::Number { value, unit: FactUnit::Count } => write!(f, "{value}"),
            Fact::Number { value, unit } => write!(f, "{value} {}", unit.name()),
            Fact::Text(text) => f.write_str(text),
        }
    }
}

/// Serialises an integral number without a decimal point.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn shortest<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    /// An `f64` represents every integer up to this one exactly.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        serializer.serialize_i64(*value as i64)
    } else {
        serializer.serialize_f64(*value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_numbers_with_units_or_texts() {
        let mut facts = Facts::new();
        facts.number("server_processor_share", 0.12, FactUnit::Share);
        facts.count("listen_drops", 3);
        facts.text("server", "nginx 1.26");
        facts.number("unknown", f64::NAN, FactUnit::Ns);
        let json = serde_json::to_string(&facts).unwrap();
        let numbers = [r#""listen_drops":{"value":3,"unit":"count"}"#, r#"_share":{"value":0.12,"unit":"share"}"#];
        assert!(numbers.iter().all(|number| json.contains(number)), "{json}");
        assert!(json.contains(r#""server":"nginx 1.26""#) && !json.contains("unknown"), "{json}");
        assert_eq!(serde_json::from_str::<Facts>(&json).unwrap(), facts);
    }
}
