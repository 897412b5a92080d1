//! Rules that limit who may read, and how much.

use crate::support::{Client, Got, Site, kinds, set_rules, until};
use base64::Engine;
use landau_serve::{Accepting, AccessLog, Config, LogFormat, LogTarget, Networks};
use landau_sys::path::Links;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

/// `openssl passwd -5 -salt saltsalt hello`.
const USERS: &str = "ann:$5$saltsalt$kfE3pS1dKPPHrilLCLWxLECEVLX8Au49cWIQg7GMQ05\n";

const FILES: &[(&str, &[u8])] = &[
    ("admin/secret.html", b"secret"),
    ("admin/secret.html.gz", b"secret"),
    ("admin/sub/a", b"secret"),
    ("open/a", b"open"),
    ("open/b.html", b"open"),
];

fn login(text: &str) -> String {
    format!("Authorization: Basic {}\r\n", base64::engine::general_purpose::STANDARD.encode(text))
}

/// Returns a server whose directory `admin` requires a login.
fn guarded(kind: Accepting) -> Site {
    guarded_with(kind, |_| ())
}

fn guarded_with(kind: Accepting, change: impl FnOnce(&mut Config)) -> Site {
    let users = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(users.path(), USERS).unwrap();
    let text = format!(
        "[[rule]]\npath = '/'\nset-headers = {{ X-A = '1' }}\nerror-pages = {{ 401 = '/open/a' }}\n\
         [[rule]]\npath = '/admin/'\nauth = {{ users = '{}', realm = 'Admins' }}\n",
        users.path().display()
    );
    let site = Site::new(FILES, |config| {
        config.accepting = kind;
        config.links = Links::Inside;
        set_rules(config, &text);
        change(config);
    });
    // Newer than the file next to the link to it: otherwise it would not be the compressed form of that file.
    std::fs::write(site.path().join("admin/secret.html.gz"), "secret").unwrap();
    symlink("../admin/secret.html", site.path().join("open/link.html")).unwrap();
    symlink("../admin", site.path().join("open/folder")).unwrap();
    symlink("../admin/secret.html.gz", site.path().join("open/b.html.gz")).unwrap();
    site
}

/// Sends a request on a separate connection.
fn ask(site: &Site, method: &str, target: &str, fields: &str) -> Got {
    let mut client = site.connect();
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n").as_bytes());
    client.answer_of(method != "HEAD").unwrap()
}

/// Ways to a file that a rule protects. Each was tried without the rule: all that exist then have status 200.
const WAYS: &[&str] = &[
    "/admin",
    "/admin/",
    "/admin/none",
    "/admin/secret.html",
    "/admin/secret.html?a",
    "/admin/secret.html.gz",
    "/%61dmin/secret.html",
    "/%61%64%6d%69%6e/%73ecret.html",
    "//admin//secret.html",
    "/./admin/./secret.html",
    "/open/../admin/secret.html",
    "/open/%2e%2e/admin/secret.html",
    "/admin/sub/../secret.html",
    "/admin/sub/a",
    "/admin/.hidden",
    "/admin/%2f",
    "/admin/..%2fadmin%2fsecret.html",
    "/ADMIN/secret.html",
    "/Admin/Secret.HTML",
    "/open/link.html",
    "/open/folder",
    "/open/folder/",
    "/open/folder/secret.html",
    "http://x/admin/secret.html",
];

#[test]
fn a_rule_is_not_evaded() {
    for kind in kinds() {
        let site = guarded(kind);
        let conditions =
            ["", "Range: bytes=0-1\r\n", "If-None-Match: *\r\n", "Accept-Encoding: gzip\r\n", "If-Match: x\r\n"];
        // First from the file system, then from the cache.
        for way in WAYS.iter().chain(WAYS) {
            for fields in conditions {
                for method in ["GET", "HEAD"] {
                    let got = ask(&site, method, way, fields);
                    assert_eq!(got.status, 401, "{method} {way} {fields}");
                    let challenge = "Basic realm=\"Admins\", charset=\"UTF-8\"";
                    assert_eq!((got.field("WWW-Authenticate"), got.field("X-A")), (Some(challenge), Some("1")));
                    let page: &[u8] = if method == "HEAD" { b"" } else { b"open" };
                    assert_eq!((&got.body[..], got.field("ETag")), (page, None), "{method} {way}");
                }
            }
            for method in ["POST", "OPTIONS", "DELETE"] {
                let got = ask(&site, method, way, "");
                assert!([204, 405].contains(&got.status) && got.field("ETag").is_none(), "{method} {way}");
                assert!(!String::from_utf8_lossy(&got.body).contains("secret"), "{method} {way}");
            }
        }
        // The compressed form of an open file is a link to a protected one.
        let got = site.get("/open/b.html", "Accept-Encoding: gzip\r\n");
        assert_eq!((got.status, got.body), (401, b"open".to_vec()));
        assert_eq!((site.get("/open/a", "").status, site.get("/open/none", "").status), (200, 404));
    }
}

