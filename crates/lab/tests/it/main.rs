//! Kernels of the host's Debian archive, as users obtain them.
#![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]
#![allow(clippy::print_stderr, reason = "a test that is skipped says why")]

extern crate alloc;

mod tree;

use landau_lab::debian;
use landau_lab::kernel::{Error, Kind};
use landau_lab::obtain::obtain;
use std::path::Path;

/// Returns why Debian's archive cannot be used here. This needs apt, a Debian source, a network, and an archive that
/// has all files of its index, unlike one that is being updated.
fn reason_to_skip(error: &Error) -> Option<String> {
    match error {
        Error::Apt(_) | Error::Fetch { .. } => Some(error.to_string()),
        _ => None,
    }
}

/// The second time, the kernel comes from the cache, without apt, network or index.
#[test]
fn a_kernel_of_the_archive_is_fetched_once() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("a cache");
    let mut said = Vec::new();
    let all = match debian::available(&cache, &mut |text| said.push(text.to_owned())) {
        Ok(all) => all,
        Err(error) => {
            let why = reason_to_skip(&error).unwrap_or_else(|| panic!("{error}"));
            return eprintln!("skipped: {why}");
        }
    };
    let smallest = all.iter().min_by_key(|one| one.bytes).unwrap();
    let newest = all.iter().rfind(|one| one.flavour == "cloud-amd64").unwrap();
    for one in [smallest, newest] {
        let word = one.word();
        let kernel = match obtain(&word, &cache, &mut |text| said.push(text.to_owned())) {
            Ok(kernel) => kernel,
            Err(error) => {
                let why = reason_to_skip(&error).unwrap_or_else(|| panic!("{error}"));
                return eprintln!("skipped: {why}");
            }
        };
        assert_eq!(kernel.kind, Kind::BzImage);
        let release = kernel.release.as_deref().unwrap();
        assert!(release.starts_with(&one.release) && release.ends_with(one.flavour), "{release} for {word}");
        assert!(kernel.origin.contains(&one.version) && kernel.image.starts_with(&cache), "{kernel:?}");
        assert!(kernel.config.as_ref().is_some_and(|path| has(path, "CONFIG_X86_64=y")), "{kernel:?}");
        let mut silent = |text: &str| panic!("{text}");
        assert_eq!(obtain(&word, &cache, &mut silent).unwrap(), kernel);
    }
    assert_eq!(said.iter().filter(|text| text.contains("updating the index")).count(), 1, "{said:?}");
    let missing = obtain("debian:1.2", &cache, &mut |_| {}).unwrap_err().to_string();
    assert!(missing.contains("no kernel of that version") && missing.contains(&newest.release), "{missing}");
    let inside: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().map(|file| file.path()).collect();
    assert_eq!(inside, [cache], "something was written outside the cache");
}

fn has(path: &Path, line: &str) -> bool {
    std::fs::read_to_string(path).unwrap().lines().any(|one| one == line)
}
