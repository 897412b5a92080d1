//! Rules by path.

use crate::support::{Site, kinds, set_rules};
use landau_serve::LiveRules;
use std::sync::Arc;

const FIELDS: &str = "
    [[rule]]
    path = '/'
    set-headers = { X-Frame-Options = 'DENY', Strict-Transport-Security = 'max-age=1' }
    [[rule]]
    path = '/assets/'
    set-headers = { Cache-Control = 'max-age=31536000, immutable' }
    add-headers = { Link = ['</a>; rel=preload', '</b>; rel=preload'] }
    remove-headers = ['ETag', 'Last-Modified']
";

#[test]
fn fields_are_those_of_the_rules() {
    let files: &[(&str, &[u8])] = &[("a", b"hello"), ("assets/a b.js", b"0123456789"), ("assets/sub/x", b"x")];
    let site = Site::new(files, |config| set_rules(config, FIELDS));
    // First from the file system, then from the cache.
    for _ in 0..2 {
        let plain = site.get("/a", "");
        assert_eq!((plain.status, plain.field("X-Frame-Options")), (200, Some("DENY")));
        assert_eq!((plain.field("Cache-Control"), plain.field("ETag").is_some()), (None, true));
        assert_eq!(plain.field("Strict-Transport-Security"), None, "it must not be sent without TLS");
        for target in ["/assets/a%20b.js", "/%61ssets/a%20b.js", "/assets/./a%20b.js", "/x/../assets//a%20b.js?q"] {
            let asset = site.get(target, "");
            assert_eq!((asset.status, &asset.body[..]), (200, &b"0123456789"[..]), "{target}");
            assert_eq!(asset.field("X-Frame-Options"), Some("DENY"));
            assert_eq!(asset.field("Cache-Control"), Some("max-age=31536000, immutable"), "{target}");
            assert_eq!((asset.field("ETag"), asset.field("Last-Modified")), (None, None));
            assert_eq!(asset.head.matches("Link: </").count(), 2, "{}", asset.head);
        }
    }
    let part = site.get("/assets/a%20b.js", "Range: bytes=0-1\r\n");
    assert_eq!((part.status, part.field("Cache-Control").is_some()), (206, true));
    let unchanged = site.get("/a", &format!("If-None-Match: {}\r\n", site.get("/a", "").field("ETag").unwrap()));
    assert_eq!((unchanged.status, unchanged.field("X-Frame-Options")), (304, Some("DENY")));
    let folder = site.get("/assets/sub", "");
    assert_eq!((folder.status, folder.field("X-Frame-Options")), (301, Some("DENY")));
    let list = site.get("/assets/sub/", "");
    assert_eq!((list.status, list.head.matches("Cache-Control").count()), (200, 1), "{}", list.head);
    // A file that is missing now may exist in a minute.
    let missing = site.get("/assets/none", "");
    assert_eq!((missing.status, missing.field("X-Frame-Options")), (404, Some("DENY")));
    assert_eq!(missing.field("Cache-Control"), None);
    site.end();
}

/// The entries in the cache were made by the previous rules.
#[test]
fn a_reload_replaces_the_rules_at_once() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("serve.toml");
    let write = |value: &str| {
        std::fs::write(&path, format!("[[rule]]\npath = '/'\nset-headers = {{ X-A = '{value}' }}\n")).unwrap();
    };
    write("one");
    let live = Arc::new(LiveRules::read(&path, &[], |_| Vec::new()).unwrap());
    let site = Site::new(&[("a", b"hello")], |config| {
        config.rules = Some(live.clone());
        config.cache_for = std::time::Duration::from_secs(3600);
    });
    let mut client = site.connect();
    let mut ask = || {
        client.send(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
        client.answer().unwrap().field("X-A").unwrap().to_owned()
    };
    assert_eq!((ask(), ask()), ("one".to_owned(), "one".to_owned()));
    write("two");
    assert_eq!(ask(), "one", "nobody has asked for a reload");
    site.server().remote().reload_rules();
    assert_eq!(ask(), "two");
    std::fs::write(&path, "[[rule]]\nset-headers = { X-A = 'three' }\n").unwrap();
    site.server().remote().reload_rules();
    assert_eq!(ask(), "two", "a rule without a path is an error");
}

