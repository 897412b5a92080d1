//! Checks that no file contains the address of a package registry. The address of a mirror in a lock file would break
//! other users' builds.

use super::source::line_of;
use super::{File, Findings};

/// Parts of such addresses. They are split so that this file contains none.
const HOSTS: &[&str] = &[
    concat!("index.crates", ".io"),
    concat!("static.crates", ".io"),
    concat!("//crates", ".io"),
    concat!("registry.npm", "js"),
    concat!("npmjs", ".org"),
    concat!("registry.yarn", "pkg"),
    concat!("pypi", ".org"),
    concat!("files.python", "hosted"),
    concat!("proxy.golang", ".org"),
    concat!("arti", "factory"),
    concat!("/api", "/npm/"),
    concat!("/api", "/cargo/"),
    concat!("/api", "/pypi/"),
    concat!("sparse", "+http"),
];

/// The name of cargo's default source in a lock file. It does not depend on the mirror.
const USUAL: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(crate) fn check(files: &[File]) -> Findings {
    let mut findings = Findings::new();
    for file in files {
        let text = if file.path == "Cargo.lock" { file.text.replace(USUAL, "") } else { file.text.clone() };
        let text = text.to_ascii_lowercase();
        for host in HOSTS {
            for (at, _) in text.match_indices(host) {
                findings.push(format!("{}:{}: the address of a registry ({host})", file.path, line_of(&text, at)));
            }
        }
        if file.path == "Cargo.lock" {
            let sources = text.lines().enumerate().filter(|(_, line)| line.starts_with("source = \"registry+"));
            findings.extend(sources.map(|(index, _)| format!("Cargo.lock:{}: not the default source", index + 1)));
        }
    }
    findings
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn the_usual_source_is_allowed_and_a_mirror_is_not() {
        let lock = |source: &str| File { path: "Cargo.lock".to_owned(), text: format!("source = \"{source}\"\n") };
        assert!(check(&[lock(USUAL)]).is_empty());
        assert_eq!(check(&[lock("registry+https://mirror.example/index")]).len(), 1);
        let text = format!("\"resolved\": \"https://{}/a.tgz\"", concat!("registry.npm", "js.example"));
        assert_eq!(check(&[File { path: "tests/browser/package-lock.json".to_owned(), text }]).len(), 1);
    }
}
