//! Specifications that are refused before anything is sent.

use crate::server::spec;
use landau_load::{Error, IdleSpec, Job, LoadSpec};
use std::time::Duration;

fn refusal(spec: &LoadSpec) -> String {
    Job::resolve(spec).map(drop).unwrap_err().to_string()
}

#[test]
fn public_hosts_need_permission() {
    for url in ["http://8.8.8.8/", "http://[2001:db8::1]/", "https://1.1.1.1:8443/x"] {
        let error = Job::resolve(&spec(url)).map(drop).unwrap_err();
        assert!(matches!(error, Error::HostNotAllowed { .. }), "{error}");
        assert!(error.to_string().contains("--allow-host"), "{error}");
    }
    let allowed = LoadSpec { allowed_hosts: vec!["8.8.8.8".to_owned()], ..spec("http://8.8.8.8/") };
    assert!(Job::resolve(&allowed).is_ok());
    // One public host among several URLs is enough for an error.
    let mixed = LoadSpec { urls: vec!["http://127.0.0.1/".to_owned(), "http://8.8.8.8/".to_owned()], ..spec("x") };
    assert!(matches!(Job::resolve(&mixed), Err(Error::HostNotAllowed { .. })));
}

#[test]
fn invalid_and_contradictory_options_are_refused() {
    let own = || spec("http://127.0.0.1:9/");
    for (spec, expected) in [
        (LoadSpec { rate: Some(0.0), ..own() }, "--rate"),
        (LoadSpec { rate: Some(f64::NAN), ..own() }, "--rate"),
        (LoadSpec { rate: Some(1e12), ..own() }, "--rate 1000000000000.0: must be from 0.001 to 10000000 requests"),
        (LoadSpec { rate: Some(1e300), ..own() }, "--rate"),
        (LoadSpec { rate: Some(1e-300), ..own() }, "--rate"),
        (LoadSpec { connect_rate: Some(1e-300), ..own() }, "--connect-rate"),
        (LoadSpec { rate: Some(1.0), pipeline: 2, ..own() }, "--pipeline requires a closed loop"),
        (
            LoadSpec { http2: true, headers: vec!["Connection: close".to_owned()], ..own() },
            "HTTP/2 does not allow this field",
        ),
        (LoadSpec { timeout: Duration::ZERO, ..own() }, "--timeout must be above 0"),
        (LoadSpec { timeout: Duration::from_secs(101), ..own() }, "--timeout must be above 0 and at most 100s"),
        (LoadSpec { request_count: None, ..own() }, "add --duration or --requests"),
        (LoadSpec { warm_up: Duration::from_secs(u64::MAX), ..own() }, "--warm-up must be at most 720h"),
        (LoadSpec { duration: Some(Duration::ZERO), ..own() }, "--duration must be above 0"),
        (LoadSpec { duration: Some(Duration::MAX), ..own() }, "--duration must be above 0 and at most 720h"),
        (LoadSpec { method: "GE T".to_owned(), ..own() }, "--method GE T: not a supported HTTP method"),
        (LoadSpec { headers: vec!["no colon".to_owned()], ..own() }, "write -H 'Name: value'"),
        (LoadSpec { headers: vec!["A: b\r\nHost: c".to_owned()], ..own() }, "write -H 'Name: value'"),
        (LoadSpec { waived: vec!["all".to_owned()], ..own() }, "--waive all: unknown gate; the gates are alive, "),
        (LoadSpec { urls: Vec::new(), ..own() }, "the URL is missing"),
        (LoadSpec { replay: Some("/nowhere/at/all".into()), ..own() }, "--replay /nowhere/at/all: No such file"),
        (LoadSpec { connections: 1_000_000, workers: Some(1), ..own() }, "require at least"),
        (LoadSpec { cpus: vec![9999], ..own() }, "--pin 9999: this process may not run on CPU 9999; choose"),
        (LoadSpec { sources: vec!["192.0.2.1:0".parse().unwrap()], ..own() }, "not an address of this host"),
        (LoadSpec { sources: vec!["[::1]:0".parse().unwrap()], ..own() }, "no server of this load has an IPv6 address"),
        (LoadSpec { urls: vec![format!("unix:/{}:/", "x".repeat(200))], ..own() }, "longer than 107 bytes"),
        (LoadSpec { insecure: true, ..own() }, "--insecure requires an https URL"),
        (LoadSpec { ca_file: Some("/ca.pem".into()), ..own() }, "--ca requires an https URL"),
    ] {
        let message = refusal(&spec);
        assert!(message.contains(expected), "{expected}: {message}");
    }
    let settle = Duration::ZERO;
    let steps = IdleSpec { n: 10, steps: vec![0, 5], samples: 1, passes: 1, settle, server_pid: None, window: None };
    let message = refusal(&LoadSpec { idle: Some(steps.clone()), ..own() });
    assert!(message.contains("--steps 0: must be from 1 to 10"), "{message}");
    let late = IdleSpec { steps: Vec::new(), settle: Duration::from_secs(99_999_999_999_999), ..steps };
    assert!(refusal(&LoadSpec { idle: Some(late), ..own() }).contains("--settle must be at most 720h"));
    for rate in [0.001, 1e7] {
        assert!(Job::resolve(&LoadSpec { rate: Some(rate), ..own() }).is_ok(), "{rate}");
    }
}

#[test]
fn idle_connections_are_divided_among_as_many_workers_as_the_limit_on_open_files_needs() {
    let limit = landau_sys::limits::get(landau_sys::limits::Resource::Descriptors).unwrap().1;
    let n = 1_000_000;
    let settle = Duration::ZERO;
    let idle = IdleSpec { n, steps: Vec::new(), samples: 1, passes: 1, settle, server_pid: None, window: None };
    let job = Job::resolve(&LoadSpec { idle: Some(idle), ..spec("http://127.0.0.1:9/") }).unwrap();
    let most = job.plans.iter().map(|plan| u64::from(plan.connections)).max().unwrap();
    assert!(most < limit, "{most} of {limit}");
    assert_eq!(job.plans.iter().map(|plan| u64::from(plan.connections)).sum::<u64>(), u64::from(n));
    assert_eq!(job.idle.unwrap().steps.last(), Some(&n));
}