/// Sends a request with this first line and these fields on a separate connection.
fn ask(site: &Site, line: &str, fields: &str) -> crate::support::Got {
    let mut client = site.connect();
    client.send(format!("{line} HTTP/1.1\r\nHost: x:8080\r\nConnection: close\r\n{fields}\r\n").as_bytes());
    client.answer_of(!line.starts_with("HEAD")).unwrap()
}

#[test]
fn redirects_keep_the_rest_and_the_query() {
    let site = Site::new(&[("a", b"hello"), ("new/x", b"x")], |config| {
        set_rules(
            config,
            "[[rule]]\npath = '/old/'\nredirect = '/new/{rest}'\nredirect-status = 308\n\
             [[rule]]\npath = '/old/kept'\nredirect = false\n\
             [[rule]]\npath = '/b'\nredirect = 'https://b.example/?a=1'\n\
             [[rule]]\npath = '/secure/'\nhttps = 8443\n\
             [[rule]]\npath = '/moved/'\nredirect = 'https://b.example/{rest}'\n",
        );
    });
    for (target, status, location) in [
        ("/old/x?y=1", 308, "/new/x?y=1"),
        ("/old", 308, "/new/"),
        ("/old//b.example", 308, "/new/b.example"),
        ("/%6fld/a%20b", 308, "/new/a%20b"),
        ("/b?c=2", 302, "https://b.example/?a=1"),
        ("/secure/a?b", 308, "https://x:8443/secure/a?b"),
        ("/secure", 308, "https://x:8443/secure"),
        // A path that would be hidden if files were served.
        ("/moved/.a", 302, "https://b.example/.a"),
    ] {
        for method in ["GET", "HEAD"] {
            let got = ask(&site, &format!("{method} {target}"), "");
            assert_eq!((got.status, got.field("Location")), (status, Some(location)), "{method} {target}");
        }
    }
    assert_eq!((site.get("/old/kept", "").status, site.get("/a", "").status), (404, 200));
    let mut old = site.connect();
    old.send(b"GET /secure/ HTTP/1.0\r\n\r\n");
    assert_eq!(old.answer().unwrap().status, 404, "without a host there is nothing to redirect to");
}

/// A form sent to a path that has moved was once refused, although 307 and 308 keep its method.
#[test]
fn redirects_are_for_all_methods() {
    let rules = "[[rule]]\npath = '/old/'\nredirect = '/new/{rest}'\nredirect-status = 307\n\
                 cors = { origins = '*', methods = ['POST'] }\n\
                 [[rule]]\npath = '/old/own/'\ndeny = '127.0.0.1'\n\
                 [[rule]]\npath = '/secure/'\nhttps = true\n\
                 [[rule]]\npath = '/secure/old'\nredirect = '/new'\n";
    for kind in kinds() {
        let site = Site::new(&[("secure/a", b"a")], |config| {
            config.accepting = kind;
            set_rules(config, rules);
        });
        for (line, status, location) in [
            ("POST /old/x?y", 307, Some("/new/x?y")),
            ("DELETE /old/x", 307, Some("/new/x")),
            ("PURGE /old/x", 307, Some("/new/x")),
            ("OPTIONS /old/x", 307, Some("/new/x")),
            ("POST /old/own/x", 403, None),
            ("PUT /secure/a?b", 308, Some("https://x/secure/a?b")),
            ("POST /secure/none", 308, Some("https://x/secure/none")),
            ("POST /secure/old", 308, Some("https://x/secure/old")),
            ("POST /new/x", 405, None),
        ] {
            for body in
                ["\r\n", "Content-Length: 4\r\n\r\nbody", "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"]
            {
                let mut client = site.connect();
                client.send(format!("{line} HTTP/1.1\r\nHost: x:8080\r\n{body}").repeat(2).as_bytes());
                for _ in 0..2 {
                    let got = client.answer().unwrap();
                    assert_eq!((got.status, got.field("Location")), (status, location), "{kind:?} {line}");
                }
            }
        }
        // Without a host there is no target for a redirect, and no file is sent.
        let mut old = site.connect();
        old.send(b"POST /secure/a HTTP/1.0\r\n\r\n");
        assert_eq!(old.answer().unwrap().status, 405);
        let preflight = "Origin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n";
        let got = ask(&site, "OPTIONS /old/x", preflight);
        assert_eq!((got.status, got.field("Access-Control-Allow-Methods")), (204, Some("POST")), "{}", got.head);
    }
}

