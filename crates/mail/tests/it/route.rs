//! Tests of deliveries by MX records, with the engine, the name server and the receivers of this crate.

use crate::support::{Names, Running, Silent, delivery};
use landau_mail::sink::dns::{Layout, Service};
use landau_mail::sink::smtp::Smtp;
use landau_mail::sink::smtp::profile::Profiles;
use landau_mail::synthetic::Shape;
use landau_mail::{Outcome, Source, deliver};
use std::net::TcpListener;
use std::path::Path;

/// Starts receivers at all addresses of 127.0.0.0/8 on a free port.
fn hosts(profile: &str) -> Running {
    Running::smtp_at(Smtp::new("sink.example", profile.parse::<Profiles>().unwrap(), 1), "127.0.0.0/8:0")
}

fn names(layout: Layout, loss: f64) -> Names {
    Names::start(&Service { layout, loss, ..Service::default() })
}

fn run(folder: &Path, names: &Names, hosts: &Running, shape: Shape) -> Outcome {
    let mut delivery = delivery(folder, Source::Synthetic(shape));
    delivery.name_server = Some(names.streams.address);
    delivery.smtp_port = hosts.address.port();
    deliver(&delivery, &mut Silent, &|| false).unwrap()
}

#[test]
fn each_domain_gets_its_mail_at_its_own_hosts_and_the_others_are_told_apart() {
    let layout = Layout {
        domains: 300,
        sites: 40,
        null_mx: 0.1,
        no_mx: 0.1,
        nonexistent: 0.1,
        failing: 0.1,
        truncated: 0.2,
        ..Layout::default()
    };
    let (names, hosts) = (names(layout, 0.0), hosts(""));
    let folder = tempfile::tempdir().unwrap();
    let outcome = run(folder.path(), &names, &hosts, Shape { recipients: 3_000, domains: 300, zipf: 0.0, seed: 1 });
    let count = |text: &str| -> u64 {
        outcome.reasons.iter().filter(|(reason, _)| reason.starts_with(text)).map(|(_, count)| count).sum()
    };
    let (null, missing, failing) = (count("5.1.10 "), count("5.1.2 "), count("4.4.3 the name server failed"));
    // There are ten recipients per domain, and thirty domains of each kind on average.
    for found in [null, missing, failing / 2] {
        assert!((100..600).contains(&found), "{:?}", outcome.reasons);
    }
    let recipients = outcome.recipients;
    assert_eq!((recipients.failed, recipients.deferred), (null + missing, failing / 2), "{:?}", outcome.reasons);
    assert_eq!((recipients.sum(), recipients.left), (3_000, 0));
    // A failure is not cached for longer than the recipients wait.
    assert!(outcome.lost.is_empty(), "{:?}", outcome.lost);
    let lookups = outcome.phases.all().iter().find(|(name, _)| *name == "lookup").unwrap().1.count();
    assert!(lookups >= 300, "{lookups}");
}

#[test]
fn a_query_that_is_lost_is_repeated() {
    let (names, hosts) = (names(Layout { domains: 40, sites: 40, ..Layout::default() }, 0.1), hosts(""));
    let folder = tempfile::tempdir().unwrap();
    let outcome = run(folder.path(), &names, &hosts, Shape { recipients: 200, domains: 40, zipf: 0.0, seed: 1 });
    // The seed of the name server determines the losses: no query is lost three times.
    assert!(names.streams.remote.total("udp_lost") > 0);
    assert_eq!(outcome.recipients.done, 200, "{:?}", outcome.reasons);
}

#[test]
fn mail_goes_to_the_next_host_if_the_first_one_refuses() {
    // Each site has three consecutive addresses: the first is that of the best host, or of one as good as the best.
    let first_hosts = (0..40).map(|site| format!("[host.\"127.1.0.{}\"]\nconnections = 0\n", site * 3));
    let names = names(Layout { domains: 40, sites: 40, ..Layout::default() }, 0.0);
    let hosts = hosts(&first_hosts.collect::<String>());
    let folder = tempfile::tempdir().unwrap();
    let outcome = run(folder.path(), &names, &hosts, Shape { recipients: 400, domains: 40, zipf: 0.0, seed: 1 });
    let recipients = outcome.recipients;
    // About one site in three has only one host.
    assert!((200..400).contains(&recipients.done) && recipients.failed == 0, "{recipients:?}");
    assert!(outcome.lost.iter().any(|(reason, _)| reason.contains("421")), "{:?}", outcome.lost);
    assert!(outcome.notes.iter().any(|note| note.contains("given up for this run")), "{:?}", outcome.notes);
}

/// Returns whether this system has IPv6's loopback address.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn has_ipv6() -> bool {
    let is_there = TcpListener::bind("[::1]:0").is_ok();
    if !is_there {
        eprintln!("skipped: this system has no IPv6");
    }
    is_there
}

/// Starts receivers on the same port for IPv4 and IPv6.
fn hosts_of_both_families() -> (Running, Running) {
    loop {
        let v4 = hosts("");
        let smtp = Smtp::new("sink.example", Profiles::default(), 1);
        // Another process may have the port.
        if let Ok(v6) = Running::try_smtp_at(smtp, &format!("[::1]:{}", v4.address.port())) {
            return (v4, v6);
        }
    }
}

const SHAPE: Shape = Shape { recipients: 200, domains: 20, zipf: 0.0, seed: 1 };

fn twenty_sites(no_mx: f64, dual_stack: f64, ipv6_only: f64) -> Names {
    names(Layout { domains: 20, sites: 20, no_mx, dual_stack, ipv6_only, ..Layout::default() }, 0.0)
}

#[test]
fn mail_goes_to_hosts_that_have_ipv6_addresses_only() {
    if !has_ipv6() {
        return;
    }
    for no_mx in [0.0, 1.0] {
        let names = twenty_sites(no_mx, 0.0, 1.0);
        let host = Running::smtp_at(Smtp::new("sink.example", Profiles::default(), 1), "[::1]:0");
        let folder = tempfile::tempdir().unwrap();
        let outcome = run(folder.path(), &names, &host, SHAPE);
        assert_eq!(outcome.recipients.done, 200, "{no_mx}: {:?} {:?}", outcome.reasons, outcome.lost);
        assert_eq!(host.remote.total("recipients"), 200);
    }
}

/// RFC 6724: IPv6 comes first. RFC 5321: the other addresses follow if it fails, before anything is deferred.
#[test]
fn ipv6_is_tried_first_and_ipv4_if_that_fails() {
    if !has_ipv6() {
        return;
    }
    let names = twenty_sites(0.5, 1.0, 0.0);
    let (v4, v6) = hosts_of_both_families();
    let folder = tempfile::tempdir().unwrap();
    let outcome = run(folder.path(), &names, &v4, SHAPE);
    assert_eq!((outcome.recipients.done, v4.remote.total("recipients")), (200, 0), "{:?}", outcome.lost);
    assert_eq!(v6.remote.total("recipients"), 200);
    drop(v6);
    let folder = tempfile::tempdir().unwrap();
    let outcome = run(folder.path(), &names, &v4, SHAPE);
    assert_eq!((outcome.recipients.done, v4.remote.total("recipients")), (200, 200), "{:?}", outcome.lost);
    assert!(outcome.reasons.is_empty() && !outcome.lost.is_empty(), "{:?}", outcome.reasons);
}
