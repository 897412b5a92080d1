//! Tests of the routes of domains, with plausible answers of a name server.

#![allow(clippy::unnecessary_wraps, reason = "the helpers return what a name server could: an answer or a problem")]

use super::*;

/// The routes, and the queries made for them.
struct Asked {
    domains: Domains,
    sites: Vec<Hosts>,
    resolver: Resolver,
    /// The number of the last answered query.
    answered: u32,
    now_ns: u64,
}

impl Asked {
    fn new(allowed: &[&str]) -> Self {
        Self::named("Relay.Example", allowed)
    }

    /// Returns the routes of a host with this name.
    fn named(own_name: &str, allowed: &[&str]) -> Self {
        let server = SocketAddr::from(([127, 0, 0, 1], 53));
        let allowed = allowed.iter().map(|&name| name.to_owned()).collect();
        let lookups = Lookups { server: Some(server), port: 25, allowed, own_name: own_name.to_owned() };
        let resolver = Resolver::new(Some(server), 1).unwrap();
        Self { domains: Domains::new(lookups), sites: Vec::new(), resolver, answered: 0, now_ns: 1 }
    }

    fn place(&mut self, domain: &str, recipient: u32) -> Place {
        self.domains.place(domain, recipient, self.now_ns, &mut self.sites, &mut self.resolver)
    }

    /// Answers the next query.
    fn answer(&mut self, records: Result<Records, Problem>) {
        self.answered += 1;
        let answer = Answer { records, ttl_s: 10 };
        self.domains.answered(self.answered, answer, self.now_ns, &mut self.sites, &mut self.resolver);
    }

    fn released(&mut self) -> Place {
        self.domains.next_released(self.now_ns).expect("the lookup has ended").place
    }

    /// Looks up a domain with these answers: its MX records, then the addresses.
    fn look_up(&mut self, domain: &str, answers: Vec<Result<Records, Problem>>) -> Place {
        assert_eq!(self.place(domain, 0), Place::Wait);
        for records in answers {
            self.answer(records);
        }
        assert_eq!(self.domains.next_question, self.answered, "every question has its answer");
        self.released()
    }
}

fn mx(all: &[(u16, &str)]) -> Result<Records, Problem> {
    let mx = all.iter().map(|&(preference, name)| (preference, name.into())).collect();
    Ok(Records { mx, ..Records::default() })
}

fn address(last: u8) -> Result<Records, Problem> {
    Ok(Records { addresses: vec![IpAddr::from([127, 0, 0, last])], ..Records::default() })
}

fn nothing() -> Result<Records, Problem> {
    Ok(Records::default())
}

fn refusal(place: Place) -> (RefusalKind, String) {
    let Place::Nowhere(Refusal { text, kind }) = place else { panic!("{place:?}") };
    (kind, text)
}

#[test]
fn domains_with_the_same_hosts_share_a_site() {
    let mut asked = Asked::new(&[]);
    let hosts = mx(&[(10, "a"), (20, "b")]);
    let first = asked.look_up("one.test", vec![hosts.clone(), address(1), nothing(), address(2), nothing()]);
    assert_eq!(first, Place::Site(0));
    // The addresses are known; the preference values may differ between domains.
    assert_eq!(asked.look_up("two.test", vec![mx(&[(5, "a"), (70, "b")])]), Place::Site(0));
    assert_eq!(asked.look_up("three.test", vec![mx(&[(10, "a")])]), Place::Site(1));
    assert_eq!((asked.place("ONE.test", 7), asked.place("one.test", 8)), (Place::Site(0), Place::Site(0)));
    // After their time to live the records are looked up again.
    asked.now_ns += 10 * SECOND;
    assert_eq!(asked.look_up("one.test", vec![hosts, address(1), nothing(), address(2), nothing()]), Place::Site(0));
}

/// The last domain looked up once set the order for all of them, so mail went to the backup of the others first.
#[test]
fn domains_with_the_same_hosts_in_another_order_keep_their_own() {
    let mut asked = Asked::new(&[]);
    let first =
        asked.look_up("one.test", vec![mx(&[(10, "a"), (20, "b")]), address(1), nothing(), address(2), nothing()]);
    assert_eq!(first, Place::Site(0));
    for (number, exchanges, site) in
        [(2, [(10, "b"), (20, "a")], 1), (3, [(5, "a"), (5, "b")], 2), (4, [(1, "b"), (9, "a")], 1)]
    {
        assert_eq!(asked.look_up(&format!("d{number}.test"), vec![mx(&exchanges)]), Place::Site(site), "{number}");
    }
    assert_eq!([0, 1].map(|site| asked.sites[site].name()), ["a", "b"]);
    assert_eq!(asked.place("one.test", 7), Place::Site(0));
}