#[test]
fn what_is_missing_is_looked_for_elsewhere() {
    let files: &[(&str, &[u8])] = &[
        ("index.html", b"app"),
        ("about.html", b"about"),
        ("docs/index.html", b"docs"),
        ("both.html", b"file"),
        ("both/x", b"x"),
        ("app/main.js", b"js"),
        ("app/.hidden.html", b"secret"),
    ];
    let site = Site::new(files, |config| {
        set_rules(
            config,
            "[[rule]]\npath = '/'\nclean-urls = true\n\
             [[rule]]\npath = '/app/'\ntry-files = ['{path}.html', '/index.html']\n",
        );
    });
    for _ in 0..2 {
        for (target, status, body) in [
            ("/about", 200, &b"about"[..]),
            ("/app/some/page?x", 200, b"app"),
            ("/app/main.js", 200, b"js"),
            ("/app/.hidden", 404, b"404 Not Found\n"),
            ("/nothing", 404, b"404 Not Found\n"),
            ("/docs/", 200, b"docs"),
            ("/both.html", 200, b"file"),
        ] {
            let got = site.get(target, "");
            assert_eq!((got.status, &got.body[..]), (status, body), "{target}");
        }
        assert_eq!(site.get("/app/page", "").field("Content-Type"), Some("text/html; charset=utf-8"));
        for (target, location) in [
            ("/about.html?a=b", "/about?a=b"),
            ("/index.html", "/"),
            ("/docs/index.html", "/docs/"),
            ("/both", "/both/"),
        ] {
            let got = site.get(target, "");
            assert_eq!((got.status, got.field("Location")), (301, Some(location)), "{target}");
        }
        let part = site.get("/app/page", "Range: bytes=1-1\r\n");
        assert_eq!((part.status, &part.body[..]), (206, &b"p"[..]));
    }
}

/// A path is not redirected to one with another file, or without a file.
#[test]
fn clean_urls_lead_to_the_same_file() {
    let files: &[(&str, &[u8])] = &[("index.html", b"first"), ("home.html", b"other"), ("d/home.html", b"only")];
    let site = Site::new(files, |config| {
        config.index = vec!["index.html".to_owned(), "home.html".to_owned()];
        set_rules(config, "[[rule]]\npath = '/'\nclean-urls = true\n");
    });
    let location = |target: &str| site.get(target, "").field("Location").map(str::to_owned);
    assert_eq!(location("/home.html").as_deref(), Some("/home"));
    assert_eq!(&site.get("/home", "").body[..], b"other");
    assert_eq!(location("/d/home.html").as_deref(), Some("/d/"));
    let about: &[(&str, &[u8])] = &[("about.html", b"about")];
    for (rules, of_clean) in [
        ("[[rule]]\npath = '*.html'\nclean-urls = true\n", 404),
        ("[[rule]]\npath = '/'\nclean-urls = true\n[[rule]]\npath = '/about'\nredirect = '/about.html'\n", 302),
    ] {
        let site = Site::new(about, |config| set_rules(config, rules));
        assert_eq!(site.get("/about.html", "").status, 200, "{rules}");
        assert_eq!(site.get("/about", "").status, of_clean, "{rules}");
    }
}

#[test]
fn errors_have_their_pages() {
    let site = Site::new(&[("errors/404.html", b"<p>nothing"), ("a", b"hello"), ("sub/b", b"b")], |config| {
        set_rules(
            config,
            "[[rule]]\npath = '/'\nlistings = false\n\
             error-pages = { 404 = '/errors/404.html', 403 = '/none', 405 = '/errors/404.html' }\n\
             set-headers = { X-A = '1', Cache-Control = 'max-age=60' }\n",
        );
    });
    for (target, status) in [("/none", 404), ("/.git/config", 404), ("/a/b", 404)] {
        for (method, body) in [("GET", &b"<p>nothing"[..]), ("HEAD", b"")] {
            let got = ask(&site, &format!("{method} {target}"), "Range: bytes=0-0\r\nIf-None-Match: *\r\n");
            assert_eq!((got.status, &got.body[..]), (status, body), "{method} {target}");
            assert_eq!(got.field("Content-Type"), Some("text/html; charset=utf-8"));
            assert_eq!((got.field("Content-Length"), got.field("X-A")), (Some("10"), Some("1")));
            assert_eq!((got.field("Cache-Control"), got.field("ETag")), (None, None));
        }
    }
    let got = ask(&site, "POST /a", "Content-Length: 0\r\n");
    assert_eq!((got.status, &got.body[..], got.field("X-A")), (405, &b"<p>nothing"[..], Some("1")));
    assert_eq!(got.field("Allow"), Some("GET, HEAD, OPTIONS"));
    // The error page does not exist.
    let got = site.get("/sub/", "");
    assert_eq!((got.status, &got.body[..]), (403, &b"403 Forbidden\n"[..]));
    // The page itself is a file, not an error.
    assert_eq!(site.get("/errors/404.html", "").status, 200);
}

