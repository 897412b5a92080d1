//! HTTP semantics of files: conditions, ranges, encodings, listings and hosts.

use crate::support::{Got, Site, kinds, set_rules};
use landau_serve::Accepting;
use landau_sys::path::Links;
use landau_wire::http::date;
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[test]
fn conditional_requests_get_304() {
    let site = Site::new(&[("f.html", b"hello")], |_| ());
    let got = site.get("/f.html?x=1", "");
    assert_eq!((got.status, &got.body[..]), (200, &b"hello"[..]));
    assert_eq!(got.field("Content-Type"), Some("text/html; charset=utf-8"));
    let tag = got.field("ETag").unwrap();
    assert_eq!(site.get("/f.html", &format!("If-None-Match: {tag}\r\n")).status, 304);
    assert_eq!(site.get("/f.html", "If-None-Match: \"other\"\r\n").status, 200);
    // Repeated fields are one list (RFC 9110 section 5.3). They were once ignored.
    let twice = |name: &str, tag: &str| format!("{name}: \"x\"\r\n{name}: {tag}\r\n");
    assert_eq!(site.get("/f.html", &twice("If-None-Match", tag)).status, 304);
    assert_eq!(site.get("/f.html", &twice("If-Match", "\"y\"")).status, 412);
    assert_eq!(site.get("/f.html", &twice("If-Match", tag)).status, 200);
    assert_eq!(site.get("/f.html", "If-Match: \"other\"\r\n").status, 412);
    let modified = got.field("Last-Modified").unwrap();
    assert_eq!(site.get("/f.html", &format!("If-Modified-Since: {modified}\r\n")).status, 304);
    let mut client = site.connect();
    client.send(b"HEAD /f.html HTTP/1.1\r\nHost: x\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n");
    let head = client.answer_of(false).unwrap();
    assert_eq!((head.field("Content-Length"), head.field("ETag")), (Some("5"), Some(tag)));
    let options = client.answer().unwrap();
    assert_eq!((options.status, options.field("Allow")), (204, Some("GET, HEAD, OPTIONS")));
}

/// The time of modification in a response must not be later than the response itself (RFC 9110 section 8.8.2.1).
#[test]
fn a_change_to_come_is_not_told() {
    for hidden in ["", "remove-headers = 'Last-Modified'\n"] {
        let site =
            Site::new(&[("f", b"hello")], |config| set_rules(config, &format!("[[rule]]\npath = '/'\n{hidden}")));
        let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
        File::options().append(true).open(site.path().join("f")).unwrap().set_modified(tomorrow).unwrap();
        let got = site.get("/f", "");
        let seconds = |name: &str| date::parse(got.field(name)?.as_bytes());
        let modified = got.field("Last-Modified").map(str::to_owned);
        assert_eq!((got.status, modified.is_none()), (200, !hidden.is_empty()));
        assert!(seconds("Last-Modified") <= seconds("Date"), "{}", got.head);
        let tag = format!("If-None-Match: {}\r\n", got.field("ETag").unwrap());
        assert_eq!(site.get("/f", &tag).status, 304);
        let date = modified.unwrap_or_else(|| got.field("Date").unwrap().to_owned());
        assert_eq!(site.get("/f", &format!("Range: bytes=0-0\r\nIf-Range: {date}\r\n")).status, 200);
    }
}

/// Forms of the same file often have the same time, and may have the same size. A part of one form was once continued
/// with another.
#[test]
fn forms_of_a_file_have_different_tags() {
    let site = Site::new(&[("s.js", b"12345"), ("s.js.br", b"abcde"), ("s.js.gz", b"ABCDE")], |_| ());
    let time = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    for name in ["s.js", "s.js.br", "s.js.gz"] {
        File::options().append(true).open(site.path().join(name)).unwrap().set_modified(time).unwrap();
    }
    let tag = |coding: &str| {
        let got = site.get("/s.js", &format!("Accept-Encoding: {coding}\r\n"));
        got.field("ETag").unwrap().to_owned()
    };
    let tags: HashSet<String> = ["identity", "br", "gzip"].map(tag).into();
    assert_eq!(tags.len(), 3, "{tags:?}");
}