/// Workers with a ring once determined addresses only for the log. No `deny` applied to any client, and `allow =
/// "unix"` applied to all.
#[test]
fn addresses_are_those_of_the_clients() {
    for kind in kinds() {
        for (rule, expected) in [
            ("deny = '127.0.0.0/8'", 403),
            ("allow = 'unix'", 403),
            ("allow = '127.0.0.1'", 200),
            ("deny = 'unix'", 200),
        ] {
            let site = Site::new(&[("a", b"a")], |config| {
                config.accepting = kind;
                set_rules(config, &format!("[[rule]]\npath = '/'\n{rule}\n"));
            });
            assert_eq!(site.get("/a", "").status, expected, "{kind:?} {rule}");
        }
    }
}

#[test]
fn users_log_in() {
    for kind in kinds() {
        let site = guarded(kind);
        let right = login("ann:hello");
        for wrong in ["ann:Hello", "ann:", "bob:hello", ":", "ann"] {
            assert_eq!(site.get("/admin/secret.html", &login(wrong)).status, 401, "{wrong}");
        }
        assert_eq!(site.get("/admin/secret.html", "Authorization: Basic !\r\n").status, 401);
        assert_eq!(site.get("/admin/secret.html", &format!("{right}{}", login("x:y"))).status, 401, "which of both?");
        let got = site.get("/admin/secret.html", &right);
        assert_eq!((got.status, &got.body[..], got.field("X-A")), (200, &b"secret"[..], Some("1")));
        let tag = got.field("ETag").unwrap();
        assert_eq!(site.get("/admin/secret.html", &format!("{right}If-None-Match: {tag}\r\n")).status, 304);
        assert_eq!(site.get("/admin/secret.html", &format!("{right}Range: bytes=1-2\r\n")).body, b"ec");
        assert_eq!(site.get("/admin/none", &right).status, 404);
        assert_eq!(site.get("/open/link.html", &right).body, b"secret");
        // While the first request waits for its password, the others wait for their turn.
        let mut client = site.connect();
        let head = |target: &str, fields: &str| format!("GET {target} HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
        let mut requests = head("/admin/sub/a", &login("ann:other"));
        requests += &head("/open/a", "");
        requests.extend(["POST /admin/x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n", &right, "\r\nabc"]);
        requests += &head("/admin/sub/a", &right);
        client.send(requests.as_bytes());
        let mut status = || client.answer().unwrap().status;
        assert_eq!([status(), status(), status(), status()], [401, 200, 405, 200]);
    }
}

/// The line once had no user, even after a login.
#[test]
fn the_log_has_the_user_who_has_logged_in() {
    for kind in kinds() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("log");
        let site = guarded_with(kind, |config| {
            config.log = Some(AccessLog { target: LogTarget::File(path.clone()), format: LogFormat::Common });
        });
        let mut client = site.connect();
        for (target, fields, status) in [
            ("/admin/sub/a", login("ann:hello"), 200),
            ("/open/a", login("ann:hello"), 200),
            ("/admin/none", login("ann:hello"), 404),
            ("/admin/sub/a", login("ann:wrong"), 401),
            ("/admin/sub/a", String::new(), 401),
        ] {
            client.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\n{fields}\r\n").as_bytes());
            assert_eq!(client.answer().unwrap().status, status, "{target} {fields}");
        }
        drop(client);
        site.end();
        let text = std::fs::read_to_string(&path).unwrap();
        let users: Vec<&str> = text.lines().map(|line| line.split(' ').nth(2).unwrap()).collect();
        assert_eq!(users, ["ann", "-", "ann", "-", "-"], "{text}");
    }
}

