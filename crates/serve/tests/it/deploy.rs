//! Deployments: directories, links and files that are replaced while the server runs.

use crate::support::{Site, kinds};
use landau_reactor::ManualClock;
use landau_serve::{Accepting, Config, SandboxMode, Server};
use landau_sys::path::Links;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

/// Returns a server of `name` in a separate directory, where `make` has put it.
fn site_of(name: &str, make: impl FnOnce(&Path), change: impl FnOnce(&mut Config)) -> Site {
    Site::new(&[], |config| {
        make(&config.root);
        config.root.push(name);
        config.cache_for = Duration::ZERO;
        change(config);
    })
}

fn release(folder: &Path, name: &str, content: &str) {
    fs::create_dir_all(folder.join(name)).unwrap();
    fs::write(folder.join(name).join("index.html"), content).unwrap();
}

/// Returns the status and the body of the index.
fn index(site: &Site) -> (u16, String) {
    let got = site.get("/", "");
    (got.status, String::from_utf8(got.body).unwrap())
}

#[test]
fn a_replaced_directory_is_followed() {
    for sandbox in [SandboxMode::Never, SandboxMode::IfPossible] {
        let site = site_of("dist", |folder| release(folder, "dist", "v1"), |config| config.sandbox = sandbox);
        assert_eq!(index(&site), (200, "v1".to_owned()), "{sandbox:?}");
        fs::remove_dir_all(site.path().join("dist")).unwrap();
        assert_eq!(site.get("/index.html", "").status, 503, "{sandbox:?}");
        release(site.path(), "dist", "v2");
        assert_eq!(index(&site), (200, "v2".to_owned()), "{sandbox:?}");
        // A new directory is moved in place of the first.
        release(site.path(), "next", "v3");
        fs::rename(site.path().join("dist"), site.path().join("previous")).unwrap();
        assert_eq!(index(&site), (200, "v2".to_owned()), "nothing is there meanwhile: {sandbox:?}");
        fs::rename(site.path().join("next"), site.path().join("dist")).unwrap();
        assert_eq!(index(&site), (200, "v3".to_owned()), "{sandbox:?}");
    }
}

/// A file that only the next release has was once missing for as long as the cache keeps entries, if a client requested
/// it between the two renames.
#[test]
fn what_is_missing_between_two_renames_is_not_kept() {
    let keep = |config: &mut Config| config.cache_for = Duration::from_secs(3600);
    let site = site_of("dist", |folder| release(folder, "dist", "v1"), keep);
    assert_eq!(index(&site), (200, "v1".to_owned()));
    release(site.path(), "next", "v2");
    fs::write(site.path().join("next/new"), "new").unwrap();
    fs::rename(site.path().join("dist"), site.path().join("previous")).unwrap();
    assert_eq!(site.get("/new", "").status, 404, "the previous release is served");
    fs::rename(site.path().join("next"), site.path().join("dist")).unwrap();
    assert_eq!(site.get("/new", "").body, b"new");
}

/// Every file was once answered with 404, which was cached, and a host with the files of another one.
#[test]
fn nothing_is_known_of_the_files_of_a_removed_directory() {
    for (has_hosts, name) in [(false, "dist"), (true, "dist/x")] {
        let site = site_of(
            "dist",
            |folder| release(folder, name, "v1"),
            |config| {
                (config.virtual_hosts, config.cache_for) = (has_hosts, Duration::from_secs(3600));
            },
        );
        fs::remove_dir_all(site.path().join("dist")).unwrap();
        for path in ["/index.html", "/", "/missing"] {
            let got = site.get(path, "");
            assert_eq!((got.status, got.field("Retry-After")), (503, Some("5")), "{path} {has_hosts}");
        }
        release(site.path(), name, "v2");
        assert_eq!(index(&site), (200, "v2".to_owned()), "{has_hosts}");
        assert_eq!(site.get("/missing", "").status, 404, "{has_hosts}");
    }
}

#[test]
fn a_link_to_another_release_is_followed() {
    for sandbox in [SandboxMode::Never, SandboxMode::IfPossible] {
        let make = |folder: &Path| {
            release(folder, "releases/1", "v1");
            symlink("releases/1", folder.join("current")).unwrap();
        };
        let site = site_of("current", make, |config| config.sandbox = sandbox);
        assert_eq!(index(&site), (200, "v1".to_owned()), "{sandbox:?}");
        release(site.path(), "releases/2", "v2");
        symlink("releases/2", site.path().join("new")).unwrap();
        fs::rename(site.path().join("new"), site.path().join("current")).unwrap();
        assert_eq!(index(&site), (200, "v2".to_owned()), "{sandbox:?}");
    }
}