#[test]
fn recipients_wait_for_one_look_up() {
    let mut asked = Asked::new(&[]);
    for recipient in 1..4 {
        assert_eq!(asked.place("one.test", recipient), Place::Wait);
    }
    asked.answer(mx(&[(10, "a")]));
    asked.answer(address(1));
    assert_eq!(asked.domains.next_released(asked.now_ns), None);
    asked.answer(nothing());
    // A recipient that arrives before the others are released is released with them.
    assert_eq!(asked.place("one.test", 4), Place::Wait);
    asked.now_ns = 5;
    let released = asked.domains.next_released(5).unwrap();
    assert_eq!(released, Released { recipients: vec![1, 2, 3, 4], place: Place::Site(0), took_ns: 4 });
    assert_eq!(asked.place("one.test", 5), Place::Site(0));
}

#[test]
fn a_domain_without_mx_is_its_own_host() {
    let mut asked = Asked::new(&[]);
    assert_eq!(asked.look_up("one.test", vec![nothing(), address(1), nothing()]), Place::Site(0));
    assert_eq!(asked.sites[0].name(), "one.test");
    let none = asked.look_up("two.test", vec![nothing(), nothing(), Err(Problem::NoName)]);
    assert_eq!(refusal(none).0, RefusalKind::Final);
    assert_eq!(asked.look_up("[127.0.0.9]", vec![]), Place::Site(1));
    assert_eq!(asked.look_up("[IPv6:::1]", vec![]), Place::Site(2));
    assert_eq!(refusal(asked.look_up("a..test", vec![])).0, RefusalKind::Final);
}

#[test]
fn failures_are_final_or_not() {
    let mut asked = Asked::new(&[]);
    for (number, (answers, kind, status)) in [
        (vec![Err(Problem::NoName)], RefusalKind::Final, "5.1.2 "),
        (vec![mx(&[(0, ".")])], RefusalKind::Final, "5.1.10 "),
        (vec![Err(Problem::ServerFailure)], RefusalKind::Transient, "4.4.3 "),
        (vec![Err(Problem::Refused)], RefusalKind::Transient, "4.4.3 "),
        (vec![Err(Problem::Lame)], RefusalKind::Transient, "4.4.3 "),
        (vec![Err(Problem::TimedOut)], RefusalKind::Transient, "4.4.3 "),
        (vec![mx(&[(1, "x")]), Err(Problem::NoName), Err(Problem::NoName)], RefusalKind::Final, "5.4.4 "),
        (vec![mx(&[(1, "y")]), Err(Problem::NoName), Err(Problem::TimedOut)], RefusalKind::Transient, "4.4.3 "),
        (vec![mx(&[(1, "z"), (2, "x")]), Err(Problem::TimedOut), nothing()], RefusalKind::Transient, "4.4.3 "),
        (vec![mx(&[(1, "relay.example")])], RefusalKind::Final, "5.4.6 "),
    ]
    .into_iter()
    .enumerate()
    {
        let (found, text) = refusal(asked.look_up(&format!("d{number}.test"), answers));
        assert!(found == kind && text.starts_with(status), "{number}: {found:?} {text}");
    }
    // If one host cannot be found, the others remain.
    let usable = vec![mx(&[(1, "u"), (2, "v")]), Err(Problem::TimedOut), Err(Problem::TimedOut), address(1), nothing()];
    assert_eq!(asked.look_up("usable.test", usable), Place::Site(0));
    // If this host is a backup, mail goes only to hosts with a better preference.
    let backup = vec![mx(&[(1, "u2"), (2, "relay.example"), (3, "w")]), address(1), nothing()];
    assert_eq!(asked.look_up("backup.test", backup), Place::Site(1));
}

