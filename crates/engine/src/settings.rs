//! Parameters of a benchmark and their values.

use crate::Study;
use std::collections::BTreeMap;

/// The values that a parameter accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An integer within bounds.
    Count {
        /// The smallest value.
        min: u64,
        /// The largest value.
        max: u64,
    },
    /// An integer within bounds, or `auto`: the benchmark derives it from the host.
    AutoCount {
        /// The smallest value.
        min: u64,
        /// The largest value.
        max: u64,
    },
    /// A size within bounds, in bytes: `64KiB`.
    Size {
        /// The smallest value.
        min: u64,
        /// The largest value.
        max: u64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Two numbers `LOW-HIGH`, or `host`: the host's own range of ephemeral ports.
    PortRange,
    /// `http://HOST[:PORT]/PATH`, or `none`.
    Url,
    /// A command that starts a server, with `{port}` in place of its port; or `none`.
    Command,
}

/// A parameter of a benchmark, with its value in each study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Its name after `--set benchmark.`
    pub name: &'static str,
    /// The values that it accepts.
    pub kind: Kind,
    /// Its value in the smoke study: small enough for a test.
    pub smoke: &'static str,
    /// Its value in the quick study, and in the study `then` unless that study sets another.
    pub quick: &'static str,
    /// Its value in the full study.
    pub full: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
}

impl Parameter {
    /// Returns a parameter with the same value in every study.
    pub const fn fixed(name: &'static str, kind: Kind, value: &'static str, help: &'static str) -> Self {
        Self { name, kind, smoke: value, quick: value, full: value, help }
    }

    /// Returns the number of steps, `n`, which every benchmark has, with its value in each study.
    pub const fn steps(smoke: &'static str, quick: &'static str, full: &'static str, help: &'static str) -> Self {
        Self { name: "n", kind: Kind::Count { min: 1, max: 10_000_000 }, smoke, quick, full, help }
    }

    /// Returns the number of steps of a benchmark that can derive it from the host (`auto`).
    pub const fn auto_steps(smoke: &'static str, quick: &'static str, full: &'static str, help: &'static str) -> Self {
        Self { name: "n", kind: Kind::AutoCount { min: 1, max: 10_000_000 }, smoke, quick, full, help }
    }

    /// Returns the value in a study.
    pub fn value(&self, study: Study) -> &'static str {
        match study {
            Study::Smoke => self.smoke,
            Study::Quick | Study::Then => self.quick,
            Study::Full => self.full,
        }
    }

    /// Returns what is wrong with a value and what to write instead; none if it is accepted.
    pub fn reject(&self, value: &str) -> Option<String> {
        let count = |min, max| match value.parse::<u64>() {
            Ok(number) if (min..=max).contains(&number) => None,
            _ => Some(format!("`{value}` is not an integer from {min} to {max}")),
        };
        match self.kind {
            Kind::Count { min, max } => count(min, max),
            Kind::AutoCount { .. } if value == "auto" => None,
            Kind::AutoCount { min, max } => count(min, max).map(|reason| format!("{reason}, and not `auto`")),
            Kind::Size { min, max } => match landau_units::size_in(min..=max)(value) {
                Ok(_) => None,
                Err(error) => Some(format!("`{value}`: {error}")),
            },
            Kind::Choice(words) if words.contains(&value) => None,
            Kind::Choice(words) => Some(format!("`{value}` is not one of {}", words.join(", "))),
            Kind::PortRange if value == "host" || port_range(value).is_some() => None,
            Kind::PortRange => {
                Some(format!("`{value}` is neither `host` nor a port range LOW-HIGH such as 40000-42000"))
            }
            Kind::Url if value == "none" || is_url(value) => None,
            Kind::Url => Some(format!("`{value}` is neither `none` nor a URL such as http://127.0.0.1:8080/file")),
            Kind::Command if value == "none" || value.contains("{port}") => None,
            Kind::Command => Some(format!(
                "`{value}` is neither `none` nor a command with {{port}} in it, such as \"server -p {{port}} {{dir}}\""
            )),
        }
    }
}

/// Returns whether the text is a URL without TLS, with a host and a path.
fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("http://").and_then(|rest| rest.split_once('/'));
    rest.is_some_and(|(host, path)| !host.is_empty() && !format!("{host}{path}").contains(char::is_whitespace))
}

/// Parses two ports in ascending order.
fn port_range(text: &str) -> Option<(u16, u16)> {
    let (low, high) = text.split_once('-')?;
    let (low, high) = (low.parse().ok()?, high.parse().ok()?);
    (0 < low && low < high).then_some((low, high))
}

/// The values of all parameters of a benchmark. They are validated when they are set, so reading cannot fail.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<String, String>);