/// Returns the parts of a multipart response: the offset in the file and the bytes of each. Checks every delimiter.
pub(crate) fn parts(got: &Got) -> Vec<(usize, Vec<u8>)> {
    assert_eq!(got.status, 206, "{}", got.head);
    let kind = got.field("Content-Type").unwrap();
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap_or_else(|| panic!("{kind}"));
    let delimiter = format!("--{boundary}");
    let (mut rest, mut parts) = (&got.body[..], Vec::new());
    loop {
        rest = rest.strip_prefix(b"\r\n").unwrap_or(rest).strip_prefix(delimiter.as_bytes()).unwrap();
        if rest.starts_with(b"--") {
            assert_eq!(rest, b"--\r\n");
            return parts;
        }
        let end = rest.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let head = std::str::from_utf8(&rest[..end]).unwrap();
        let range = head.lines().find_map(|line| line.strip_prefix("Content-Range: bytes ")).unwrap();
        let (first, last) = range.split('/').next().unwrap().split_once('-').unwrap();
        let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
        rest = &rest[end..];
        parts.push((first, rest[..=last - first].to_vec()));
        rest = &rest[last - first + 1..];
    }
}

#[test]
fn ranges_of_small_and_large_files() {
    for kind in kinds() {
        ranges(kind);
    }
}

fn ranges(kind: Accepting) {
    let large: Vec<u8> = (0..300_000_u32).map(|number| (number % 251) as u8).collect();
    let middle: Vec<u8> = large[..40_000].to_vec();
    let files: &[(&str, &[u8])] = &[("small", b"0123456789"), ("middle", &middle), ("large", &large), ("empty", b"")];
    let site = Site::new(files, |config| config.accepting = kind);
    for (name, content) in [("small", &b"0123456789"[..]), ("middle", &middle), ("large", &large)] {
        let len = content.len();
        assert_eq!(site.get(&format!("/{name}"), "").body, content, "{name}");
        for (range, part) in [("0-0", 0..1), ("2-5", 2..6), ("-3", len - 3..len), ("5-", 5..len)] {
            let got = site.get(&format!("/{name}"), &format!("Range: bytes={range}\r\n"));
            assert_eq!((got.status, &got.body[..]), (206, &content[part.clone()]), "{name} {range}");
            let expected = format!("bytes {}-{}/{len}", part.start, part.end - 1);
            assert_eq!(got.field("Content-Range"), Some(&expected[..]));
        }
        // Ranges closer than the size of a part header are merged.
        let near = site.get(&format!("/{name}"), "Range: bytes=0-1,8-9\r\n");
        assert_eq!((near.status, &near.body[..]), (206, &content[..10]), "{name}");
        if len > 10 {
            let several = site.get(&format!("/{name}"), "Range: bytes=20000-29999,0-0,-1000\r\n");
            let expected = [20_000..30_000, 0..1, len - 1000..len].map(|one| (one.start, content[one].to_vec()));
            assert!(parts(&several) == expected, "{name}");
        }
        let beyond = site.get(&format!("/{name}"), &format!("Range: bytes={len}-\r\n"));
        assert_eq!((beyond.status, beyond.field("Content-Range")), (416, Some(&format!("bytes */{len}")[..])));
        let other = site.get(&format!("/{name}"), "Range: bytes=0-0\r\nIf-Range: \"other\"\r\n");
        assert_eq!((other.status, other.body.len()), (200, len));
    }
    assert_eq!(site.get("/empty", "").body, b"");
}

#[test]
fn pipelined_requests_are_answered_in_turn() {
    for kind in kinds() {
        pipelined(kind);
    }
}

