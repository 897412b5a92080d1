//! The policies of rules that match together, so that paths with the same rules share one.

use super::policy::Policy;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// The maximum total size of shared policies, in bytes. Rules for directories make few sets, but patterns of names can
/// match in any combination, and clients choose the names. Policies beyond the limit are owned by the cached path that
/// they were made for.
const MOST_BYTES: usize = 1 << 20;

/// Policies by the numbers of their rules.
#[derive(Debug, Default)]
pub(super) struct Policies(RwLock<Known>);

#[derive(Debug, Default)]
struct Known {
    policies: HashMap<Box<[usize]>, Arc<Policy>>,
    bytes: usize,
}

impl Policies {
    /// Returns the policy of these rules; calls `make` if it is not known.
    pub(super) fn get(&self, rules: &[usize], make: impl FnOnce() -> Policy) -> Arc<Policy> {
        if let Some(known) = self.0.read().unwrap_or_else(PoisonError::into_inner).policies.get(rules) {
            return known.clone();
        }
        let mut policy = make();
        let bytes = policy.own_bytes() + size_of_val(rules);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(policy) = known.policies.get(rules) {
            return policy.clone();
        }
        policy.is_shared = known.bytes + bytes <= MOST_BYTES;
        let policy = Arc::new(policy);
        if policy.is_shared {
            known.bytes += bytes;
            known.policies.insert(rules.into(), policy.clone());
        }
        policy
    }
}

#[cfg(test)]
mod tests {
    use super::super::Rules;
    use super::*;
    use crate::config::ConfigFile;
    use std::fmt::Write;

    fn rules(text: &str) -> Rules {
        ConfigFile::parse(text, &[]).unwrap().rules
    }

    #[test]
    fn paths_with_the_same_rules_share_a_policy() {
        let rules =
            rules("[[rule]]\npath = '/'\nset-headers = { X-A = '1' }\n[[rule]]\npath = '/a/'\nlistings = false\n");
        let policy = |path: &str| rules.policy(path.as_bytes()).unwrap();
        assert!(Arc::ptr_eq(&policy("/x"), &policy("/y/z")) && Arc::ptr_eq(&policy("/a/x"), &policy("/a/y")));
        assert!(!Arc::ptr_eq(&policy("/x"), &policy("/a/x")));
        assert_eq!(policy("/x").own_bytes(), 0, "it costs the path nothing");
    }

    /// Each path once had its own copy, which the limit of the cache did not count.
    #[test]
    fn combinations_of_rules_are_bounded() {
        let mut text = String::new();
        for letter in 'a'..='n' {
            let value = "x".repeat(1000);
            writeln!(text, "[[rule]]\npath = '*{letter}*'\nset-headers = {{ X-{letter} = '{value}' }}").unwrap();
        }
        let rules = rules(&text);
        let name = |set: u32| (0..14).filter(|bit| set >> bit & 1 != 0).map(|bit| char::from(b'a' + bit)).collect();
        let policies: Vec<Arc<Policy>> = (1..1 << 14)
            .map(|set| {
                let name: String = name(set);
                rules.policy(format!("/{name}").as_bytes()).unwrap()
            })
            .collect();
        let known = rules.policies.0.read().unwrap();
        assert!(known.bytes <= MOST_BYTES && known.policies.len() > 50, "{} {}", known.bytes, known.policies.len());
        let own = policies.iter().filter(|policy| !policy.is_shared);
        let least = own.map(|policy| policy.own_bytes()).min().unwrap();
        assert!(least > 1000, "those beyond are counted with their paths: {least}");
    }
}