/// The messages to the operator. Those of other tests' servers arrive here as well.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn the_operator_is_told_once() {
    let elsewhere = tempfile::tempdir().unwrap();
    release(elsewhere.path(), "2", "v3");
    let make = |folder: &Path| release(folder, "dist", "v1");
    let site = site_of("dist", make, |config| {
        config.workers = 2;
        config.sandbox = SandboxMode::IfPossible;
        config.report = |message| TOLD.lock().unwrap().push(message.to_owned());
    });
    let of_site = || {
        let path = site.path().display().to_string();
        TOLD.lock().unwrap().iter().filter(|message| message.contains(&path)).cloned().collect::<Vec<_>>()
    };
    assert_eq!(index(&site).0, 200);
    release(site.path(), "new", "v2");
    fs::rename(site.path().join("dist"), site.path().join("old")).unwrap();
    fs::rename(site.path().join("new"), site.path().join("dist")).unwrap();
    for _ in 0..20 {
        assert_eq!(index(&site), (200, "v2".to_owned()));
    }
    let told = of_site();
    assert!(told.len() == 1 && told[0].ends_with("was replaced; the new directory is served"), "{told:?}");
    // A place that the sandbox does not permit, twice.
    let expected = if site.server().is_sandboxed() { "v2" } else { "v3" };
    for _ in 0..2 {
        fs::rename(site.path().join("dist"), site.path().join("older")).unwrap();
        symlink(elsewhere.path().join("2"), site.path().join("dist")).unwrap();
        for _ in 0..20 {
            assert_eq!(index(&site), (200, expected.to_owned()));
        }
        fs::remove_file(site.path().join("dist")).unwrap();
        fs::rename(site.path().join("older"), site.path().join("dist")).unwrap();
        for _ in 0..20 {
            assert_eq!(index(&site), (200, "v2".to_owned()));
        }
    }
    let told = of_site();
    if site.server().is_sandboxed() {
        let is_refused = |message: &&String| message.contains("pass --sandbox-read with");
        let is_back = |message: &&String| message.ends_with("can be opened again");
        assert_eq!((told.iter().filter(is_refused).count(), told.iter().filter(is_back).count()), (2, 2), "{told:?}");
    }
}

/// The host was once looked up in the previous release, so its clients got the default host's page.
#[test]
fn virtual_hosts_are_those_of_the_new_release() {
    for cache_ms in [0, 500] {
        let make = |folder: &Path| {
            for host in ["releases/1/a", "releases/1/default"] {
                release(folder, host, "v1");
            }
            symlink("releases/1", folder.join("current")).unwrap();
        };
        let clock = ManualClock::default();
        let site = site_of("current", make, |config| {
            config.virtual_hosts = true;
            config.cache_for = Duration::from_millis(cache_ms);
            config.clock = Some(clock.clone());
        });
        let page = |host: &str| {
            let mut client = site.connect();
            client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes());
            String::from_utf8(client.answer().unwrap().body).unwrap()
        };
        assert_eq!(page("a"), "v1");
        for (host, text) in [("a", "a of v2"), ("b", "b of v2"), ("default", "default of v2")] {
            release(site.path(), &format!("releases/2/{host}"), text);
        }
        symlink("releases/2", site.path().join("new")).unwrap();
        fs::rename(site.path().join("new"), site.path().join("current")).unwrap();
        fs::remove_dir_all(site.path().join("releases/1")).unwrap();
        clock.advance(Duration::from_secs(1));
        let pages = ["a", "b", "c"].map(page);
        assert_eq!(pages, ["a of v2", "b of v2", "default of v2"], "{cache_ms}");
    }
}

/// After one worker has noticed, no other sends the previous release. Each once followed separately, half a second
/// later.
#[test]
fn all_workers_follow_together() {
    let make = |folder: &Path| {
        release(folder, "1", "v1");
        symlink("1", folder.join("current")).unwrap();
    };
    let clock = ManualClock::default();
    let site = site_of("current", make, |config| {
        (config.workers, config.accepting) = (4, Accepting::Handed);
        (config.cache_for, config.clock) = (Duration::from_secs(1), Some(clock.clone()));
    });
    // Connections are passed to the workers in turn, so each then has the page in its cache.
    for _ in 0..8 {
        assert_eq!(index(&site), (200, "v1".to_owned()));
    }
    release(site.path(), "2", "v2");
    symlink("2", site.path().join("new")).unwrap();
    fs::rename(site.path().join("new"), site.path().join("current")).unwrap();
    // A missing file is looked up in the new directory at once.
    assert_eq!(site.get("/missing", "").status, 404);
    for _ in 0..8 {
        assert_eq!(index(&site), (200, "v2".to_owned()));
    }
}