#[test]
fn a_listing_shows_only_what_its_reader_may_read() {
    let site = guarded(Accepting::Own);
    let list = |target: &str, fields: &str| String::from_utf8(site.get(target, fields).body).unwrap();
    let open = list("/", "");
    assert!(open.contains("./open/") && !open.contains("admin"), "{open}");
    let admin = list("/admin/", &login("ann:hello"));
    assert!(admin.contains("secret.html") && admin.contains("./sub/"), "{admin}");
}

/// Logins of clients that have disconnected, or that try one password after another, end eventually.
#[test]
fn a_crowd_that_logs_in_is_bounded() {
    let site = guarded_with(Accepting::Own, |config| config.workers = 1);
    // One login is verified and 32 wait while the others arrive.
    let mut clients: Vec<Client> = (0..200).map(|_| site.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let fields = login(&format!("ann:{number}"));
        client.send(format!("GET /admin/ HTTP/1.1\r\nHost: x\r\n{fields}\r\n").as_bytes());
        if number % 3 == 0 {
            client.stream.shutdown(std::net::Shutdown::Both).unwrap();
        }
    }
    let answers: Vec<u16> = clients
        .iter_mut()
        .enumerate()
        .filter(|(number, _)| number % 3 != 0)
        .map(|(_, client)| client.answer().unwrap().status)
        .collect();
    assert!(answers.iter().all(|status| [401, 503].contains(status)), "{answers:?}");
    assert!(answers.contains(&401) && answers.contains(&503), "{answers:?}");
    assert_eq!(site.get("/admin/secret.html", &login("ann:hello")).status, 200);
}

#[test]
fn addresses_are_allowed_and_denied() {
    let site = Site::new(FILES, |config| {
        let mut proxies = Networks::default();
        proxies.add("127.0.0.1").unwrap();
        config.forwarded_from = Some(proxies);
        set_rules(
            config,
            "[[rule]]\npath = '/admin/'\nallow = ['10.0.0.0/8', '2001:db8::/32']\ndeny = '10.0.0.66'\n\
             [[rule]]\npath = '/open/'\ndeny = '127.0.0.0/8'\n",
        );
    });
    let status = |target: &str, client: &str| site.get(target, &format!("X-Forwarded-For: {client}\r\n")).status;
    for (client, admin, open) in [
        ("10.0.0.1", 200, 200),
        ("10.0.0.66", 403, 200),
        ("2001:db8::1", 200, 200),
        ("11.0.0.1", 403, 200),
        ("10.0.0.1, 11.0.0.1", 403, 200),
        ("nonsense", 403, 403),
    ] {
        assert_eq!((status("/admin/sub/a", client), status("/open/a", client)), (admin, open), "{client}");
    }
    assert_eq!((site.get("/admin/sub/a", "").status, site.get("/open/a", "").status), (403, 403));
    assert_eq!(site.get("/", "").status, 200);
}

#[test]
fn a_client_that_asks_too_often_is_told_to_wait() {
    let site = Site::new(FILES, |config| {
        let mut proxies = Networks::default();
        proxies.add("127.0.0.1").unwrap();
        config.forwarded_from = Some(proxies);
        set_rules(config, "[[rule]]\npath = '/admin/'\nrate = '1/h'\nburst = 2\n");
    });
    let asks = |client: &str| site.get("/admin/sub/a", &format!("X-Forwarded-For: {client}\r\n"));
    assert_eq!([(); 5].map(|()| asks("1.2.3.4").status), [200, 200, 200, 429, 429]);
    let wait_s: u32 = asks("1.2.3.4").field("Retry-After").unwrap().parse().unwrap();
    assert!((3000..=3600).contains(&wait_s), "{wait_s}");
    assert_eq!((asks("1.2.3.5").status, site.get("/open/a", "").status), (200, 200));
}