fn pipelined(accepting: Accepting) {
    let large = vec![b'x'; 300_000];
    let site = Site::new(&[("a", b"A"), ("large", &large)], |config| config.accepting = accepting);
    let mut client = site.connect();
    let mut requests = String::new();
    for round in 0..50 {
        let name = if round % 10 == 3 { "large" } else { "a" };
        requests.extend(["GET /", name, " HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"]);
    }
    requests += "GET /a HTTP/1.0\r\n\r\n";
    client.send(requests.as_bytes());
    for round in 0..50 {
        let got = client.answer().unwrap_or_else(|| panic!("no answer {round}"));
        assert_eq!(got.body.len(), if round % 10 == 3 { 300_000 } else { 1 }, "{round}");
    }
    assert_eq!(client.answer().unwrap().field("Connection"), Some("close"));
    assert!(client.is_ended());
}

#[test]
fn compressed_forms_are_negotiated() {
    let site = Site::new(&[("s.js", b"plain")], |_| ());
    for (suffix, content) in [("gz", "gzip"), ("br", "brotli")] {
        std::fs::write(site.path().join(format!("s.js.{suffix}")), content).unwrap();
    }
    let ask = |accepted: &str| site.get("/s.js", &format!("Accept-Encoding: {accepted}\r\n"));
    for (accepted, coding, body) in [
        ("gzip", Some("gzip"), "gzip"),
        ("gzip, br", Some("br"), "brotli"),
        ("br;q=0", None, "plain"),
        ("", None, "plain"),
    ] {
        let got = ask(accepted);
        assert_eq!((got.field("Content-Encoding"), &got.body[..]), (coding, body.as_bytes()), "{accepted}");
        assert_eq!(got.field("Vary"), Some("Accept-Encoding"));
        assert!(got.field("Content-Type").unwrap().contains("javascript"), "{got:?}");
    }
}

#[test]
fn changed_files_are_noticed() {
    let site = Site::new(&[("f", b"one")], |config| config.cache_for = Duration::from_millis(1));
    assert_eq!(site.get("/f", "").body, b"one");
    assert_eq!(site.get("/new", "").status, 404);
    std::fs::write(site.path().join("f"), "other").unwrap();
    std::fs::write(site.path().join("new"), "new").unwrap();
    let is_noticed = || site.get("/f", "").body == b"other" && site.get("/new", "").body == b"new";
    let began = std::time::Instant::now();
    while !is_noticed() {
        assert!(began.elapsed() < crate::support::LONG, "the change is never noticed");
    }
    std::fs::remove_file(site.path().join("f")).unwrap();
    while site.get("/f", "").status != 404 {
        assert!(began.elapsed() < crate::support::LONG, "the loss is never noticed");
    }
}

#[test]
fn directories_have_an_index_a_listing_or_neither() {
    let files: &[(&str, &[u8])] = &[("with/index.html", b"index"), ("without/a b", b""), ("without/.hidden", b"")];
    let site = Site::new(files, |_| ());
    assert_eq!(site.get("/with/", "").body, b"index");
    let moved = site.get("/with?q=1", "");
    assert_eq!((moved.status, moved.field("Location")), (301, Some("/with/?q=1")));
    let list = String::from_utf8(site.get("/without/", "").body).unwrap();
    assert!(list.contains("./a%20b") && !list.contains("hidden"), "{list}");
    let json = site.get("/without/", "Accept: application/json\r\n");
    assert!(String::from_utf8(json.body).unwrap().contains("\"a b\""));
    let refused = site.get("/without/", "Accept: text/html;q=0, application/json\r\n");
    assert_eq!(refused.field("Content-Type"), Some("application/json"));
    assert_eq!(site.get("/without/.hidden", "").status, 404);
    assert_eq!(site.get("/without/a%20b/", "").status, 404);
    let closed = Site::new(files, |config| config.listings = false);
    assert_eq!((closed.get("/without/", "").status, closed.get("/with/", "").status), (403, 200));
}

