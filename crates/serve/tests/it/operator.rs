//! The operator's interface: metrics, sockets and the sandbox.

use crate::support::{Client, Site};
use landau_serve::{Config, Listen, SandboxMode, Server};
use std::net::{TcpListener, TcpStream};
use std::os::fd::IntoRawFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

#[test]
fn metrics_are_served_for_prometheus() {
    let site = Site::new(&[("a", b"hello")], |config| {
        config.workers = 2;
        config.metrics = Some("127.0.0.1:0".parse().unwrap());
    });
    assert_eq!(site.get("/a", "").status, 200);
    let Some(Listen::Tcp(address)) = site.server().metrics_address() else { panic!("no address of TCP") };
    let ask = |request: &str| {
        let mut client = Client::new(TcpStream::connect(address).unwrap());
        client.send(request.as_bytes());
        client.answer().unwrap()
    };
    let got = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let page = String::from_utf8(got.body.clone()).unwrap();
    assert_eq!(got.field("Content-Type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    for line in ["landau_serve_requests_total 1", "landau_serve_succeeded_total 1", "landau_serve_workers 2"] {
        assert!(page.lines().any(|one| one == line), "{line} in {page}");
    }
    assert_eq!(ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n").status, 404);
    assert_eq!(ask("POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n").status, 405);
    assert_eq!(ask("nonsense\r\n\r\n").status, 400);
    // A silent client does not delay the others, and delays the shutdown only briefly.
    let _silent = TcpStream::connect(address).unwrap();
    site.end();
}

#[test]
fn all_workers_serve_an_inherited_socket() {
    let passed = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = passed.local_addr().unwrap();
    let number = passed.into_raw_fd();
    let site = Site::new(&[("a", b"hello")], |config| {
        config.workers = 2;
        config.listen = vec![Listen::Inherited(number)];
    });
    assert_eq!(site.address, address);
    assert_eq!(site.get("/a", "").status, 200);
    site.end();
}

#[test]
fn inherited_descriptors_must_be_listening_sockets() {
    let room = tempfile::tempdir().unwrap();
    let datagram = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into_raw_fd();
    for number in [datagram, std::fs::File::open("/dev/null").unwrap().into_raw_fd(), 12_345] {
        let mut config = Config::new(room.path());
        config.listen = vec![Listen::Inherited(number)];
        let error = Server::start(config).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot listen at fd:{number}: ")), "{error}");
        if number == datagram {
            // The number of this error differs between systems.
            let cause = landau_sys::Error::not_supported("listen").to_string();
            assert!(error.contains(&cause), "{error}");
        }
    }
}

/// Each worker enters the sandbox itself; the served files must still be accessible.
#[test]
fn sandboxed_workers_serve() {
    let site = Site::new(&[("a", b"hello"), ("sub/b", b"there")], |config| {
        config.sets_no_new_privileges = true;
        config.sandbox = SandboxMode::IfPossible;
        config.cache_for = std::time::Duration::ZERO;
    });
    assert_eq!((site.get("/a", "").status, site.get("/sub/b", "").status), (200, 200));
    assert_eq!((site.get("/sub/", "").status, site.get("/nowhere", "").status), (200, 404));
    std::fs::write(site.path().join("a"), "changed").unwrap();
    assert_eq!(site.get("/a", "").body, b"changed");
    site.end();
}

/// With `SO_REUSEPORT` alone, two servers of the same user would share the port, and each would get half the clients.
#[test]
fn a_port_in_use_is_an_error() {
    let site = Site::new(&[], |_| {});
    let mut config = Config::new(site.path());
    config.listen = vec![Listen::Tcp(site.address)];
    let error = Server::start(config).unwrap_err().to_string();
    assert!(error.contains("another program listens there: run `ss -ltnp`"), "{error}");
    site.end();
}

/// Connecting to a file, a FIFO or a link fails in the same way as connecting to a stale socket. The server once
/// replaced them with its socket, which destroyed their content.
#[test]
fn only_stale_sockets_are_replaced() {
    let room = tempfile::tempdir().unwrap();
    let path = |name: &str| room.path().join(name);
    std::fs::write(path("thesis"), "three years").unwrap();
    assert!(std::process::Command::new("mkfifo").arg(path("fifo")).status().unwrap().success());
    drop(UnixListener::bind(path("left")).unwrap());
    std::os::unix::fs::symlink("left", path("link")).unwrap();
    let refusal = |change: &dyn Fn(&mut Config, Listen), at: &Path| {
        let mut config = Config::new(room.path());
        config.listen = vec!["127.0.0.1:0".parse().unwrap()];
        change(&mut config, Listen::Unix(at.to_owned()));
        Server::start(config).unwrap_err().to_string()
    };
    for name in ["thesis", "fifo", "link"] {
        let listens = refusal(&|config, at| config.listen = vec![at], &path(name));
        let counts = refusal(&|config, at| config.metrics = Some(at), &path(name));
        for said in [listens, counts] {
            assert!(said.contains("the path exists and is not a socket"), "{name}: {said}");
        }
    }
    assert_eq!(std::fs::read(path("thesis")).unwrap(), b"three years");
    let kind = |name: &str| std::fs::symlink_metadata(path(name)).unwrap().file_type();
    assert!(kind("fifo").is_fifo() && kind("link").is_symlink() && kind("left").is_socket());
    // A stale socket is replaced.
    let left = Listen::Unix(path("left"));
    let mut config = Config::new(room.path());
    config.listen = vec![left.clone()];
    let server = Server::start(config).unwrap();
    assert_eq!(server.addresses(), [left]);
    server.release();
    server.drain();
    server.join().unwrap();
}

/// The sandbox once prevented the removal. Each case runs in a separate thread, because a thread cannot leave a
/// sandbox.
#[test]
fn only_the_own_socket_file_is_removed() {
    let room = tempfile::tempdir().unwrap();
    let (own, counts) = (room.path().join("own"), room.path().join("counts"));
    let serve = |sandbox, meanwhile: &(dyn Fn() + Sync)| {
        let mut config = Config::new(room.path());
        config.listen = vec![Listen::Unix(own.clone())];
        config.metrics = Some(Listen::Unix(counts.clone()));
        config.sandbox = sandbox;
        std::thread::scope(|scope| {
            let life = scope.spawn(move || {
                let server = Server::start(config).unwrap();
                server.give_up_privileges(None).unwrap();
                server.release();
                meanwhile();
                server.drain();
                server.join().unwrap();
            });
            life.join().unwrap();
        });
    };
    for sandbox in [SandboxMode::Never, SandboxMode::IfPossible, SandboxMode::IfPossible] {
        serve(sandbox, &|| assert!(own.exists() && counts.exists()));
        assert!(!own.exists() && !counts.exists(), "{sandbox:?}");
    }
    // A successor that started while this server stops has its own socket there.
    let other = room.path().join("other");
    let _listener = UnixListener::bind(&other).unwrap();
    std::thread::scope(|scope| {
        let (become_other, is_time) = std::sync::mpsc::channel::<()>();
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let (other, own) = (&other, &own);
        scope.spawn(move || {
            is_time.recv().unwrap();
            std::fs::rename(other, own).unwrap();
            done.send(()).unwrap();
        });
        let is_done = std::sync::Mutex::new(is_done);
        serve(SandboxMode::IfPossible, &|| {
            become_other.send(()).unwrap();
            is_done.lock().unwrap().recv().unwrap();
        });
    });
    assert!(own.exists() && !counts.exists());
}
