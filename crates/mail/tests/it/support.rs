//! Sinks in threads, a client that talks to them, and deliveries to them.

use crate::smuggling::{Attempt, PROLOGUE};
use landau_mail::sink::dns::{Datagrams, Dns, Service, bind};
use landau_mail::sink::http::Http;
use landau_mail::sink::smtp::Smtp;
use landau_mail::sink::smtp::profile::Profiles;
use landau_mail::sink::tcp::Tcp;
use landau_mail::sink::{Config, Remote, Sink};
use landau_mail::{Backoff, Delivery, Envelope, Feedback, Limits, Mode, Observer, Progress, Source, Sync};
use landau_reactor::ManualClock;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

/// A timeout longer than any operation; a test that reaches it has failed.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A running sink. Its clock stands still until a test advances it.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) remote: Remote,
    pub(crate) clock: ManualClock,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts a sink for SMTP.
    pub(crate) fn smtp(smtp: Smtp) -> Self {
        Self::smtp_at(smtp, "127.0.0.1:0")
    }

    /// Starts a sink for SMTP that listens at an address or a network.
    pub(crate) fn smtp_at(smtp: Smtp, listen: &str) -> Self {
        Self::try_smtp_at(smtp, listen).unwrap()
    }

    /// Starts a sink for SMTP that listens at an address or a network, which may be in use.
    pub(crate) fn try_smtp_at(smtp: Smtp, listen: &str) -> Result<Self, landau_mail::sink::Error> {
        let (config, clock) = Self::config(listen);
        Ok(Self::start(Sink::bind(smtp, config)?, clock))
    }

    /// Returns the configuration of a sink whose clock stands still.
    fn config(listen: &str) -> (Config, ManualClock) {
        let (mut config, clock) = (Config::new(vec![listen.parse().unwrap()]), ManualClock::default());
        config.clock = Some(clock.clone());
        (config, clock)
    }

    fn start(sink: Sink, clock: ManualClock) -> Self {
        let listening = sink.addresses()[0].to_string();
        let (network, port) = listening.rsplit_once(':').unwrap();
        let ip = network.trim_matches(['[', ']']).split('/').next().unwrap().parse().unwrap();
        let address = SocketAddr::new(ip, port.parse().unwrap());
        let remote = sink.remote();
        let thread = Some(std::thread::spawn(|| sink.run().unwrap()));
        Self { address, remote, clock, thread }
    }

    /// Starts a sink for SMTP with a profile.
    pub(crate) fn profile(text: &str) -> Self {
        Self::smtp(Smtp::new("sink.example", text.parse::<Profiles>().unwrap(), 1))
    }

    /// Starts a sink for bytes.
    pub(crate) fn tcp(tcp: Tcp) -> Self {
        let (config, clock) = Self::config("127.0.0.1:0");
        Self::start(Sink::bind(tcp, config).unwrap(), clock)
    }

    /// Starts a sink for requests.
    pub(crate) fn http(http: Http) -> Self {
        let (config, clock) = Self::config("127.0.0.1:0");
        Self::start(Sink::bind(http, config).unwrap(), clock)
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.remote.end();
        let ended = self.thread.take().unwrap().join();
        // A second panic would hide the first.
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

/// A name server, over TCP and UDP.
pub(crate) struct Names {
    pub(crate) streams: Running,
    _datagrams: Vec<Datagrams>,
}

impl Names {
    pub(crate) fn start(service: &Service) -> Self {
        let dns = Dns::new("example", service.clone()).unwrap();
        let (config, clock) = Running::config("127.0.0.1:0");
        let (sink, datagrams) = bind(&dns, &config).unwrap();
        Self { streams: Running::start(sink, clock), _datagrams: datagrams }
    }
}

/// An observer that ignores all progress.
pub(crate) struct Silent;

impl Observer for Silent {
    fn progress(&mut self, _: &Progress) {}
}

/// Returns a delivery in mode `rset`, to which the caller must add a route.
pub(crate) fn delivery(folder: &Path, source: Source) -> Delivery {
    Delivery {
        sync: Sync::Never,
        envelope: Envelope::new("", Mode::Rset),
        limits: Limits {
            sessions: 50,
            per_site: 20,
            initial: 5,
            feedback: Feedback::Inverse,
            backoff: Backoff { first: Duration::from_millis(10), longest: Duration::from_millis(10) },
            attempts: 2,
            seed: 7,
        },
        active: 500,
        timeout: LONG,
        ..Delivery::new(source, folder.join("ledger"))
    }
}

/// A client.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// Sends bytes in pieces. The sink may hang up before the last one.
    pub(crate) fn send_in_pieces(&mut self, bytes: &[u8], size: usize) {
        for piece in bytes.chunks(size) {
            if self.stream.get_mut().write_all(piece).is_err() {
                return;
            }
        }
    }

    /// Ends sending; the sink's replies can still be read.
    pub(crate) fn end(&mut self) {
        // Fails if the sink has closed the connection already.
        let _ = self.stream.get_mut().shutdown(std::net::Shutdown::Write);
    }

    /// Receives a reply. Returns the code of its last line; 0 is the end of the connection, -1 a reset.
    pub(crate) fn reply(&mut self) -> i32 {
        loop {
            let mut line = String::new();
            match self.stream.read_line(&mut line) {
                Ok(0) => return 0,
                Ok(_) if line.as_bytes()[3] == b'-' => {}
                Ok(_) => return line[..3].parse().unwrap(),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return -1,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Makes an attempt to smuggle a message, in pieces of `size` bytes. Returns the codes of the replies, and whether
    /// the server ended the connection because of an error.
    pub(crate) fn attempt(&mut self, attempt: &Attempt, size: usize) -> (Vec<u16>, bool) {
        self.send(PROLOGUE);
        assert_eq!([(); 4].map(|()| self.reply()), [220, 250, 250, 250]);
        self.send_in_pieces(&attempt.bytes, size);
        // If the server must end the connection, the client does not end it first.
        let ends = attempt.answer.closes || attempt.answer.codes.last() == Some(&221);
        if !ends {
            self.end();
        }
        let mut codes = Vec::new();
        loop {
            match self.reply() {
                0 | -1 => break,
                code => codes.push(code as u16),
            }
        }
        let closes = ends && codes.last() != Some(&221);
        (codes, closes)
    }

    /// Sends a command and receives the reply.
    pub(crate) fn command(&mut self, line: &str) -> i32 {
        self.send(format!("{line}\r\n").as_bytes());
        self.reply()
    }

    /// Receives everything until the connection ends.
    pub(crate) fn rest(&mut self) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.stream.read_to_end(&mut bytes).map(|_| bytes)
    }

    /// Receives the bytes that arrive within a short time: none if the sink holds them back.
    pub(crate) fn receive_briefly(&mut self) -> Vec<u8> {
        let stream = self.stream.get_mut();
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut buffer = [0; 4096];
        let got = match stream.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => 0,
            Err(error) => panic!("{error}"),
        };
        stream.set_read_timeout(Some(LONG)).unwrap();
        buffer[..got].to_vec()
    }
}

/// Returns the rows of the first table in docs/mail.md after a text: the names in the first column, and the remaining
/// columns.
pub(crate) fn documented(before: &str) -> Vec<(&'static str, &'static str)> {
    let document = include_str!("../../../../docs/mail.md");
    let (_, after) = document.split_once(before).expect("the table is in the document");
    let rows = after.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches(['|', ' ']).split_once("` | ").expect("a row"))
        .map(|(name, about)| (name.trim_start_matches('`'), about))
        .collect()
}
