//! Redirects that lead back to themselves.

use super::{Change, Redirect, Rule, Rules};
use crate::config::Problem;
use std::sync::Arc;

/// The number of redirects that browsers follow.
const MOST_REDIRECTS: usize = 20;

/// Each `{rest}` repeats the path, so a path longer than the longest default request line is endless too.
const LONGEST_PATH: usize = 8192;

impl Rules {
    /// Returns the endless redirects within the same host.
    pub(crate) fn loops(&self) -> Vec<Problem> {
        self.rules.iter().filter_map(|rule| self.loop_of(rule)).collect()
    }

    fn loop_of(&self, rule: &Rule) -> Option<Problem> {
        let Change::Set(redirect) = &rule.settings.redirect else { return None };
        let start = starts(rule, redirect).into_iter().find(|start| self.is_endless(start, redirect))?;
        let (from, to) = (String::from_utf8_lossy(&start), redirect.target(&start)?);
        let to = String::from_utf8_lossy(&to);
        let reason = if from == to {
            format!("{from} redirects to itself; add a later rule with redirect = false for it")
        } else {
            format!("{from} redirects to {to}, which redirects without end; add a later rule with redirect = false")
        };
        Some(Problem { line: redirect.line, key: "rule.redirect".to_owned(), reason })
    }

    /// Returns whether a path that this redirect applies to is still redirected after the number that browsers follow.
    fn is_endless(&self, start: &[u8], redirect: &Arc<Redirect>) -> bool {
        let mut path = start.to_vec();
        for number in 0..MOST_REDIRECTS {
            let Some(next) = self.policy(&path).and_then(|policy| policy.redirect.clone()) else { return false };
            if number == 0 && !Arc::ptr_eq(&next, redirect) {
                return false;
            }
            let Some(target) = next.target(&path) else { return false };
            if target.len() > LONGEST_PATH {
                return true;
            }
            path = target;
        }
        true
    }
}

/// Returns paths that the rule may match: each directory and a path in it, those without wildcards, and its target.
fn starts(rule: &Rule, redirect: &Redirect) -> Vec<Vec<u8>> {
    let of_pattern = |folder: &String| [format!("{folder}/x"), format!("{folder}/")];
    let folders = rule.patterns.iter().filter_map(|pattern| pattern.folder.as_ref()).flat_map(of_pattern);
    let exact = rule.patterns.iter().filter_map(|pattern| pattern.exact().map(str::to_owned));
    folders.chain(exact).map(String::into_bytes).chain(redirect.only_target()).collect()
}

#[cfg(test)]
mod tests {
    use crate::config::ConfigFile;

    #[test]
    fn a_redirect_without_end_is_an_error() {
        let told = |rules: &[(&str, &str)]| -> Vec<String> {
            let rule = |(path, to): &(&str, &str)| format!("[[rule]]\npath = '{path}'\nredirect = {to}\n");
            let rules: Vec<String> = rules.iter().map(rule).collect();
            let problems = ConfigFile::parse(&rules.concat(), &[]).err().unwrap_or_default();
            problems.iter().map(ToString::to_string).collect()
        };
        let itself = "3: rule.redirect: /a/x redirects to itself; add a later rule with redirect = false for it";
        assert_eq!(told(&[("/a/", "'/a/{rest}'")]), [itself]);
        for wrong in [
            &[("/a/", "'/a/b/{rest}'")][..],
            &[("/a/", "'/a'")],
            &[("/a", "'/a?b'")],
            &[("/a/", "'/%61/index.html'")],
            &[("/", "'/maintenance.html'")],
            &[("*.html", "'/b.html'")],
            &[("/a/", "'/{rest}'"), ("/x", "'/a/x'")],
        ] {
            let told = told(wrong);
            assert!(told.len() == wrong.len() && told[0].starts_with("3: rule.redirect: /"), "{wrong:?}: {told:?}");
        }
        for fine in [
            &[("/a/", "'/b/{rest}'")][..],
            &[("/a", "'/a/'")],
            &[("/a/", "'https://a.example/a/{rest}'")],
            &[("/", "'/maintenance.html'"), ("/maintenance.html", "false")],
            &[("/a/", "'/b/{rest}'"), ("/b/", "'/c/{rest}'")],
        ] {
            assert_eq!(told(fine), [""; 0], "{fine:?}");
        }
    }
}
