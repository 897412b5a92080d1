//! Rules by path.

use crate::support::{Site, rules};
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
    let site = Site::new(files, |config| config.rules = rules(FIELDS));
    // From the file system, and from the cache.
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
    // What is missing now may be there in a minute.
    let missing = site.get("/assets/none", "");
    assert_eq!((missing.status, missing.field("X-Frame-Options")), (404, Some("DENY")));
    assert_eq!(missing.field("Cache-Control"), None);
    site.end();
}

/// Entries of the cache were made by the previous rules.
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
