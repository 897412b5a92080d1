//! A profile: settings and their wanted values, from a small TOML file.

use crate::name::{check, check_value, normalized};
use crate::{Error, knob};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The profiles that come with Landau.
const BUILT_IN: &[(&str, &str)] = &[
    ("idle", include_str!("profiles/idle.toml")),
    ("mail", include_str!("profiles/mail.toml")),
    ("files", include_str!("profiles/files.toml")),
    ("seed-freebsd-2001", include_str!("profiles/seed-freebsd-2001.toml")),
    ("seed-linux-2001", include_str!("profiles/seed-linux-2001.toml")),
    ("empty", include_str!("profiles/empty.toml")),
];

/// The names of the built-in profiles.
pub const NAMES: [&str; BUILT_IN.len()] = {
    let mut names = [""; BUILT_IN.len()];
    let mut place = 0;
    while place < names.len() {
        names[place] = BUILT_IN[place].0;
        place += 1;
    }
    names
};

/// A profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Its name. For a user's own profile, the name of the file without the extension.
    pub name: String,
    /// What it is for.
    pub about: String,
    /// The settings that it wants, by name.
    pub wants: Vec<Want>,
    /// Changes that belong to it, but that Landau does not make.
    pub unmapped: Vec<Unmapped>,
}

/// A setting with the value that a profile wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// The name of a sysctl, or `nofile` or `nproc` for a resource limit.
    pub name: String,
    /// The value, with single spaces.
    pub value: String,
    /// Whether a larger value is kept; if the value has several numbers, each of them.
    pub at_least: bool,
    /// Its name in the source that suggested it.
    pub source: Option<String>,
}

/// A change that Landau does not make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unmapped {
    /// The change.
    pub tweak: String,
    /// Why Landau does not make it, and what does.
    pub why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(default)]
    about: String,
    #[serde(default)]
    sysctl: BTreeMap<String, Value>,
    #[serde(default)]
    limits: BTreeMap<String, Value>,
    #[serde(default)]
    unmapped: Vec<Unmapped>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Plain(Scalar),
    AtLeast { at_least: Scalar, source: Option<String> },
    Exactly { value: Scalar, source: Option<String> },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Number(i64),
    Text(String),
}

impl Scalar {
    fn text(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
        }
    }
}

impl Profile {
    /// Returns the built-in profile of that name, or the profile in that file if the word has a `/` or ends in `.toml`.
    ///
    /// # Errors
    ///
    /// Fails if there is none, or if its text is not a valid profile.
    pub fn find(word: &str) -> Result<Self, Error> {
        if let Some((name, text)) = BUILT_IN.iter().find(|(name, _)| *name == word) {
            return Self::parse(name, name, text);
        }
        if !word.contains('/') && Path::new(word).extension().is_none_or(|kind| kind != "toml") {
            return Err(Error::NoProfile(word.to_owned()));
        }
        let path = Path::new(word);
        let text = std::fs::read_to_string(path).map_err(Error::file(path))?;
        let stem = path.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
        Self::parse(&stem, word, &text)
    }

    /// Parses the text of a profile; `path` names it in errors.
    ///
    /// # Errors
    ///
    /// Fails if the text is not a valid profile, or names a setting that Landau never changes.
    pub fn parse(name: &str, path: &str, text: &str) -> Result<Self, Error> {
        let refused = |reason: String| Error::Profile { path: path.to_owned(), reason };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if name.is_empty() || !name.bytes().all(is_plain) || name.starts_with('.') {
            return Err(refused("name the file with letters, digits, `-`, `_` and `.` only".to_owned()));
        }
        let text: Text = toml::from_str(text).map_err(|error| refused(error.to_string().trim_end().to_owned()))?;
        let mut wants = Vec::new();
        for (name, value) in text.sysctl {
            check(&name).map_err(|reason| refused(format!("{name}: {reason}")))?;
            wants.push(want(name, value).map_err(&refused)?);
        }
        for (name, value) in text.limits {
            if !["nofile", "nproc"].contains(&name.as_str()) {
                return Err(refused(format!("limits.{name}: the limits are nofile and nproc")));
            }
            let want = want(name, value).map_err(&refused)?;
            if want.value.parse::<u64>().is_err() {
                return Err(refused(format!("limits.{}: {} is not a number", want.name, want.value)));
            }
            wants.push(want);
        }
        Ok(Self { name: name.to_owned(), about: text.about, wants, unmapped: text.unmapped })
    }
}

fn want(name: String, value: Value) -> Result<Want, String> {
    let (value, at_least, source) = match value {
        Value::Plain(value) => (value, false, None),
        Value::AtLeast { at_least, source } => (at_least, true, source),
        Value::Exactly { value, source } => (value, false, source),
    };
    let value = value.text();
    check_value(&value).map_err(|reason| format!("{name}: {reason}"))?;
    let value = normalized(&value);
    if at_least && numbers(&value).is_none() {
        return Err(format!("{name}: at_least takes numbers, not `{value}`"));
    }
    Ok(Want { name, value, at_least, source })
}

