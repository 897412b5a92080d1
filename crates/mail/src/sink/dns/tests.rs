//! Tests of the name server over real sockets: both transports on one port, latency, loss.

use super::{Dns, Service, bind};
use crate::sink::conduct::Latency;
use crate::sink::protocol::Protocol;
use crate::sink::server::Config;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

fn dns(latency: Latency, loss: f64) -> Dns {
    Dns::new("example", Service { latency, loss, seed: 1, ..Service::default() }).unwrap()
}

fn config() -> Config {
    Config::new(vec!["127.0.0.1:0".parse().unwrap()])
}

fn total(dns: &Dns, name: &str) -> u64 {
    dns.counters().readings().iter().find(|one| one.name == name).unwrap().value
}

/// Returns a query for the MX hosts of d0001.example.
fn query(id: u16) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend_from_slice(b"\x01\0\0\x01\0\0\0\0\0\0\x05d0001\x07example\0\0\x0f\0\x01");
    bytes
}

fn client(address: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket
}

#[test]
fn a_port_is_chosen_that_is_free_for_both_transports() {
    // Every second port is in use for UDP, so that the first choice often fails.
    let taken: Vec<UdpSocket> = (0..3_000).map_while(|_| UdpSocket::bind("127.0.0.1:0").ok()).collect();
    for _ in 0..50 {
        let dns = dns(Latency::default(), 0.0);
        let (sink, datagrams) = bind(&dns, &config()).unwrap();
        assert_eq!((sink.addresses().len(), datagrams.len()), (1, 1));
        assert_ne!(sink.addresses()[0].port, 0);
    }
    // Another test may be listening on the same port over TCP: then the error is about that.
    let error_at = |port: u16| {
        let mut fixed = config();
        fixed.listen[0].port = port;
        bind(&dns(Latency::default(), 0.0), &fixed).unwrap_err().to_string()
    };
    let mut errors = taken.iter().take(20).map(|socket| error_at(socket.local_addr().unwrap().port()));
    assert!(errors.any(|error| error.contains("over UDP")));
}

#[test]
fn answers_over_udp_are_late_and_queries_are_lost_by_the_seed() {
    let late = dns(Latency::Fixed(Duration::from_millis(80)), 0.0);
    let (sink, _datagrams) = bind(&late, &config()).unwrap();
    let address: SocketAddr = sink.addresses()[0].to_string().parse().unwrap();
    let socket = client(address);
    let (begin, mut buffer) = (Instant::now(), [0; 512]);
    for id in 1..=3 {
        socket.send(&query(id)).unwrap();
    }
    for _ in 1..=3 {
        let len = socket.recv(&mut buffer).unwrap();
        assert!(len > 12 && buffer[2] & 0x80 != 0, "{:?}", &buffer[..len]);
        assert!(begin.elapsed() >= Duration::from_millis(80), "{:?}", begin.elapsed());
    }
    let lossy = dns(Latency::default(), 0.5);
    let (sink, _datagrams) = bind(&lossy, &config()).unwrap();
    let address: SocketAddr = sink.addresses()[0].to_string().parse().unwrap();
    let socket = client(address);
    // A lost query is answered after enough repetitions; the same seed gives the same draws.
    let mut sent = 0;
    for id in 1..=40_u16 {
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        loop {
            socket.send(&query(id)).unwrap();
            sent += 1;
            assert!(sent < 4_000, "nothing is answered");
            let got = socket.recv(&mut buffer);
            if got.is_ok_and(|len| len > 12 && buffer[..2] == id.to_be_bytes()) {
                break;
            }
        }
    }
    assert!(total(&lossy, "udp_lost") > 0 && total(&lossy, "udp_queries") > 40);
    assert_eq!(total(&late, "udp_lost"), 0);
}

/// Each address has a thread. Two threads once overwrote each other's counts.
#[test]
fn threads_lose_no_count() {
    const EACH: u64 = 500_000;
    let dns = dns(Latency::default(), 0.0);
    let begin = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (mut own, begin) = (dns.clone(), &begin);
            scope.spawn(move || {
                begin.wait();
                // An empty datagram, so that counting is most of the work.
                (0..EACH).for_each(|_| assert_eq!(own.answer_datagram(b"", &mut Vec::new()), None));
            });
        }
    });
    assert_eq!(["udp_queries", "udp_ignored"].map(|name| total(&dns, name)), [4 * EACH; 2]);
}