#[test]
fn links_are_followed_only_as_configured() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    let of = |links: Links| {
        let site = Site::new(&[("f", b"inside")], |config| config.links = links);
        symlink("f", site.path().join("in")).unwrap();
        symlink(outside.path().join("secret"), site.path().join("out")).unwrap();
        symlink(outside.path(), site.path().join("folder")).unwrap();
        ["/in", "/out", "/folder/secret"].map(|target| site.get(target, "").status)
    };
    assert_eq!(of(Links::Inside), [200, 404, 404]);
    assert_eq!(of(Links::Never), [404, 404, 404]);
    assert_eq!(of(Links::Anywhere), [200, 200, 200]);
}

/// A listing reveals neither the existence nor the size of a file outside.
#[test]
fn listings_reveal_nothing_about_forbidden_links() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    let of = |accepting: Accepting, links: Links| {
        let files: &[(&str, &[u8])] = &[("f", b"inside"), ("sub/g", b"below")];
        let site = Site::new(files, |config| (config.accepting, config.links) = (accepting, links));
        symlink("../f", site.path().join("sub/in")).unwrap();
        symlink(outside.path().join("secret"), site.path().join("sub/out")).unwrap();
        symlink(outside.path(), site.path().join("sub/place")).unwrap();
        symlink("nowhere", site.path().join("sub/dead")).unwrap();
        std::os::unix::net::UnixListener::bind(site.path().join("sub/socket")).unwrap();
        let list = String::from_utf8(site.get("/sub/", "Accept: application/json\r\n").body).unwrap();
        let named = |name: &str| list.lines().find(|line| line.contains(&format!("\"{name}\"")));
        assert!(named("g").unwrap().contains("\"size\":5"), "{list}");
        assert!(named("dead").is_none() && named("socket").is_none(), "{list}");
        for (name, size) in [("in", "\"size\":6"), ("out", "\"size\":6")] {
            assert!(named(name).is_none_or(|line| line.contains(size)), "{list}");
        }
        ["in", "out", "place"].map(|name| named(name).is_some())
    };
    for kind in kinds() {
        assert_eq!(of(kind, Links::Inside), [true, false, false]);
        assert_eq!(of(kind, Links::Never), [false, false, false]);
        assert_eq!(of(kind, Links::Anywhere), [true, true, true]);
    }
}

/// A large directory delays only the client that lists it: another client's response arrives first.
#[test]
fn long_listings_do_not_delay_others() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..10_001 {
        std::fs::File::create(folder.path().join(format!("{number}"))).unwrap();
    }
    for kind in kinds() {
        let site = Site::new(&[("f", b"content")], |config| {
            (config.accepting, config.links, config.cache_for) = (kind, Links::Anywhere, Duration::ZERO);
        });
        symlink(folder.path(), site.path().join("long")).unwrap();
        let mut other = site.connect();
        let (began, mut is_first) = (std::time::Instant::now(), false);
        // On a busy machine the listing may be complete before the other request is sent.
        while !is_first {
            assert!(began.elapsed() < crate::support::LONG, "{kind:?}: the list always comes first");
            let mut client = site.connect();
            client.send(b"GET //./long/ HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n");
            other.send(b"GET /f HTTP/1.1\r\nHost: x\r\n\r\n");
            assert_eq!(other.answer().unwrap().body, b"content");
            client.stream.set_nonblocking(true).unwrap();
            let came = client.stream.peek(&mut [0]);
            is_first = came.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
            client.stream.set_nonblocking(false).unwrap();
            let list = String::from_utf8(client.answer().unwrap().body).unwrap();
            assert!(list.ends_with("{\"name\":\"\",\"type\":\"cut\",\"most\":10000}\n]\n"));
            assert_eq!(list.lines().count(), 10_003);
        }
    }
}