/// Returns whether a thread of this process has something open in a directory whose path has no links.
#[cfg(target_os = "linux")]
fn holds(folder: &Path) -> bool {
    let list = |folder: &Path| -> Vec<std::path::PathBuf> {
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    // Each worker has its own descriptor table.
    let mut descriptors = list(Path::new("/proc/self/task")).into_iter().flat_map(|thread| list(&thread.join("fd")));
    descriptors.any(|fd| fs::read_link(fd).is_ok_and(|file| file.starts_with(folder)))
}

/// A worker without requests once stayed with its release however many followed. After that release was removed, the
/// worker had no files for clients that connected while the path led nowhere.
#[test]
#[cfg(target_os = "linux")]
fn idle_workers_follow_as_well() {
    for kind in kinds().into_iter().chain([Accepting::Handed]) {
        let make = |folder: &Path| {
            release(folder, "1", "v1");
            symlink("1", folder.join("current")).unwrap();
        };
        let site = site_of("current", make, |config| {
            (config.workers, config.accepting, config.sandbox) = (4, kind, SandboxMode::Never);
            config.cache_for = Duration::from_secs(3600);
        });
        let previous = site.path().join("1").canonicalize().unwrap();
        assert!(holds(&previous), "{kind:?}");
        release(site.path(), "2", "v2");
        symlink("2", site.path().join("new")).unwrap();
        fs::rename(site.path().join("new"), site.path().join("current")).unwrap();
        // One worker notices.
        assert_eq!(site.get("/missing", "").status, 404, "{kind:?}");
        crate::support::until(format!("{kind:?}: a worker has not followed"), || !holds(&previous));
        fs::remove_dir_all(&previous).unwrap();
        fs::remove_file(site.path().join("current")).unwrap();
        for _ in 0..8 {
            assert_eq!(index(&site), (200, "v2".to_owned()), "{kind:?}");
        }
    }
}

/// Capistrano's layout: the link is not the last component, or has a slash after it.
#[test]
fn a_link_anywhere_in_the_path_is_followed() {
    for root in ["app/current/public", "app/current/"] {
        let make = |folder: &Path| {
            release(folder, "releases/1/public", "v1");
            release(folder, "releases/1", "v1");
            fs::create_dir(folder.join("app")).unwrap();
            symlink("../releases/1", folder.join("app/current")).unwrap();
        };
        let site = site_of(root, make, |config| config.sandbox = SandboxMode::IfPossible);
        assert_eq!(index(&site), (200, "v1".to_owned()), "{root}");
        release(site.path(), "releases/2/public", "v2");
        release(site.path(), "releases/2", "v2");
        symlink("../releases/2", site.path().join("app/new")).unwrap();
        fs::rename(site.path().join("app/new"), site.path().join("app/current")).unwrap();
        assert_eq!(index(&site), (200, "v2".to_owned()), "{root}");
    }
}

/// The server once ran without a sandbox, and reported that Landlock was refused.
#[test]
fn a_permitted_directory_that_is_missing_is_an_error() {
    let room = tempfile::tempdir().unwrap();
    let mut config = Config::new(room.path());
    config.listen = vec!["127.0.0.1:0".parse().unwrap()];
    config.sandbox = SandboxMode::IfPossible;
    config.sandbox_read = vec![room.path().join("missing")];
    let error = Server::start(config).unwrap_err().to_string();
    assert!(error.starts_with("cannot open ") && error.contains("missing (--sandbox-read): "), "{error}");
}

/// The descriptor of the root keeps a removed directory, which is empty.
#[test]
fn a_removed_directory_has_no_listing() {
    let site = site_of("dist", |folder| release(folder, "dist", "v1"), |_| {});
    fs::remove_dir_all(site.path().join("dist")).unwrap();
    assert_eq!(site.get("/", "").status, 503);
    release(site.path(), "dist", "v2");
    assert_eq!(index(&site), (200, "v2".to_owned()));
}

#[test]
fn the_sandbox_permits_what_it_is_told() {
    let elsewhere = tempfile::tempdir().unwrap();
    release(elsewhere.path(), "2", "v2");
    let make = |folder: &Path| {
        release(folder, "1", "v1");
        symlink("1", folder.join("current")).unwrap();
    };
    let site = site_of("current", make, |config| {
        config.sandbox = SandboxMode::IfPossible;
        config.sandbox_read = vec![elsewhere.path().to_owned()];
    });
    assert_eq!(index(&site), (200, "v1".to_owned()));
    symlink(elsewhere.path().join("2"), site.path().join("new")).unwrap();
    fs::rename(site.path().join("new"), site.path().join("current")).unwrap();
    assert_eq!(index(&site), (200, "v2".to_owned()));
}

/// Every response is one complete version, the old one or the new one, although the old one is removed at once.
#[test]
fn deployments_under_load_lose_nothing() {
    for kind in kinds() {
        let make = |folder: &Path| {
            release(folder, "0", &"0".repeat(20_000));
            symlink("0", folder.join("current")).unwrap();
        };
        let site = site_of("current", make, |config| {
            config.accepting = kind;
            config.cache_for = Duration::from_millis(2);
            config.sandbox = SandboxMode::IfPossible;
        });
        let (is_over, answers, deployed) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            let clients = ["/", "/index.html"].map(|path| {
                let (is_over, answers, deployed) = (&is_over, &answers, &deployed);
                let mut client = site.connect();
                scope.spawn(move || {
                    let mut latest = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
                        let got = client.answer().unwrap();
                        let upper = deployed.load(Ordering::Relaxed) + 1;
                        assert_eq!(got.status, 200, "{}", got.head);
                        let body = String::from_utf8(got.body).unwrap();
                        let version: u32 = body[body.len() - 6..].trim_start_matches('-').parse().unwrap();
                        let padding = if version == 0 { "0".repeat(20_000) } else { page(version) };
                        assert!(body == padding, "{version} is not whole");
                        assert!((latest..=upper).contains(&version), "{version} after {latest}, before {upper}");
                        latest = version;
                        answers.fetch_add(1, Ordering::Relaxed);
                    }
                })
            });
            for version in 1..=200 {
                release(site.path(), &version.to_string(), &page(version));
                symlink(version.to_string(), site.path().join("new")).unwrap();
                let before = answers.load(Ordering::Relaxed);
                fs::rename(site.path().join("new"), site.path().join("current")).unwrap();
                deployed.store(version, Ordering::Relaxed);
                fs::remove_dir_all(site.path().join((version - 1).to_string())).unwrap();
                // A client that has failed counts no more answers.
                while answers.load(Ordering::Relaxed) < before + 2 && !clients.iter().any(ScopedJoinHandle::is_finished)
                {
                    std::thread::yield_now();
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(index(&site), (200, page(200)), "{kind:?}");
    }
}

/// Returns the page of a version. Each has another length; its last six bytes are the version.
fn page(version: u32) -> String {
    format!("{}{version:->6}", "x".repeat(version as usize * 10))
}

#[test]
fn a_file_of_the_same_size_and_time_is_seen() {
    let site = Site::new(&[("f", b"AAAA"), ("g", b"AAAA")], |config| config.cache_for = Duration::ZERO);
    assert_eq!((site.get("/f", "").body, site.get("/g", "").body), (b"AAAA".to_vec(), b"AAAA".to_vec()));
    for name in ["f", "g"] {
        let path = site.path().join(name);
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        // One file is written in place, and one is replaced.
        let written = if name == "f" { path.clone() } else { site.path().join("new") };
        fs::write(&written, "BBBB").unwrap();
        fs::File::options().append(true).open(&written).unwrap().set_modified(time).unwrap();
        fs::rename(&written, &path).unwrap();
        assert_eq!(site.get(&format!("/{name}"), "").body, b"BBBB", "{name}");
    }
}

#[test]
fn absolute_links_that_stay_inside_are_followed() {
    let site = Site::new(&[("sub/f", b"inside")], |config| config.links = Links::Inside);
    let link = |target: &Path, name: &str| symlink(target, site.path().join(name)).unwrap();
    link(&site.path().join("sub/f"), "file");
    link(&site.path().join("sub"), "folder");
    link(Path::new("/etc/passwd"), "out");
    assert_eq!(site.get("/file", "").body, b"inside");
    assert_eq!(site.get("/folder/f", "").body, b"inside");
    assert_eq!(site.get("/out", "").status, 404);
}
