//! `landau sink` as an operator uses it: addresses, signals, counters, profiles.

use crate::support::{Process, Ran, Room, eventually};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

/// Longer than any step takes; a test that reaches it has failed.
const LONG: Duration = Duration::from_secs(60);

/// A running sink.
struct Serving {
    child: Process,
    out: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Serving {
    fn new(room: &Room, words: &[&str]) -> Self {
        let words = [&["sink"], words, &["--listen", "127.0.0.1:0", "--json"]].concat();
        let mut child = Process::spawn(room.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped())).unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let ready = line(&mut out);
        assert_eq!(ready["pid"], child.id());
        assert!(ready["capacity"].as_u64().unwrap() > 0);
        let address = ready["listening"][0]["address"].as_str().unwrap().parse().unwrap();
        Self { child, out, address }
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap().success());
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// Sends bytes, shuts down the sending side, and returns everything received.
    fn exchange(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Ends the sink and returns the counters.
    fn end(mut self) -> serde_json::Value {
        self.signal("-TERM");
        let totals = line(&mut self.out);
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        totals
    }
}

fn line(out: &mut BufReader<ChildStdout>) -> serde_json::Value {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
}

#[test]
fn mail_is_counted_and_stored() {
    let room = Room::new();
    let mut sink = Serving::new(&room, &["smtp", "--maildir", "mail", "--name", "mx.example"]);
    let replies = sink.exchange(b"HELO c\r\nMAIL FROM:<>\r\nRCPT TO:<a@b.example>\r\nDATA\r\nx\r\n.\r\nQUIT\r\n");
    assert!(replies.starts_with("220 mx.example "), "{replies}");
    assert!(replies.ends_with("221 2.0.0 Bye\r\n"), "{replies}");
    sink.signal("-USR1");
    assert_eq!(line(&mut sink.out)["messages"], 1);
    let totals = sink.end();
    assert_eq!((&totals["messages"], &totals["recipients"], &totals["connections"]), (&1.into(), &1.into(), &1.into()));
    let files: Vec<_> = std::fs::read_dir(room.file("mail/a@b.example/new")).unwrap().collect();
    assert_eq!(std::fs::read(files[0].as_ref().unwrap().path()).unwrap(), b"x\r\n");
}

/// An independent verifier accepts the signatures of messages as they arrive, including merged fields and doubled dots,
/// and rejects them after the body is altered.
#[test]
fn signatures_are_accepted_by_an_independent_verifier() {
    let python = "/usr/bin/python3";
    if !Command::new(python).args(["-c", "import dkim, nacl"]).output().is_ok_and(|ran| ran.status.success()) {
        eprintln!("skipped: python3-dkim and python3-nacl are not installed");
        return;
    }
    let room = Room::new();
    let keys = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../mail/tests/keys");
    let verify = "import dkim, sys\n\
        key = open(sys.argv[1], 'rb').read()\n\
        message = sys.stdin.buffer.read()\n\
        asked = []\n\
        def lookup(name, timeout=5):\n    asked.append(name)\n    return key\n\
        print(dkim.verify(message, dnsfunc=lookup), dkim.verify(message + b'more', dnsfunc=lookup), asked[0].decode())";
    std::fs::write(room.file("list.csv"), "email,name\na@b.example,\"Ann, of B\"\n").unwrap();
    for (key, letter) in [
        (
            "rsa",
            "From: N <n@e.example>\nSubject:  Two  spaces\n folded\nTo: {{email}}\n\nDear {{name}} \n.\n..dots\n\n\n",
        ),
        ("ed25519", "Subject: plain\nFrom: n@e.example\n\n.\tText\n"),
    ] {
        let folder = format!("mail-{key}");
        let sink = Serving::new(&room, &["smtp", "--maildir", &folder]);
        std::fs::write(room.file("letter.eml"), letter).unwrap();
        let (via, ledger) = (sink.address.to_string(), format!("ledger-{key}"));
        let pem = keys.join(format!("{key}.pem"));
        let pem = pem.to_str().unwrap();
        let mut words =
            vec!["mail", "list.csv", "--message", "letter.eml", "--via", &via, "--ledger", &ledger, "--quiet"];
        words.extend(["--dkim-key", pem, "--dkim-domain", "e.example", "--dkim-selector", "s1"]);
        let ran = room.landau(&words);
        assert_eq!(ran.status, Some(0), "{ran:?}");
        sink.end();
        let stored =
            std::fs::read_dir(room.file(&format!("{folder}/a@b.example/new"))).unwrap().next().unwrap().unwrap();
        let mut command = Command::new(python);
        command.args(["-c", verify]).arg(keys.join(format!("{key}.txt")));
        command.stdin(std::fs::File::open(stored.path()).unwrap());
        let ran = Ran::of(command.output().unwrap());
        assert_eq!(ran.out.trim(), "True False s1._domainkey.e.example.", "{key}: {ran:?}");
    }
}

#[test]
fn a_profile_decides_what_hosts_do() {
    let room = Room::new();
    std::fs::write(room.file("profile.toml"), "[host.\"127.0.0.0/8\"]\nextensions = [\"SIZE\"]\n").unwrap();
    let sink = Serving::new(&room, &["smtp", "--profile", "profile.toml"]);
    assert!(sink.exchange(b"EHLO c\r\n").ends_with("250-sink.example\r\n250 SIZE 52428800\r\n"));
    sink.end();
    std::fs::write(room.file("profile.toml"), "[default]\ntarpit = \"5\"\n").unwrap();
    let ran: Ran = room.landau(&["sink", "smtp", "--profile", "profile.toml"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("profile") && ran.err.contains("the unit is missing"), "{ran:?}");
}

#[test]
fn http_has_the_status_and_length_that_were_asked_for() {
    let room = Room::new();
    let sink = Serving::new(&room, &["http", "--status", "404", "--length", "3B"]);
    let answer = sink.exchange(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!(answer, "HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\nConnection: close\r\n\r\nxxx");
    assert_eq!(sink.end()["requests"], 1);
}

#[test]
fn bytes_are_sent_back() {
    let room = Room::new();
    let sink = Serving::new(&room, &["tcp", "--echo"]);
    let mut stream = sink.connect();
    stream.write_all(b"abc").unwrap();
    let mut back = [0; 3];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"abc");
    assert_eq!(sink.end()["bytes_received"], 3);
}

/// The only limit on clients is that on descriptors, which is reported. Clients beyond it wait until others disconnect.
#[test]
fn clients_beyond_the_limit_of_descriptors_wait() {
    let script = format!("ulimit -n 40; exec {} sink tcp --echo --listen 127.0.0.1:0 --json", crate::support::LANDAU);
    let mut child = Process::spawn(Command::new("bash").args(["-c", &script]).stdout(Stdio::piped())).unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let ready = line(&mut out);
    let capacity = ready["capacity"].as_u64().unwrap() as usize;
    assert!((10..40).contains(&capacity), "{ready}");
    let address = ready["listening"][0]["address"].as_str().unwrap().parse().unwrap();
    let mut sink = Serving { child, out, address };
    let mut clients: Vec<TcpStream> = (0..capacity + 10).map(|_| sink.connect()).collect();
    for client in &mut clients {
        client.write_all(b"x").unwrap();
    }
    let served = |clients: &mut [TcpStream]| {
        for client in clients {
            client.read_exact(&mut [0]).unwrap();
        }
    };
    served(&mut clients[..capacity]);
    // Accepting is paused as long as no descriptor is free.
    let mut totals = serde_json::Value::Null;
    let is_short = eventually(|| {
        sink.signal("-USR1");
        totals = line(&mut sink.out);
        totals["descriptors_short"].as_u64().is_some_and(|count| count > 0)
    });
    assert!(is_short, "{totals}");
    assert!(totals["connections"].as_u64().unwrap() < capacity as u64 + 10, "{totals}");
    let mut late = clients.split_off(capacity);
    drop(clients);
    served(&mut late);
    assert_eq!(sink.end()["connections"], capacity + 10);
}

/// A query for the MX records of d0001.example.
const QUERY: &[u8] = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x05d0001\x07example\0\0\x0f\0\x01";

#[test]
fn queries_are_answered_over_udp_and_tcp() {
    let room = Room::new();
    let sink = Serving::new(&room, &["dns"]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket.send_to(QUERY, sink.address).unwrap();
    let mut answer = [0; 1000];
    let (len, from) = socket.recv_from(&mut answer).unwrap();
    assert_eq!((from, &answer[..2]), (sink.address, &[0, 7][..]));
    assert!(answer[7] > 0, "no records");
    let mut stream = sink.connect();
    stream.write_all(&[&[0, QUERY.len() as u8], QUERY].concat()).unwrap();
    let mut over_tcp = vec![0; 2 + len];
    stream.read_exact(&mut over_tcp).unwrap();
    assert_eq!(over_tcp[2..], answer[..len]);
    let totals = sink.end();
    assert_eq!((&totals["udp_queries"], &totals["tcp_queries"]), (&1.into(), &1.into()));
}

#[test]
fn mistakes_are_named() {
    let room = Room::new();
    for (words, expected) in [
        (&["smtp", "--listen", "127.0.0.1"][..], "try 127.0.0.1:2525"),
        (&["smtp", "--name", "a b"], "not a host name"),
        (&["smtp", "--maildir", "."], "it is not empty"),
        (&["dns", "--listen", "127.0.0.0/8:0"], "specify single addresses"),
        (&["dns", "--nonexistent", "0.7", "--failing", "0.7"], "add up to 1.4"),
        (&["dns", "--domains", "5", "--sites", "6"], "no more sites than domains"),
        (&["http", "--errors", "2"], "from 0 to 1"),
        (&["tcp", "--pieces", "1B"], "write for example 1B:100ms"),
    ] {
        std::fs::write(room.file("file"), "").unwrap();
        let ran = room.landau(&[&["sink"], words].concat());
        assert!(ran.status == Some(2) && ran.err.contains(expected), "{words:?}: {ran:?}");
    }
}