#[test]
fn public_addresses_need_permission_for_the_domain_or_the_host() {
    let public = || Ok(Records { addresses: vec![IpAddr::from([192, 0, 2, 1])], ..Records::default() });
    let mut asked = Asked::new(&["Allowed.test", "mx.known"]);
    let (kind, text) = refusal(asked.look_up("one.test", vec![mx(&[(1, "a")]), public(), nothing()]));
    assert!(kind == RefusalKind::NotAllowed && text.contains("--allow-host one.test --yes-send-to-public"), "{text}");
    assert_eq!(asked.look_up("allowed.test", vec![mx(&[(1, "a")])]), Place::Site(0));
    // The site is now known, but still not permitted for other domains.
    assert_eq!(refusal(asked.look_up("two.test", vec![mx(&[(1, "a")])])).0, RefusalKind::NotAllowed);
    assert_eq!(asked.look_up("three.test", vec![mx(&[(1, "mx.known")]), public(), nothing()]), Place::Site(1));
    // One public address among private ones is enough.
    let mixed = Ok(Records {
        addresses: vec![IpAddr::from([10, 0, 0, 1]), IpAddr::from([192, 0, 2, 1])],
        ..Records::default()
    });
    assert_eq!(refusal(asked.look_up("four.test", vec![mx(&[(1, "m")]), mixed, nothing()])).0, RefusalKind::NotAllowed);
    assert_eq!(refusal(asked.look_up("[192.0.2.1]", vec![])).0, RefusalKind::NotAllowed);
}

#[test]
fn a_domain_beyond_ascii_is_the_one_of_its_a_labels() {
    let mut asked = Asked::new(&["b\u{fc}cher.test"]);
    let public = Ok(Records { addresses: vec![IpAddr::from([192, 0, 2, 1])], ..Records::default() });
    assert_eq!(asked.look_up("B\u{dc}CHER.test", vec![mx(&[(1, "a")]), public, nothing()]), Place::Site(0));
    assert_eq!(asked.place("xn--bcher-kva.test", 1), Place::Site(0));
    assert_eq!(asked.place("b\u{fc}cher.test", 1), Place::Site(0));
    let (kind, text) = refusal(asked.look_up("b\u{fc} cher.test", vec![]));
    assert!(kind == RefusalKind::Final && text.starts_with("5.1.2 "), "{text}");
}

#[test]
fn addresses_that_come_with_the_mx_records_are_not_asked_for() {
    let mut asked = Asked::new(&[]);
    let mut records = mx(&[(1, "a"), (2, "b")]).unwrap();
    records.additional = vec![("a".into(), IpAddr::from([127, 0, 0, 1])), ("b".into(), IpAddr::from([127, 0, 0, 2]))];
    assert_eq!(asked.look_up("one.test", vec![Ok(records)]), Place::Site(0));
}

/// The answer about one domain must not determine the destination of mail for others.
#[test]
fn addresses_of_other_hosts_that_come_with_the_mx_records_are_not_believed() {
    let mut asked = Asked::new(&[]);
    let mut records = mx(&[(1, "a")]).unwrap();
    records.additional = vec![("a".into(), IpAddr::from([127, 0, 0, 1])), ("b".into(), IpAddr::from([127, 0, 0, 2]))];
    assert_eq!(asked.look_up("one.test", vec![Ok(records)]), Place::Site(0));
    assert_eq!(asked.look_up("two.test", vec![mx(&[(1, "b")]), address(3), nothing()]), Place::Site(1));
}

/// Mail for such a domain once came back to the relay a hundred times.
#[test]
fn a_domain_without_mx_that_is_this_host_is_a_circle() {
    let (kind, text) = refusal(Asked::new(&[]).look_up("RELAY.example", vec![nothing()]));
    assert!(kind == RefusalKind::Final && text.starts_with("5.4.6 "), "{text}");
    // Every host without a configured name is called localhost.
    let mut asked = Asked::named("localhost", &[]);
    assert_eq!(asked.look_up("localhost", vec![nothing(), address(1), nothing()]), Place::Site(0));
    assert!(refusal(asked.look_up("one.test", vec![mx(&[(1, "localhost")])])).1.starts_with("5.4.6 "));
}

/// An answer contains only as many additional addresses as fit.
#[test]
fn a_host_of_which_only_ipv6_addresses_came_is_asked_for() {
    let mut asked = Asked::new(&[]);
    let (v4, v6) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from(std::net::Ipv6Addr::LOCALHOST));
    let with = |host: &str, additional: &[IpAddr]| {
        let additional = additional.iter().map(|&address| (host.into(), address)).collect();
        Ok(Records { additional, ..mx(&[(1, host)]).unwrap() })
    };
    let of = |address| Ok(Records { addresses: vec![address], ..Records::default() });
    assert_eq!(asked.look_up("one.test", vec![with("a", &[v6]), of(v4), of(v6)]), Place::Site(0));
    let mut rng = rand_chacha::rand_core::SeedableRng::seed_from_u64(1);
    assert_eq!(asked.sites[0].candidates(5, 0, &mut rng).len(), 2, "each address once");
    assert_eq!(asked.look_up("two.test", vec![with("b", &[v6, v4])]), Place::Site(1));
}