fn numbers(value: &str) -> Option<Vec<i128>> {
    value.split(' ').map(|word| word.parse().ok()).collect()
}

impl Want {
    /// Returns whether it is a resource limit.
    pub fn is_limit(&self) -> bool {
        !self.name.contains('.')
    }

    /// Returns the value to set if `now` is the present one; `None` if no change is needed.
    pub fn target(&self, now: &str) -> Option<String> {
        let now = normalized(now);
        // If 0 means no limit, no value is higher.
        if self.at_least && now == "0" && self.name == "net.netfilter.nf_conntrack_max" {
            return None;
        }
        let target = match (self.at_least, numbers(&now), numbers(&self.value)) {
            (true, Some(present), Some(least)) if present.len() == least.len() => {
                let is_range = self.name == "net.ipv4.ip_local_port_range";
                let raised = present.iter().zip(&least).enumerate().map(|(place, (present, least))| {
                    // A range is large enough if it begins no later and ends no earlier.
                    if is_range && place == 0 { present.min(least) } else { present.max(least) }.to_string()
                });
                raised.collect::<Vec<_>>().join(" ")
            }
            // `unlimited` is a value of resource limits.
            (true, None, _) if now == "unlimited" => return None,
            _ => self.value.clone(),
        };
        (target != now).then_some(target)
    }

    /// Returns what it bounds or controls, and the risk, if it is known.
    pub(crate) fn known(&self) -> Option<&'static knob::Knob> {
        knob::find(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every setting of the built-in profiles has a description.
    #[test]
    fn profiles_parse_and_their_settings_are_known() {
        for name in NAMES {
            let profile = Profile::find(name).unwrap();
            assert!(!profile.about.is_empty(), "{name}");
            assert!(name == "empty" || !profile.wants.is_empty(), "{name}");
            for want in &profile.wants {
                assert!(want.known().is_some(), "{name}: {} is not in knob.rs", want.name);
                assert!(!name.starts_with("seed-") || want.source.is_some(), "{name}: {}", want.name);
            }
        }
    }

    #[test]
    fn a_larger_value_is_left_alone_number_by_number() {
        let want = |value: &str, at_least: bool| Want {
            name: "net.ipv4.tcp_rmem".to_owned(),
            value: value.to_owned(),
            at_least,
            source: None,
        };
        let least = want("0 65535 65535", true);
        assert_eq!(least.target("4096\t131072\t6291456\n"), None);
        assert_eq!(least.target("4096 16384 4194304").as_deref(), Some("4096 65535 4194304"));
        assert_eq!(want("16", false).target("4096").as_deref(), Some("16"));
        assert_eq!(want("16", false).target("16\n"), None);
        assert_eq!(want("16", true).target("unlimited"), None);
        let tracked = Want { name: "net.netfilter.nf_conntrack_max".to_owned(), ..want("1048576", true) };
        assert_eq!((tracked.target("0"), tracked.target("65536").as_deref()), (None, Some("1048576")));
    }

    /// Guards against a range of ports that shrinks although it is wanted with `at_least`.
    #[test]
    fn a_range_of_ports_that_has_the_wanted_one_is_left_alone() {
        let mail = Profile::find("mail").unwrap();
        let range = mail.wants.iter().find(|want| want.name == "net.ipv4.ip_local_port_range").unwrap();
        assert_eq!(range.target("1024\t65535\n"), None);
        assert_eq!(range.target("32768 60999").as_deref(), Some("10240 65535"));
        assert_eq!(range.target("1024 60999").as_deref(), Some("1024 65535"));
    }

    #[test]
    fn what_is_no_profile_is_refused_with_the_reason() {
        let error = |text: &str| Profile::parse("own", "own.toml", text).unwrap_err().to_string();
        assert!(error("[sysctl]\n\"vm.drop_caches\" = 3").contains("an action"));
        assert!(error("[sysctl]\n\"../../etc/passwd\" = 3").contains("as sysctl(8) does"));
        assert!(error("[sysctl]\n\"net.core.somaxconn\" = { at_least = \"many\" }").contains("takes numbers"));
        assert!(error("[limits]\nstack = 1").contains("nofile and nproc"));
        assert!(error("[limits]\nnofile = \"all\"").contains("not a number"));
        assert!(error("[sysctls]\n").contains("sysctls"));
        assert!(Profile::find("idel").unwrap_err().to_string().contains("idle, mail, files"));
        let own = Profile::parse("own", "own.toml", "[sysctl]\n\"net.core.somaxconn\" = 16").unwrap();
        assert_eq!((own.wants[0].value.as_str(), own.wants[0].at_least), ("16", false));
    }
}
