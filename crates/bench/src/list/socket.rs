//! `socket`: opens thousands of sockets, then closes them one by one.
//!
//! Measures `socket()`: the kernel allocates the socket and finds the lowest unused descriptor; during destruction
//! `close()`.
//!
//! Without gaps in the table the kernel need not search: it remembers where the next unused descriptor is. With the
//! parameter `hole`, a socket in the middle of the table is closed before each call. `hole=timed` times the `socket()`
//! that takes its number; `hole=untimed` has it replaced first, and times the next one, which must search from there.
//!
//! Misleads if only medians are read: when a second thread shares the descriptor table, the call that makes the table
//! double waits for every processor (`expand_fdtable` and its RCU grace period) and takes a thousand times longer, at
//! descriptor 256, 512, 1,024 … Hence the parameter `threads`, and `reserve` as the remedy.
//!
//! Source: the socket benchmark of Felix von Leitner's 2003 study (10,000 sockets); since 7 November 2003 it closed and
//! replaced socket 10 before each call, to defeat such a hint in one kernel. Threads after a finding of Ted Unangst
//! (August 2025).

use landau_engine::{
    Benchmark, Context, Cost, Facts, Host, Kind, Parameter, Phase, ReplayCase, Settings, Stop, Study, Support, Timer,
    Variant,
};
use landau_sys::descriptor::{close, grow_table, pipe};
use landau_sys::socket::{Family, Transport, socket};
use landau_sys::thread::Sleeper;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// State of a pass.
#[derive(Debug)]
pub struct Socket {
    family: Family,
    transport: Transport,
    hole: Hole,
    sockets: Vec<OwnedFd>,
    threads: Vec<Sleeper>,
}

/// The gap that is made in the middle of the descriptor table before a call.
#[derive(Debug, Clone, Copy)]
enum Hole {
    /// Nothing.
    None,
    /// A socket is closed; the timed one takes its number.
    Timed,
    /// A socket is closed and replaced; the timed one gets the next number.
    Untimed,
}

const SOCKET: usize = 0;
const CLOSE: usize = 1;