#[test]
fn a_host_may_have_ipv6_addresses_only() {
    let mut asked = Asked::new(&[]);
    let v6 = || Ok(Records { addresses: vec![std::net::Ipv6Addr::LOCALHOST.into()], ..Records::default() });
    assert_eq!(asked.look_up("one.test", vec![nothing(), nothing(), v6()]), Place::Site(0));
    assert_eq!(asked.look_up("two.test", vec![mx(&[(1, "a")]), nothing(), v6()]), Place::Site(1));
    // If a name server fails one of the two queries, the other still counts.
    assert_eq!(asked.look_up("three.test", vec![mx(&[(1, "b")]), Err(Problem::TimedOut), v6()]), Place::Site(2));
}

/// Looks up a domain with a separate host.
fn look_up_own(asked: &mut Asked, number: usize) -> Place {
    let host = format!("h{number}");
    asked.look_up(&format!("d{number}.test"), vec![mx(&[(1, &host)]), address(1), nothing()])
}

/// A relay that received mail for ever more domains once remembered the sites of all of them.
#[test]
fn sites_that_nobody_needs_are_forgotten() {
    let mut asked = Asked::new(&[]);
    asked.domains.set_many_sites(10);
    for number in 0..1000 {
        let Place::Site(site) = look_up_own(&mut asked, number) else { panic!("{number}") };
        assert_eq!(asked.sites[site as usize].name(), format!("h{number}"));
        asked.now_ns += 10 * SECOND;
        if asked.domains.has_many_sites() {
            let forgotten = asked.domains.forget_sites(vec![], asked.now_ns, &mut asked.sites);
            assert_eq!(forgotten.len(), 10, "{number}");
        }
        assert!(asked.sites.len() <= 10, "{number}: {} sites", asked.sites.len());
    }
}

#[test]
fn sites_that_are_needed_stay() {
    let mut asked = Asked::new(&[]);
    asked.domains.set_many_sites(0);
    for number in 0..4 {
        assert_eq!(look_up_own(&mut asked, number), Place::Site(number as u32));
    }
    asked.now_ns += 10 * SECOND;
    // One known domain, and one that was looked up but whose recipients were not released.
    assert_eq!(look_up_own(&mut asked, 4), Place::Site(4));
    assert_eq!(asked.place("d5.test", 1), Place::Wait);
    for records in [mx(&[(1, "h5")]), address(1), nothing()] {
        asked.answer(records);
    }
    // An address that has failed, and a site that is in use.
    asked.sites[0].avoid(SocketAddr::from(([127, 0, 0, 1], 25)), asked.now_ns);
    let needed = vec![false, true];
    assert_eq!(asked.domains.forget_sites(needed, asked.now_ns, &mut asked.sites), [2, 3]);
    assert_eq!(asked.released(), Place::Site(5));
    // Mail for each domain goes to its own hosts, regardless of the number of their site.
    for (number, site) in [(6, 3), (2, 2), (3, 6), (0, 0), (1, 1), (4, 4)] {
        let place = asked.place(&format!("d{number}.test"), 0);
        let place = if place == Place::Wait {
            for records in [mx(&[(1, &format!("h{number}"))]), address(1), nothing()] {
                asked.answer(records);
            }
            asked.released()
        } else {
            place
        };
        assert_eq!(place, Place::Site(site), "{number}");
        assert_eq!(asked.sites[site as usize].name(), format!("h{number}"));
    }
    // Nothing more is forgotten until there are twice as many.
    assert!(!asked.domains.has_many_sites());
}

/// The table of hosts once grew with each lookup.
#[test]
fn a_domain_whose_hosts_change_does_not_fill_the_memory() {
    let mut asked = Asked::new(&[]);
    for round in 0..MOST_HOSTS / MOST_EXCHANGES + 100 {
        let names: Vec<String> = (0..MOST_EXCHANGES).map(|host| format!("h{host}.r{round}")).collect();
        let exchanges: Vec<(u16, &str)> = names.iter().map(|name| (1, &**name)).collect();
        let mut records = mx(&exchanges).unwrap();
        records.additional = names.iter().map(|name| ((**name).into(), IpAddr::from([127, 0, 0, 1]))).collect();
        assert!(matches!(asked.look_up("one.test", vec![Ok(records)]), Place::Site(_)));
        asked.now_ns += 10 * SECOND;
        if asked.domains.has_many_sites() {
            asked.domains.forget_sites(vec![], asked.now_ns, &mut asked.sites);
        }
    }
    assert!(asked.domains.hosts.len() <= MOST_HOSTS + MOST_EXCHANGES, "{}", asked.domains.hosts.len());
}