/// Such a path once had a 404 without the effects of any rules.
#[test]
fn an_encoded_slash_is_under_the_rules() {
    let files: &[(&str, &[u8])] =
        &[("index.html", b"app"), ("no.html", b"<p>no"), ("a%2Fb", b"percent"), ("a/b", b"file"), ("shut/x", b"x")];
    let rules = "[[rule]]\npath = '/'\nset-headers = { X-A = '1' }\n\
                 error-pages = { 404 = '/no.html', 403 = '/no.html' }\n\
                 [[rule]]\npath = '/app/'\ntry-files = '/index.html'\n\
                 [[rule]]\npath = '/shut/'\ndeny = '127.0.0.1'\n[[rule]]\npath = '/up/'\nproxy = 'http://127.0.0.1:9'\n\
                 [[rule]]\npath = '/old/'\nredirect = '/new/{rest}'\n";
    for kind in crate::support::kinds() {
        let site = Site::new(files, |config| {
            config.accepting = kind;
            set_rules(config, rules);
        });
        for (path, status, body) in [
            ("/a%2fb", 404, &b"<p>no"[..]),
            ("/a%252Fb", 200, b"percent"),
            ("/a%2fb", 404, b"<p>no"),
            ("/app/a%2fb", 200, b"app"),
            ("/app/..%2fa", 200, b"app"),
            ("/app%2fb", 404, b"<p>no"),
            ("/shut%2fx", 404, b"<p>no"),
            ("/shut/%2fx", 403, b"<p>no"),
            ("/shut/..%2fa", 403, b"<p>no"),
            ("/up/a%2fb", 404, b"<p>no"),
            ("/old/a%2fb", 404, b"<p>no"),
        ] {
            let got = site.get(path, "");
            assert_eq!((got.status, &got.body[..], got.field("X-A")), (status, body, Some("1")), "{path}");
        }
        for (path, status) in [("/a%2fb", 405), ("/shut/%2fx", 403)] {
            let got = ask(&site, &format!("POST {path}"), "Content-Length: 0\r\n");
            assert_eq!((got.status, got.field("X-A")), (status, Some("1")), "{path}");
        }
    }
    let site = Site::new(files, |_| {});
    assert_eq!(site.get("/a%2fb", "").status, 404);
}

/// These pages were once accepted but never sent.
#[test]
fn errors_of_conditions_have_their_pages() {
    let files: &[(&str, &[u8])] = &[("a", b"hello"), ("page.html", b"<p>no"), ("sub/a", b"hello")];
    for kind in crate::support::kinds() {
        let site = Site::new(files, |config| {
            config.accepting = kind;
            let pages = "error-pages = { 412 = '/page.html', 416 = '/page.html' }";
            set_rules(config, &format!("[[rule]]\npath = '/a'\nset-headers = {{ X-A = '1' }}\n{pages}\n"));
        });
        for (fields, status, range) in [
            ("If-Match: \"x\"\r\n", 412, None),
            ("Range: bytes=9-\r\n", 416, Some("bytes */5")),
            ("Range: bytes=1-2\r\n", 206, Some("bytes 1-2/5")),
        ] {
            // A range is valid only for GET.
            for method in if status == 412 { &["GET", "HEAD"][..] } else { &["GET"] } {
                let got = ask(&site, &format!("{method} /a"), fields);
                assert_eq!((got.status, got.field("Content-Range"), got.field("X-A")), (status, range, Some("1")));
                let body: &[u8] = if status == 206 { b"el" } else { b"<p>no" };
                assert_eq!(&got.body[..], if *method == "HEAD" { b"" } else { body }, "{method} {fields}");
                let is_page = got.field("Content-Type") == Some("text/html; charset=utf-8");
                assert_eq!((is_page, got.field("Content-Length").unwrap()), (status != 206, &*body.len().to_string()));
            }
        }
        let got = ask(&site, "GET /sub/a", "Range: bytes=9-\r\n");
        assert_eq!((got.status, got.field("Content-Range"), &got.body[..]), (416, Some("bytes */5"), &b""[..]));
    }
}

