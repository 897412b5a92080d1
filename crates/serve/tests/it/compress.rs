//! Files that the server compresses itself.

use crate::support::{Got, Site, kinds, set_rules, until};
use crate::tls;
use landau_serve::{Accepting, Config};
use std::io::Read;
use std::time::Duration;

const GZIP: &str = "Accept-Encoding: gzip\r\n";

fn text(seed: usize, lines: usize) -> Vec<u8> {
    (0..lines).flat_map(|line| format!("line {line} of the text number {seed}\n").into_bytes()).collect()
}

/// Returns bytes that no compression makes smaller.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 7_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn decoded(got: &Got) -> Vec<u8> {
    if got.field("Content-Encoding").is_none() {
        return got.body.clone();
    }
    assert_eq!(got.field("Content-Encoding"), Some("gzip"));
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&got.body[..]).read_to_end(&mut plain).unwrap();
    plain
}

/// Returns a server that compresses, with files that were written a while ago: files that have just been written are
/// sent uncompressed.
fn site(kind: Accepting, files: &[(&str, &[u8])], change: impl FnOnce(&mut Config)) -> Site {
    let site = Site::new(files, |config| {
        config.accepting = kind;
        set_rules(
            config,
            "[[rule]]\npath = '/'\ncompress = true\n[[rule]]\npath = '/plain/'\ncompress = false\n\
             [[rule]]\npath = '/bare/'\nremove-headers = ['ETag', 'Last-Modified']\n",
        );
        change(config);
    });
    let modified = |name| std::fs::metadata(site.path().join(name)).unwrap().modified().unwrap();
    let written = files.iter().map(|(name, _)| modified(name)).max().unwrap();
    until("the clock stands still", || written.elapsed().is_ok_and(|since| since > Duration::from_millis(50)));
    site
}

#[test]
fn text_is_compressed_for_those_who_want_it() {
    // One file that is kept in memory, and one that is not.
    for (kind, plain) in kinds().into_iter().flat_map(|kind| [(kind, text(1, 100)), (kind, text(1, 20_000))]) {
        let site = site(kind, &[("a.txt", &plain), ("plain/a.txt", &plain), ("small.txt", b"hello")], |_| {});
        let got = site.get("/a.txt", GZIP);
        assert_eq!(
            (got.status, got.field("Content-Encoding"), got.field("Vary")),
            (200, Some("gzip"), Some("Accept-Encoding"))
        );
        assert!(decoded(&got) == plain && got.body.len() < plain.len() / 2, "{}", got.body.len());
        let as_it_is = site.get("/a.txt", "");
        assert!(as_it_is.body == plain && as_it_is.field("Content-Encoding").is_none());
        assert_eq!(as_it_is.field("Vary"), Some("Accept-Encoding"), "a cache must not give it to others");
        let tag = got.field("ETag").unwrap().to_owned();
        assert_ne!(Some(&tag[..]), as_it_is.field("ETag"));
        assert_eq!(got.field("Last-Modified"), as_it_is.field("Last-Modified"));
        let with = |fields: &str| site.get("/a.txt", &format!("{GZIP}{fields}"));
        assert_eq!(with(&format!("If-None-Match: {tag}\r\n")).status, 304);
        assert_eq!(with(&format!("If-None-Match: {}\r\n", as_it_is.field("ETag").unwrap())).status, 200);
        let part = with(&format!("Range: bytes=2-9\r\nIf-Range: {tag}\r\n"));
        assert_eq!((part.status, &part.body[..]), (206, &got.body[2..10]), "of the compressed form");
        for refused in ["Accept-Encoding: gzip;q=0\r\n", "Accept-Encoding: br\r\n", "Accept-Encoding: identity\r\n"] {
            assert!(site.get("/a.txt", refused).body == plain, "{refused}");
        }
        for other in ["/plain/a.txt", "/small.txt"] {
            let got = site.get(other, GZIP);
            assert!(got.field("Content-Encoding").is_none() && got.field("Vary").is_none(), "{other}");
        }
        let mut client = site.connect();
        client.send(format!("HEAD /a.txt HTTP/1.1\r\nHost: x\r\n{GZIP}\r\n").as_bytes());
        let head = client.answer_of(false).unwrap();
        assert_eq!(head.field("Content-Length").unwrap(), got.body.len().to_string());
        assert_eq!(site.end().files_compressed, 1, "the others had it from the cache");
    }
}

#[test]
fn forms_beside_the_file_go_first() {
    let plain = text(2, 100);
    let site = site(Accepting::Own, &[("a.txt", &plain), ("b.txt", &plain)], |_| {});
    for (name, content) in [("a.txt.gz", "not made here"), ("b.txt.br", "nor this")] {
        std::fs::write(site.path().join(name), content).unwrap();
    }
    assert_eq!(site.get("/a.txt", GZIP).body, b"not made here");
    let both = "Accept-Encoding: gzip, br\r\n";
    assert_eq!(site.get("/b.txt", both).body, b"nor this");
    assert_eq!(site.server().totals().files_compressed, 0);
    assert!(decoded(&site.get("/b.txt", GZIP)) == plain);
    assert_eq!(site.end().files_compressed, 1);
}