/// A denied path once had 405 for POST, and a flood of POST was not counted.
#[test]
fn addresses_and_rates_are_for_all_methods() {
    let rules = "[[rule]]\npath = '/admin/'\ndeny = '127.0.0.1'\nerror-pages = { 403 = '/open/a' }\n\
                 cors = { origins = 'https://a.example' }\n\
                 [[rule]]\npath = '/open/'\nrate = '1/h'\nburst = 3\n";
    for kind in kinds() {
        let site = Site::new(FILES, |config| {
            config.accepting = kind;
            set_rules(config, rules);
        });
        for method in ["GET", "POST", "DELETE", "OPTIONS", "TRACE", "BREW"] {
            for way in ["/admin/sub/a", "/ADMIN/none", "/%61dmin/"] {
                let got = ask(&site, method, way, "");
                assert_eq!(got.status, 403, "{method} {way}");
                let page: &[u8] = if way == "/ADMIN/none" { b"403 Forbidden\n" } else { b"open" };
                assert_eq!(got.body, page, "{method} {way}");
            }
        }
        let preflight = "Origin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n";
        assert_eq!(ask(&site, "OPTIONS", "/admin/sub/a", preflight).status, 204);
        assert_eq!(ask(&site, "OPTIONS", "*", "").status, 204);
        let statuses =
            ["POST", "GET", "OPTIONS", "HEAD", "POST", "GET"].map(|method| ask(&site, method, "/open/a", "").status);
        assert_eq!(statuses, [405, 200, 204, 200, 429, 429], "{kind:?}");
    }
}

/// Listing pages in other orders are costly. They are made only for clients that may have them, and only a few at once.
#[test]
fn a_crowd_that_asks_for_pages_is_bounded() {
    let site = Site::new(FILES, |config| {
        config.workers = 1;
        set_rules(config, "[[rule]]\npath = '/many/'\nrate = '1/h'\nburst = 49\n");
    });
    std::fs::create_dir(site.path().join("many")).unwrap();
    for number in 0..3000 {
        std::fs::write(site.path().join(format!("many/{number}")), "x").unwrap();
    }
    let ask = |page: usize| {
        let mut client = site.connect();
        let query = ["sort=size", "sort=time", "sort=size&order=desc", "sort=time&order=desc", "order=desc"][page % 5];
        let target = format!("/many/?{query}&page={}", page / 5 % 10 + 1);
        client.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
        client
    };
    let answers = |count| {
        let mut clients: Vec<_> = (0..count).map(ask).collect();
        clients.iter_mut().map(|client| client.answer().unwrap().status).collect::<Vec<u16>>()
    };
    let admitted = answers(50);
    assert!(admitted.contains(&200) && admitted.iter().all(|status| [200, 503].contains(status)), "{admitted:?}");
    // Every request is counted once, including those that waited. Requests over the limit order no page, which could
    // fail.
    let refused = answers(50);
    assert!(refused.iter().all(|&status| status == 429), "{refused:?}");
    assert_eq!(site.get("/open/a", "").status, 200);
}

/// Another spelling or a link would otherwise allow trying passwords at any rate.
#[test]
#[cfg(target_os = "linux")]
fn a_limit_of_requests_is_not_evaded() {
    for way in ["/ADMIN/sub/a", "/admin/sub/a.gz", "/open/folder/sub/a", "/open/index/"] {
        let site = Site::new(FILES, |config| {
            config.links = Links::Inside;
            set_rules(config, "[[rule]]\npath = ['/admin/', '/open/index/index.html']\nrate = '1/h'\nburst = 1\n");
        });
        symlink("../admin", site.path().join("open/folder")).unwrap();
        std::fs::create_dir(site.path().join("open/index")).unwrap();
        symlink("../a", site.path().join("open/index/index.html")).unwrap();
        let limited = [(); 3].map(|()| site.get(way, "").status == 429);
        assert_eq!(limited, [false, false, true], "{way}");
        assert!(String::from_utf8(site.get("/", "").body).unwrap().contains("admin"), "a limit hides nothing");
    }
}

/// The opened name is neither the requested one nor that of the file to which it leads.
#[test]
#[cfg(target_os = "linux")]
fn a_rule_holds_for_a_name_that_was_not_requested() {
    let site = Site::new(&[("store/ab12", b"secret"), ("reports/a", b"")], |config| {
        config.links = Links::Inside;
        set_rules(
            config,
            "[[rule]]\npath = '/reports/'\nclean-urls = true\n[[rule]]\npath = '/try/'\n\
             try-files = '/reports/fallback'\n[[rule]]\n\
             path = ['/reports/index.html', '/reports/q1.html', '/reports/fallback']\ndeny = '127.0.0.0/8'\n",
        );
    });
    for name in ["index.html", "q1.html", "fallback", "a.gz"] {
        symlink("../store/ab12", site.path().join("reports").join(name)).unwrap();
    }
    for way in ["/reports/", "/reports/q1", "/try/x", "/reports/index.html", "/reports/q1.html", "/reports/fallback"] {
        assert_eq!(site.get(way, "").status, 403, "{way}");
    }
    assert_eq!((site.get("/store/ab12", "").status, site.get("/reports/a", "").status), (200, 200));
}