/// In any order, a listing has the same entries, and none that the client may not read.
#[test]
fn listings_are_sorted_by_the_query() {
    for kind in kinds() {
        let files: &[(&str, &[u8])] =
            &[("d/a", b"333"), ("d/b", b"1"), ("d/c", b"22"), ("d/secret", b""), ("d/e/f", b"")];
        let site = Site::new(files, |config| {
            config.accepting = kind;
            set_rules(
                config,
                "[[rule]]\npath = '/d/secret'\ndeny = '127.0.0.1'\n[[rule]]\npath = '/'\nset-headers = { X-A = '1' }\n",
            );
        });
        let names = |target: &str| {
            let got = site.get(target, "Accept: application/json\r\n");
            assert_eq!((got.status, got.field("X-A")), (200, Some("1")), "{target}");
            let json = String::from_utf8(got.body).unwrap();
            json.split("\"name\":\"").skip(1).map(|rest| rest[..1].to_owned()).collect::<String>()
        };
        // The first time from the file system, then from the cache.
        for _ in 0..2 {
            for (query, expected) in [
                ("", "eabc"),
                ("?x", "eabc"),
                ("?sort=size", "ebca"),
                ("?order=desc&sort=size", "eacb"),
                ("?order=desc", "ecba"),
                ("?page=2", ""),
                ("?sort=size&page=1&more", "ebca"),
            ] {
                assert_eq!(names(&format!("/d/{query}")), expected, "{kind:?} {query}");
            }
        }
        // Other spellings of the path, and several orders over one connection.
        assert_eq!(names("/%64//./?sort=size"), "ebca");
        let mut client = site.connect();
        let request = |query: &str| format!("GET /d/{query} HTTP/1.1\r\nHost: x\r\n\r\n");
        let queries = ["?sort=time", "", "?sort=size&order=desc", "?sort=time&order=desc"];
        client.send(queries.map(request).concat().as_bytes());
        for query in queries {
            let page = String::from_utf8(client.answer().unwrap().body).unwrap();
            assert!(page.contains("./a\"") && !page.contains("secret"), "{kind:?} {query}: {page}");
        }
        assert_eq!(site.get("/d/a?sort=size", "").body, b"333", "a file has no order");
    }
}

/// Pipelined requests are answered in order, wherever a listing is among them. All spellings of a path get the same
/// listing.
#[test]
fn listings_keep_the_order_of_pipelined_requests() {
    for kind in kinds() {
        for cache_bytes in [0, 1 << 20] {
            let files: &[(&str, &[u8])] = &[("f", b"content"), ("sub/g", b""), ("sub/a%20b/h", b"")];
            let site = Site::new(files, |config| {
                (config.accepting, config.cache_bytes, config.cache_for) = (kind, cache_bytes, Duration::from_hours(1));
            });
            let mut clients: Vec<_> = (0..5).map(|_| site.connect()).collect();
            for client in &mut clients {
                for target in ["/f", "/sub/", "/f", "//sub/./", "/s%75b/../", "/", "/sub/a%20b/", "/sub/a%2520b/"] {
                    client.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
                }
                // A body, in pieces or whole, followed by another request.
                client.send(b"GET /sub/ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nab");
                client.send(b"cGET /sub/ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcGET /f HTTP/1.0\r\n\r\n");
            }
            let of_sub = "./a%2520b/";
            let expected =
                ["content", of_sub, "content", of_sub, "./sub/", "./sub/", "404", "./h", of_sub, of_sub, "content"];
            for client in &mut clients {
                for part in expected {
                    let body = String::from_utf8(client.answer().unwrap().body).unwrap();
                    assert!(body.contains(part), "{kind:?} {part}: {body}");
                }
                assert!(client.is_ended());
            }
        }
    }
}

