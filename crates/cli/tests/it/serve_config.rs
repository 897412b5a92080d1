//! `landau serve --config`: the configuration file as an operator uses it.

use crate::serve::{Serving, room};
use crate::support::{Ran, eventually, is_root, processes_with};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const FILE: &str = "root = 'www'\nlisten = '127.0.0.1:0'\nlog = 'log'\n\n[[rule]]\npath = '/'\n";

#[test]
fn check_tells_every_error_with_its_line() {
    let room = room();
    std::fs::write(room.file("serve.toml"), FILE).unwrap();
    let ran = room.landau(&["serve", "--config", "serve.toml", "--check"]);
    assert_eq!((ran.status, ran.out.trim()), (Some(0), "serve.toml: no errors"), "{ran:?}");
    let wrong = "root = 'www'\nworkers = 0\nmax-conections = 5\n\n[[rule]]\npath = 'a/b'\n";
    std::fs::write(room.file("serve.toml"), wrong).unwrap();
    let ran = room.landau(&["serve", "--config", "serve.toml", "--check"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    for told in [
        "landau: serve.toml:3: max-conections: unknown key; did you mean max-connections?",
        "landau: serve.toml:6: rule.path: \"a/b\": a pattern that contains a slash must begin with one",
    ] {
        assert!(ran.err.lines().any(|line| line == told), "{told} in {ran:?}");
    }
    std::fs::write(room.file("serve.toml"), "root = 'www'\nworkers = 0\n").unwrap();
    let ran = room.landau(&["serve", "--config", "serve.toml", "--check"]);
    assert!(ran.err.starts_with("landau: serve.toml:2: workers: invalid value '0'"), "{ran:?}");
}

/// With these errors the server would not start, or no user could log in.
#[test]
fn check_opens_what_the_file_names() {
    let room = room();
    let check = |text: &str| {
        std::fs::write(room.file("serve.toml"), text).unwrap();
        room.landau(&["serve", "--config", "serve.toml", "--check"])
    };
    std::fs::write(room.file("users"), "ann:$2y$05$abcdefghijklmnopqrstuuzDO\n").unwrap();
    let ran = check("root = 'www'\n[[rule]]\npath = '/'\nauth = { users = 'users' }\n");
    assert!(ran.err.contains("users: line 1: \"ann\": the bcrypt hash is truncated or malformed"), "{ran:?}");
    let ran = check("root = 'nowhere'\ntls = [['cert.pem', 'key.pem']]\nuser = 'nobody-of-this-name'\n");
    assert_eq!(ran.status, Some(2), "{ran:?}");
    let told: Vec<&str> = ran.err.lines().collect();
    // The messages once contained neither the line nor the key.
    let expected =
        ["3: user: \"nobody-of-this-name\": no such user", "1: root: cannot serve nowhere: ", "2: tls: cert.pem: "];
    assert_eq!(told.len(), expected.len(), "{ran:?}");
    for (line, expected) in told.iter().zip(expected) {
        assert!(line.starts_with(&format!("landau: serve.toml:{expected}")), "{expected} in {ran:?}");
    }
    for (text, expected) in [
        ("root = 'www'\n\nlisten = 'tls::1'\n", "3: listen: cannot listen at tls:[::]:1: no certificate; add "),
        ("root = 'www'\nmax-line = '5KiB'\nmax-head = '4KiB'\n", "2: max-line: 5120: a request line is a part of"),
        ("root = 'www'\nsandbox-read = 'none'\n", "2: sandbox-read: cannot open none (--sandbox-read): "),
        ("root = 'www'\nlisten = [':1', 'tls::1']\n", "2: listen: [::]:1 and tls:[::]:1: an address cannot serve"),
    ] {
        let ran = check(text);
        let expected = format!("landau: serve.toml:{expected}");
        assert!(ran.err.starts_with(&expected) && ran.err.lines().count() == 1, "{expected} in {ran:?}");
    }
    // An error in an argument of the command line has no line in the file.
    let ran = room.landau(&["serve", "nowhere", "--config", "serve.toml", "--check", "--listen", ":1"]);
    assert!(ran.err.starts_with("landau: serve.toml: cannot serve nowhere: "), "{ran:?}");
}

/// Such a rule once protected the page of the directory but not its files.
#[test]
fn a_rule_for_a_directory_alone_is_refused() {
    let room = room();
    std::fs::create_dir(room.file("www/private")).unwrap();
    std::fs::write(room.file("www/private/secret"), "s").unwrap();
    let write = |rules: &str| {
        std::fs::write(room.file("serve.toml"), format!("root = 'www'\nlisten = '127.0.0.1:0'\n{rules}")).unwrap();
    };
    write("[[rule]]\npath = '/private'\nallow = '10.0.0.1'\n");
    let told = "landau: serve.toml:4: rule.path: \"/private\" matches only this path, but www/private is a directory: \
                /private/secret is not covered by allow; write \"/private/\" to cover its contents too\n";
    for more in [&["--check"][..], &[], &["--processes", "2"]] {
        let ran = room.landau(&[&["serve", "--config", "serve.toml"], more].concat());
        assert_eq!((ran.status, &ran.err[..]), (Some(2), told), "{more:?}");
    }
    write("[[rule]]\npath = '/'\nproxy = 'http://127.0.0.1:1'\n[[rule]]\npath = '/admin'\nallow = '10.0.0.1'\n");
    let warning = "landau: warning: serve.toml:7: rule.path: \"/admin\" matches only this path: ";
    let ran = room.landau(&["serve", "--config", "serve.toml", "--check"]);
    assert!(ran.status == Some(0) && ran.err.starts_with(warning) && ran.err.lines().count() == 1, "{ran:?}");
    let ran = Serving::new(&mut room.command(&["serve", "--config", "serve.toml"])).end();
    assert!(ran.err.contains(warning), "{ran:?}");
}

#[test]
fn sighup_reloads_the_rules_and_a_bad_file_keeps_them() {
    for more in [&[][..], &["--processes", "2"]] {
        let room = room();
        let path = room.file("serve.toml");
        let write = |end: &str| {
            std::fs::write(&path, format!("{FILE}{end}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        };
        write("set-headers = { X-A = 'one' }");
        let serving = Serving::new(room.command(&["serve", "--config", "serve.toml"]).args(more));
        let says = |value: &str| (0..8).all(|_| serving.get("/a").contains(&format!("X-A: {value}\r\n")));
        assert!(says("one"));
        write("set-headers = { X-A = 'two' }");
        serving.signal("-HUP");
        assert!(eventually(|| says("two")), "the rules are reloaded");
        write("set-headers = { X-A = 'three' }\nset-hedders = {}");
        serving.signal("-HUP");
        let ran = serving.end();
        assert_eq!(ran.status, Some(0), "{ran:?}");
        assert!(ran.err.contains("rules reloaded"), "{ran:?}");
        let told = "serve.toml:8: rule.set-hedders: unknown key; did you mean set-headers?; the previous rules stay";
        assert!(ran.err.contains(told), "{ran:?}");
    }
}

/// The user to which the server switches needs no permission to read the keys, the users file and the configuration.
#[test]
#[cfg(target_os = "linux")]
fn a_reload_reads_what_only_root_may_read() {
    if !is_root() {
        eprintln!("skipped: only root can switch to a user who may read less");
        return;
    }
    let certificates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../serve/tests/it/certificates");
    for more in [&[][..], &["--processes", "2"], &["--sandbox", "never"]] {
        let room = room();
        let place = |name: &str| room.file("etc").join(name);
        std::fs::create_dir(room.file("etc")).unwrap();
        std::fs::set_permissions(room.file("etc"), std::fs::Permissions::from_mode(0o700)).unwrap();
        std::fs::write(place("users"), "").unwrap();
        let write = |certificate: &str, value: &str| {
            for (from, to) in [("", "cert.pem"), ("-key", "key.pem")] {
                std::fs::copy(certificates.join(format!("{certificate}{from}.pem")), place(to)).unwrap();
            }
            let text = format!(
                "root = 'www'\nlisten = ['127.0.0.1:0', 'tls:127.0.0.2:0']\ntls = [['etc/cert.pem', 'etc/key.pem']]\n\
                 [[rule]]\npath = '/'\nset-headers = {{ X-A = '{value}' }}\n\
                 [[rule]]\npath = '/b/'\nauth = {{ users = 'etc/users' }}\n"
            );
            std::fs::write(place("serve.toml"), text).unwrap();
        };
        write("one", "one");
        let file = place("serve.toml");
        let mut serving = Serving::new(room.command(&["serve", "--config"]).arg(&file).args(more));
        assert_eq!(serving.ready["user"], "nobody");
        let says = |value: &str| (0..8).all(|_| serving.get("/a").contains(&format!("X-A: {value}\r\n")));
        assert!(says("one"));
        write("two", "two");
        serving.signal("-HUP");
        assert!(eventually(|| says("two")), "{more:?}");
        serving.child.kill().unwrap();
        let ran = Ran::of(serving.child.wait_with_output().unwrap());
        assert!(ran.err.contains("certificates reloaded") && ran.err.contains("rules reloaded"), "{ran:?}");
        assert!(!ran.err.contains("previous"), "{ran:?}");
        assert!(eventually(|| processes_with(file.to_str().unwrap()).is_empty()), "all of them end with the first");
    }
}
