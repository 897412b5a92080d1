//! What cannot be meant is refused before a packet is sent.

use crate::server::wish;
use landau_load::{CrowdWish, Error, Job, Wish};
use std::time::Duration;

fn refusal(wish: &Wish) -> String {
    Job::resolve(wish).map(drop).unwrap_err().to_string()
}

#[test]
fn strangers_are_refused_by_name_and_by_address() {
    for url in ["http://8.8.8.8/", "http://[2001:db8::1]/", "https://1.1.1.1:8443/x"] {
        let error = Job::resolve(&wish(url)).map(drop).unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        assert!(error.to_string().contains("--i-may-load"), "{error}");
    }
    let confirmed = Wish { confirmed: vec!["8.8.8.8".to_owned()], ..wish("http://8.8.8.8/") };
    assert!(Job::resolve(&confirmed).is_ok());
    // One of several is enough.
    let mixed = Wish { urls: vec!["http://127.0.0.1/".to_owned(), "http://8.8.8.8/".to_owned()], ..wish("x") };
    assert!(matches!(Job::resolve(&mixed), Err(Error::Refused { .. })));
}

#[test]
fn what_contradicts_itself_is_told() {
    let own = || wish("http://127.0.0.1:9/");
    for (wish, word) in [
        (Wish { rate: Some(0.0), ..own() }, "--rate"),
        (Wish { rate: Some(f64::NAN), ..own() }, "--rate"),
        (Wish { rate: Some(1e12), ..own() }, "--rate 1000000000000.0 is not from 0.001 to 10000000"),
        (Wish { rate: Some(1e300), ..own() }, "--rate"),
        (Wish { rate: Some(1e-300), ..own() }, "--rate"),
        (Wish { connect_rate: Some(1e-300), ..own() }, "--connect-rate"),
        (Wish { rate: Some(1.0), pipeline: 2, ..own() }, "--pipeline"),
        (Wish { timeout: Duration::ZERO, ..own() }, "--timeout"),
        (Wish { timeout: Duration::from_secs(101), ..own() }, "--timeout"),
        (Wish { request_count: None, ..own() }, "--duration"),
        (Wish { warm_up: Duration::from_secs(u64::MAX), ..own() }, "--warm-up is at most 720h"),
        (Wish { duration: Some(Duration::ZERO), ..own() }, "--duration is above 0"),
        (Wish { duration: Some(Duration::MAX), ..own() }, "--duration is above 0 and at most 720h"),
        (Wish { method: "GE T".to_owned(), ..own() }, "method"),
        (Wish { headers: vec!["no colon".to_owned()], ..own() }, "Name: value"),
        (Wish { headers: vec!["A: b\r\nHost: c".to_owned()], ..own() }, "Name: value"),
        (Wish { waived: vec!["all".to_owned()], ..own() }, "no gate"),
        (Wish { urls: Vec::new(), ..own() }, "URL"),
        (Wish { replay: Some("/nowhere/at/all".into()), ..own() }, "/nowhere"),
        (Wish { connections: 1_000_000, workers: Some(1), ..own() }, "workers at least"),
        (Wish { pins: vec![9999], ..own() }, "--pin 9999: processor 9999 is not among those this process may run on: "),
        (Wish { sources: vec!["192.0.2.1".parse().unwrap()], ..own() }, "this machine has no such address"),
        (Wish { sources: vec!["::1".parse().unwrap()], ..own() }, "no server of this load has an address of IPv6"),
        (Wish { urls: vec![format!("unix:/{}:/", "x".repeat(200))], ..own() }, "longer than 107 bytes"),
    ] {
        let said = refusal(&wish);
        assert!(said.contains(word), "{word}: {said}");
    }
    let steps = CrowdWish { n: 10, steps: vec![0, 5], samples: 1, passes: 1, settle: Duration::ZERO, server: None };
    assert!(refusal(&Wish { crowd: Some(steps.clone()), ..own() }).contains("steps"));
    let late = CrowdWish { steps: Vec::new(), settle: Duration::from_secs(99_999_999_999_999), ..steps };
    assert!(refusal(&Wish { crowd: Some(late), ..own() }).contains("--settle is at most 720h"));
    for rate in [0.001, 1e7] {
        assert!(Job::resolve(&Wish { rate: Some(rate), ..own() }).is_ok(), "{rate}");
    }
}

#[test]
fn a_crowd_has_as_many_workers_as_the_limit_of_descriptors_needs() {
    let limit = landau_sys::limits::get(landau_sys::limits::Resource::Descriptors).unwrap().1;
    let n = 1_000_000;
    let crowd = CrowdWish { n, steps: Vec::new(), samples: 1, passes: 1, settle: Duration::ZERO, server: None };
    let job = Job::resolve(&Wish { crowd: Some(crowd), ..wish("http://127.0.0.1:9/") }).unwrap();
    let most = job.plans.iter().map(|plan| u64::from(plan.connections)).max().unwrap();
    assert!(most < limit, "{most} of {limit}");
    assert_eq!(job.plans.iter().map(|plan| u64::from(plan.connections)).sum::<u64>(), u64::from(n));
    assert_eq!(job.crowd.unwrap().steps.last(), Some(&n));
}