/// Compressed media types are neither tried nor marked, and incompressible content is tried only once.
#[test]
fn what_does_not_become_smaller_is_sent_as_it_is() {
    let noise = noise(5000);
    let site = site(Accepting::Own, &[("a.png", &noise), ("a.txt", &noise)], |_| {});
    for _ in 0..5 {
        for name in ["/a.png", "/a.txt"] {
            let got = site.get(name, GZIP);
            assert!(got.body == noise && got.field("Content-Encoding").is_none(), "{name}");
        }
    }
    assert_eq!(site.end().files_compressed, 1);
}

#[test]
fn many_clients_wait_for_one_compression() {
    for kind in kinds() {
        let plain = text(3, 50_000);
        let site = site(kind, &[("a.txt", &plain)], |_| {});
        let request = format!("GET /a.txt HTTP/1.1\r\nHost: x\r\n{GZIP}\r\n");
        let mut clients: Vec<_> = (0..40).map(|_| site.connect()).collect();
        for client in &mut clients {
            client.send(request.as_bytes());
        }
        for client in &mut clients {
            assert!(decoded(&client.answer().unwrap()) == plain, "{kind:?}");
        }
        assert_eq!(site.end().files_compressed, 1, "{kind:?}");
    }
}

/// Further files are sent uncompressed while many wait. A cache that keeps none costs memory for only one file at a
/// time.
#[test]
fn many_files_at_once_are_all_sent() {
    for cache_bytes in [64 << 20, 0] {
        let files: Vec<(String, Vec<u8>)> = (0..60).map(|seed| (format!("{seed}.txt"), text(seed, 4000))).collect();
        let borrowed: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (&name[..], &bytes[..])).collect();
        let site = site(Accepting::Own, &borrowed, |config| config.cache_bytes = cache_bytes);
        let mut clients: Vec<_> = files
            .iter()
            .map(|(name, _)| {
                let mut client = site.connect();
                client.send(format!("GET /{name} HTTP/1.1\r\nHost: x\r\n{GZIP}\r\n").as_bytes());
                client
            })
            .collect();
        for (client, (name, plain)) in clients.iter_mut().zip(&files) {
            assert!(decoded(&client.answer().unwrap()) == *plain, "{name}");
        }
        // A file whose compressed form could not be kept would be compressed for each request.
        assert_eq!(site.end().files_compressed == 0, cache_bytes == 0);
    }
}

/// Every response is one complete version, the current one, however often the file is replaced or overwritten.
#[test]
fn a_file_that_changes_is_compressed_again() {
    for (kind, is_replaced) in kinds().into_iter().flat_map(|kind| [(kind, true), (kind, false)]) {
        let site = site(kind, &[("a.txt", &text(0, 20_000))], |config| config.cache_for = Duration::ZERO);
        for seed in 1..8 {
            let (path, new) = (site.path().join("a.txt"), site.path().join("new"));
            // Of the same length.
            let plain = text(100 + seed, 20_000);
            std::fs::write(if is_replaced { &new } else { &path }, &plain).unwrap();
            if is_replaced {
                std::fs::rename(&new, &path).unwrap();
            }
            until("it is not compressed", || {
                let got = site.get("/a.txt", GZIP);
                assert!(decoded(&got) == plain, "{kind:?} {seed}");
                got.field("Content-Encoding").is_some()
            });
        }
    }
}

#[test]
fn fields_that_a_rule_removes_are_not_in_the_compressed_form() {
    let plain = text(5, 100);
    let site = site(Accepting::Own, &[("bare/a.txt", &plain)], |_| {});
    let got = site.get("/bare/a.txt", GZIP);
    assert!(decoded(&got) == plain && got.field("Content-Encoding").is_some());
    assert_eq!((got.field("ETag"), got.field("Last-Modified")), (None, None));
}

/// The request is answered again when the compressed form is ready. If it were counted again, it would count as the
/// second one.
#[test]
fn a_request_that_waits_counts_once() {
    for kind in kinds() {
        let plain = text(7, 20_000);
        let site = site(kind, &[("a.txt", &plain), ("b.txt", &plain)], |config| {
            set_rules(config, "[[rule]]\npath = '/'\ncompress = true\nrate = '2/h'\nburst = 1\n");
        });
        // This request follows another, and both are sent before the client reads.
        let mut client = site.connect();
        let head = |name: &str| format!("GET /{name}.txt HTTP/1.1\r\nHost: x\r\n{GZIP}\r\n");
        client.send(format!("{}{}{}", head("a"), head("b"), head("a")).as_bytes());
        let mut status = || client.answer().unwrap().status;
        assert_eq!([status(), status(), status()], [200, 200, 429], "{kind:?}");
        assert_eq!(site.end().files_compressed, 2);
    }
}

#[test]
fn files_are_compressed_over_tls() {
    for kind in kinds() {
        let plain = text(6, 20_000);
        let site = site(kind, &[("a.txt", &plain)], tls::over_tls);
        let got = tls::get_with(site.connect().stream, "/a.txt", GZIP);
        let body = got.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let mut decoded = Vec::new();
        flate2::read::GzDecoder::new(&got[body..]).read_to_end(&mut decoded).unwrap();
        assert!(decoded == plain, "{kind:?}");
    }
}