#[test]
fn types_are_those_of_the_rules() {
    let files: &[(&str, &[u8])] =
        &[("a.FOO", b""), ("b.unknown", b""), ("c.html", b""), ("README", b""), ("d.kml", b"")];
    let site = Site::new(files, |config| {
        set_rules(
            config,
            "[[rule]]\npath = '/'\ndefault-type = 'text/plain'\n\
             types = { foo = 'text/x-foo; a=b', '.html' = 'text/x' }\n",
        );
    });
    for (target, kind) in [
        ("/a.FOO", "text/x-foo; a=b"),
        ("/b.unknown", "text/plain"),
        ("/README", "text/plain"),
        ("/c.html", "text/x"),
        ("/d.kml", "application/vnd.google-earth.kml+xml"),
    ] {
        assert_eq!(site.get(target, "").field("Content-Type"), Some(kind), "{target}");
    }
}

#[test]
fn other_sites_may_read_what_the_rules_permit() {
    let site = Site::new(&[("open/a", b"a"), ("shared/a", b"a"), ("own/a", b"a")], |config| {
        set_rules(
            config,
            "[[rule]]\npath = '/open/'\ncors = { origins = '*' }\n\
             [[rule]]\npath = '/shared/'\n\
             cors = { origins = ['https://a.example'], credentials = true, headers = 'X-A', max-age = '1h' }\n",
        );
    });
    let origin = |path: &str, origin: &str| {
        let got = site.get(path, &format!("Origin: {origin}\r\n"));
        assert_eq!(got.status, 200);
        got.field("Access-Control-Allow-Origin").map(str::to_owned)
    };
    assert_eq!(origin("/open/a", "https://x"), Some("*".to_owned()));
    assert_eq!(origin("/shared/a", "https://a.example"), Some("https://a.example".to_owned()));
    for evil in
        ["https://b.example", "https://a.example.evil", "null", "https://a.example\r\nOrigin: https://b.example"]
    {
        assert_eq!(origin("/shared/a", evil), None, "{evil}");
    }
    assert_eq!(origin("/own/a", "https://a.example"), None);
    assert_eq!(site.get("/shared/a", "").field("Vary"), Some("Origin"));
    let asks = "Origin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n";
    let got = ask(&site, "OPTIONS /shared/none", asks);
    let field = |name: &str| got.field(&format!("Access-Control-Allow-{name}"));
    assert_eq!((got.status, field("Methods"), field("Headers")), (204, Some("GET, HEAD"), Some("X-A")));
    assert_eq!((field("Credentials"), got.field("Access-Control-Max-Age")), (Some("true"), Some("3600")));
    for (path, asks) in [
        ("/shared/a", "Origin: https://b.example\r\nAccess-Control-Request-Method: GET\r\n"),
        ("/shared/a", "Origin: https://a.example\r\n"),
        ("/own/a", asks),
    ] {
        let got = ask(&site, &format!("OPTIONS {path}"), asks);
        assert_eq!((got.status, got.field("Access-Control-Allow-Methods")), (204, None), "{path} {asks}");
    }
}

#[test]
fn dotfiles_are_served_where_a_rule_says_so() {
    let files: &[(&str, &[u8])] = &[("open/.a", b"a"), ("open/b", b"b"), ("own/.a", b"a")];
    let site = Site::new(files, |config| {
        set_rules(config, "[[rule]]\npath = '/open/'\ndotfiles = true\n[[rule]]\npath = '/own/b'\n");
    });
    assert_eq!((site.get("/open/.a", "").status, site.get("/own/.a", "").status), (200, 404));
    let list = |path: &str| String::from_utf8(site.get(path, "").body).unwrap();
    assert!(list("/open/").contains(">.a</a>") && !list("/own/").contains(".a"));
}