impl Settings {
    /// Returns the values of a study.
    pub fn of_study(parameters: &[Parameter], study: Study) -> Self {
        Self(parameters.iter().map(|one| (one.name.to_owned(), one.value(study).to_owned())).collect())
    }

    /// Returns values that come from a record or an order.
    pub fn from_map(map: BTreeMap<String, String>) -> Self {
        Self(map)
    }

    /// Returns the values by name.
    pub fn as_map(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// Sets a value that [`Parameter::reject`] did not reject.
    pub fn set(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), value.to_owned());
    }

    /// Returns a value as text.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// Returns an integer; 0 if the value is `auto`.
    ///
    /// # Panics
    ///
    /// Panics if the parameter does not exist or is not an integer. Values are validated when they are set, so the
    /// benchmark reads the wrong parameter, or reads a size without [`Settings::bytes`].
    pub fn count(&self, name: &str) -> u64 {
        match self.text(name) {
            "auto" => 0,
            text => text.parse().unwrap_or_else(|_| panic!("{}", wrong_kind(name, text, "an integer"))),
        }
    }

    /// Returns a size in bytes.
    ///
    /// # Panics
    ///
    /// Panics if the parameter does not exist or is not a size, like [`Settings::count`].
    pub fn bytes(&self, name: &str) -> u64 {
        let text = self.text(name);
        landau_units::size(text).unwrap_or_else(|_| panic!("{}", wrong_kind(name, text, "a size")))
    }

    /// Returns whether the value is `word`.
    pub fn is(&self, name: &str, word: &str) -> bool {
        self.text(name) == word
    }

    /// Returns a range of ports; none for the host's own.
    pub fn ports(&self, name: &str) -> Option<(u16, u16)> {
        port_range(self.text(name))
    }
}

/// Returns the message for a parameter that a benchmark reads as the wrong kind.
fn wrong_kind(name: &str, value: &str, kind: &str) -> String {
    format!("the benchmark reads its parameter `{name}` as {kind}, but the value is `{value}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against a benchmark that measures with 0 because it reads a size as an integer, or misspells a parameter.
    #[test]
    fn a_parameter_that_is_read_as_another_kind_is_an_error() {
        let values = [("n", "auto"), ("active", "100"), ("response", "8KiB"), ("none", "0")];
        let settings = Settings::from_map(values.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        assert_eq!((settings.count("n"), settings.count("active"), settings.count("none")), (0, 100, 0));
        assert_eq!((settings.bytes("response"), settings.bytes("none")), (8192, 0));
        let refused = |read: &dyn Fn() -> u64| {
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)).unwrap_err();
            caught.downcast_ref::<String>().cloned().unwrap_or_default()
        };
        let size = refused(&|| settings.count("response"));
        assert_eq!(size, "the benchmark reads its parameter `response` as an integer, but the value is `8KiB`");
        assert!(refused(&|| settings.bytes("active")).contains("as a size, but the value is `100`"));
        assert!(refused(&|| settings.count("actve")).contains("the value is ``"));
    }

    #[test]
    fn a_rejection_says_what_would_be_right() {
        let parameter = Parameter::fixed("family", Kind::Choice(&["v4", "v6"]), "v4", "");
        assert_eq!(parameter.reject("v4"), None);
        assert_eq!(parameter.reject("v5").as_deref(), Some("`v5` is not one of v4, v6"));
        let ports = Parameter::fixed("ports", Kind::PortRange, "host", "");
        assert_eq!(ports.reject("40000-42000"), None);
        assert!(ports.reject("42000-40000").is_some() && ports.reject("1-70000").is_some());
        let size = Parameter::fixed("stack", Kind::Size { min: 0, max: 1 << 30 }, "0", "");
        assert_eq!((size.reject("0"), size.reject("64KiB")), (None, None));
        assert_eq!(size.reject("64").as_deref(), Some("`64`: the unit is missing; write 64B, 64KiB or 64MiB"));
        assert!(size.reject("2GiB").is_some_and(|reason| reason.contains("at most 1GiB")));
        let url = Parameter::fixed("url", Kind::Url, "none", "");
        assert!(url.reject("none").is_none() && url.reject("http://[::1]:80/a?b").is_none());
        let wrong = ["http://host", "https://host/", "http:///a", "http://a b/", "host"];
        assert!(wrong.iter().all(|one| url.reject(one).is_some_and(|reason| reason.contains("http://127.0.0.1:8080"))));
        let command = Parameter::fixed("command", Kind::Command, "none", "");
        assert_eq!(command.reject("server -p {port}"), None);
        assert!(command.reject("server").is_some_and(|reason| reason.contains("{port}")));
    }
}