#[test]
#[cfg(target_os = "linux")]
fn a_link_evades_no_rule_of_a_virtual_host() {
    let files: &[(&str, &[u8])] = &[("pool/site1/secret/x", b"secret"), ("pool/site1/y", b"y"), ("two/z", b"z")];
    let site = Site::new(files, |config| {
        config.links = Links::Inside;
        config.virtual_hosts = true;
        set_rules(config, "[[rule]]\npath = '/secret/'\ndeny = '127.0.0.0/8'\n");
    });
    symlink("pool/site1", site.path().join("one")).unwrap();
    symlink("secret", site.path().join("pool/site1/pub")).unwrap();
    symlink("../pool/site1/secret", site.path().join("two/pub")).unwrap();
    let status = |host: &str, path: &str| {
        let mut client = site.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        client.answer().unwrap().status
    };
    for (host, path) in [("one", "/secret/x"), ("one", "/pub/x"), ("two", "/pub/x"), ("one", "/pub/")] {
        assert_eq!(status(host, path), 403, "{host} {path}");
    }
    assert_eq!((status("one", "/y"), status("two", "/z")), (200, 200));
}

#[test]
#[cfg(target_os = "linux")]
fn a_listing_over_links_tells_nothing_of_what_is_restricted() {
    let site = Site::new(&[("real/private", b"s"), ("real/public", b"p")], |config| {
        config.links = Links::Inside;
        set_rules(config, "[[rule]]\npath = '/real/private'\ndeny = '127.0.0.0/8'\n");
    });
    symlink("real", site.path().join("view")).unwrap();
    symlink("private", site.path().join("real/to-it")).unwrap();
    symlink("public", site.path().join("real/to-public")).unwrap();
    for folder in ["/real/", "/view/"] {
        let list = String::from_utf8(site.get(folder, "").body).unwrap();
        assert!(list.contains("./public") && list.contains("./to-public"), "{list}");
        assert!(!list.contains("private") && !list.contains("to-it"), "{list}");
    }
}

/// The file is unchanged, so its content need not be read again, but a rule now applies to it.
#[test]
#[cfg(target_os = "linux")]
fn an_unchanged_file_gets_new_restrictions() {
    let site = Site::new(&[("open/a", b"a")], |config| {
        config.links = Links::Inside;
        config.cache_for = Duration::from_millis(1);
        set_rules(config, "[[rule]]\npath = '/secret/'\ndeny = '127.0.0.0/8'\n");
    });
    symlink("open", site.path().join("current")).unwrap();
    // Longer than a step of the file system's clock, so the file is not read again from now on.
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(site.get("/current/a", "").status, 200);
    std::fs::rename(site.path().join("open"), site.path().join("secret")).unwrap();
    symlink("secret", site.path().join("next")).unwrap();
    std::fs::rename(site.path().join("next"), site.path().join("current")).unwrap();
    until("the file is still open to all", || site.get("/current/a", "").status == 403);
}

/// Without the limit, the content would arrive in milliseconds. A slow machine makes it later, never earlier. Linux
/// does not pace the first ten segments of a connection, which have 64 KB each on the loopback interface.
#[test]
#[cfg(target_os = "linux")]
fn bandwidth_is_limited() {
    let large = vec![b'x'; 3_000_000];
    let site = Site::new(&[("slow/a", &large), ("fast", &large)], |config| {
        set_rules(config, "[[rule]]\npath = '/slow/'\nbandwidth = '1MiB'\n");
    });
    assert_eq!(site.get("/fast", "").body.len(), 3_000_000);
    let began = Instant::now();
    let got = site.get("/slow/a", "");
    assert!(got.body == large);
    assert!(began.elapsed() > Duration::from_secs(1), "{:?}", began.elapsed());
}