/// The listing is made after the request's body has arrived, and the connection stays usable.
#[test]
fn a_listing_waits_for_the_body_of_its_request() {
    for kind in kinds() {
        let site = Site::new(&[("f", b"content"), ("sub/g", b"")], |config| config.accepting = kind);
        let mut client = site.connect();
        client.send(b"GET /f HTTP/1.1\r\nHost: x\r\n\r\nGET /sub/ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na");
        assert_eq!(client.answer().unwrap().body, b"content");
        client.send(b"bcGET /f HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(String::from_utf8(client.answer().unwrap().body).unwrap().contains("./g"), "{kind:?}");
        assert_eq!(client.answer().unwrap().body, b"content", "{kind:?}");
    }
}

#[test]
fn each_virtual_host_has_its_directory() {
    let files: &[(&str, &[u8])] = &[("a.example/f", b"A"), ("default/f", b"D"), ("default/only", b"O")];
    let site = Site::new(files, |config| config.virtual_hosts = true);
    let ask = |host: &str, target: &str| {
        let mut client = site.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        let got = client.answer().unwrap();
        (got.status, got.body)
    };
    assert_eq!(ask("A.example:80", "/f"), (200, b"A".to_vec()));
    assert_eq!(ask("other", "/f"), (200, b"D".to_vec()));
    assert_eq!(ask("a.example", "/only").0, 404, "no host sees another's files");
    assert_ne!(ask("..", "/a.example/f").0, 200);
}

/// A cache of any size holds few descriptors. The test counts the descriptors of files in this directory in the whole
/// process.
#[test]
#[cfg(target_os = "linux")]
fn the_cache_holds_few_descriptors() {
    for kind in kinds() {
        let site = Site::new(&[], |config| (config.cache_bytes, config.accepting) = (1 << 30, kind));
        for number in 0..150 {
            let file = std::fs::File::create(site.path().join(format!("{number}"))).unwrap();
            file.set_len(70_000).unwrap();
            assert_eq!(site.get(&format!("/{number}"), "").body.len(), 70_000);
        }
        let open = |entry: std::io::Result<std::fs::DirEntry>| std::fs::read_link(entry.ok()?.path()).ok();
        // Of all threads, because each worker has its own descriptor table.
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let of_task = |task: std::fs::DirEntry| {
            let files = std::fs::read_dir(task.path().join("fd")).into_iter().flatten();
            files.filter_map(open).filter(|path| path.parent() == Some(site.path())).count()
        };
        let most = tasks.map(of_task).max().unwrap();
        assert!(most <= 64, "{kind:?}: {most} of 150");
    }
}

/// Host lookups are cached as long as file lookups: no request queries the file system for its host.
#[test]
fn host_lookups_are_cached() {
    for kind in kinds() {
        let files: &[(&str, &[u8])] = &[("a.example/f", b"A"), ("default/f", b"D"), ("default/g", b"G")];
        let site = Site::new(files, |config| {
            (config.virtual_hosts, config.accepting, config.cache_for) = (true, kind, Duration::from_hours(1));
        });
        let mut client = site.connect();
        let mut ask = |host: &str| {
            client.send(format!("GET /f HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
            client.answer().unwrap().body
        };
        assert_eq!((ask("a.example"), ask("b.example")), (b"A".to_vec(), b"D".to_vec()));
        std::fs::rename(site.path().join("a.example"), site.path().join("b.example")).unwrap();
        assert_eq!((ask("a.example"), ask("b.example")), (b"A".to_vec(), b"D".to_vec()), "{kind:?}");
    }
}

#[test]
fn unix_sockets_and_both_families() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let site = Site::new(&[("f", b"content")], |config| {
        config.listen.push(format!("unix:{}", socket.display()).parse().unwrap());
        config.listen.push("[::]:0".parse().unwrap());
        config.workers = 3;
    });
    let stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    let mut stream = std::io::BufReader::new(stream);
    std::io::Write::write_all(stream.get_mut(), b"GET /f HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stream, &mut text).unwrap();
    assert!(text.ends_with("\r\n\r\ncontent"), "{text}");
    let landau_serve::Listen::Tcp(both) = site.server().addresses()[2].clone() else { panic!() };
    for address in [format!("127.0.0.1:{}", both.port()), format!("[::1]:{}", both.port())] {
        let mut client = crate::support::Client::new(std::net::TcpStream::connect(address).unwrap());
        client.send(b"GET /f HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(client.answer().unwrap().body, b"content");
    }
    assert_eq!(site.end().succeeded, 3);
    assert!(!socket.exists(), "the socket goes with the server");
}