impl Benchmark for Socket {
    const NAME: &'static str = "socket";
    const ABOUT: &'static str = "Does socket() cost more when thousands of sockets are open?";
    const AXIS: &'static str = "open sockets";
    const PHASES: &'static [Phase] = &[
        Phase::up("socket", "socket(): allocate a socket and the lowest unused descriptor"),
        Phase::down("close", "close() of the newest socket"),
    ];
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::auto_steps("64", "10000", "auto", "open sockets; auto: past RLIMIT_NOFILE"),
        Parameter::fixed("family", Kind::Choice(&["v4", "v6"]), "v4", "IPv4 or IPv6"),
        Parameter::fixed("type", Kind::Choice(&["tcp", "udp"]), "tcp", "TCP or UDP"),
        Parameter::fixed(
            "threads",
            Kind::Count { min: 0, max: 64 },
            "0",
            "additional idle threads that share the descriptor table",
        ),
        Parameter::fixed(
            "reserve",
            Kind::Count { min: 0, max: 10_000_000 },
            "0",
            "size to which the descriptor table is grown before the first step; 0: not grown",
        ),
        Parameter::fixed(
            "hole",
            Kind::Choice(&["none", "timed", "untimed"]),
            "none",
            "close a socket in the middle before each call. timed: the timed socket takes its number; untimed: another \
             one does, and the timed socket gets the next number, as in 2003; none: close none",
        ),
    ];
    const VARIANTS: &'static [Variant] = &[
        Variant::always(&[("threads", "1")]),
        Variant::always(&[("threads", "1"), ("reserve", "10100")]),
        Variant::always(&[("hole", "timed")]),
        Variant::full(&[("hole", "untimed")]),
        Variant::full(&[("family", "v6")]),
        Variant::full(&[("type", "udp")]),
    ];
    // The program of 2003 timed socket() and bind() together; its calls are a case of `bind`.
    const REPLAYS: &'static [ReplayCase] = &[ReplayCase::corrected(&[]), ReplayCase::corrected(&[("threads", "1")])];
    const CAVEATS: &'static [&'static str] = &[
        "When threads share the descriptor table, enlarging it takes milliseconds. Medians do not show it; the \
         recurring outliers with threads=1 do.",
        "With hole=none the descriptor table has no gap, and with the other values one; a busy server's table has \
         many, and the search takes longer.",
    ];
    const SOURCE: &'static str =
        "F. von Leitner, Benchmarking BSD and Linux (2003), the socket benchmark; T. Unangst (2025) for threads";

    fn support(host: &Host, settings: &Settings) -> Support {
        let limit = host.limits.get("RLIMIT_NOFILE").copied().unwrap_or(u64::MAX);
        Support::when(
            settings.count("reserve") < limit,
            &format!("the table cannot grow to {} slots: RLIMIT_NOFILE is {limit}", settings.text("reserve")),
        )
    }

    fn auto_n(host: &Host, _: &Settings, _: Study) -> u64 {
        host.limits.get("RLIMIT_NOFILE").map_or(10_000, |&limit| limit.saturating_add(1).min(1_000_000))
    }

    fn cost(_: &Settings) -> Cost {
        Cost { memory_bytes_each: 2_600, descriptors_each: 1, ..Cost::default() }
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        let settings = context.settings;
        let mut threads = Vec::new();
        if settings.count("threads") > 0 {
            let (listen, report) = pipe()?;
            let report = Arc::new(report);
            for _ in 0..settings.count("threads") {
                threads.push(Sleeper::new(&report, &listen, 0)?.0);
            }
        }
        if settings.count("reserve") > 0 {
            grow_table(settings.count("reserve") as u32)?;
        }
        Ok(Self {
            family: if settings.is("family", "v6") { Family::V6 } else { Family::V4 },
            hole: match settings.text("hole") {
                "timed" => Hole::Timed,
                "untimed" => Hole::Untimed,
                _ => Hole::None,
            },
            transport: if settings.is("type", "udp") { Transport::Udp } else { Transport::Tcp },
            sockets: Vec::with_capacity(context.n as usize),
            threads,
        })
    }

    fn step(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let (family, transport) = (self.family, self.transport);
        if let Hole::Timed = self.hole {
            // One more, so that n sockets are open after the timed call.
            self.sockets.push(socket(family, transport)?);
        }
        match (self.hole, self.open_hole()) {
            (Hole::Timed, Some((index, number))) => {
                let filling = timer.time(SOCKET, || socket(family, transport))?;
                return self.fill_hole(index, number, filling);
            }
            (Hole::Untimed, Some((index, number))) => {
                let filling = socket(family, transport)?;
                self.fill_hole(index, number, filling)?;
            }
            _ => {}
        }
        self.sockets.push(timer.time(SOCKET, || socket(family, transport))?);
        Ok(())
    }

    fn undo(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let socket = self.sockets.pop().ok_or(Stop::Enough)?;
        timer.time(CLOSE, || close(socket))
    }

    fn check(&mut self, steps: u64, _facts: &mut Facts) -> Result<(), Stop> {
        crate::list::check_open(&self.sockets, steps)
    }
}

impl Socket {
    /// Closes the socket in the middle, if a hole is requested and there is a socket. Returns its index and its number.
    fn open_hole(&mut self) -> Option<(usize, RawFd)> {
        let index = self.sockets.len() / 2;
        if matches!(self.hole, Hole::None) || index >= self.sockets.len() {
            return None;
        }
        let socket = self.sockets.swap_remove(index);
        Some((index, socket.as_raw_fd()))
    }

    /// Moves the socket that took the number of the closed one to the index of the closed one.
    fn fill_hole(&mut self, index: usize, number: RawFd, socket: OwnedFd) -> Result<(), Stop> {
        let taken = socket.as_raw_fd();
        self.sockets.push(socket);
        let last = self.sockets.len() - 1;
        self.sockets.swap(index, last);
        Stop::unless(taken == number, || {
            format!("socket() returned {taken} instead of {number}, which was just closed")
        })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        for thread in self.threads.drain(..) {
            thread.release();
            // A thread that cannot be joined ends with the process, which is about to exit.
            let _ = thread.join();
        }
    }
}
