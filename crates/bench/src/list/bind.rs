//! `bind`: binds thousands of sockets to port 0, past half of the ephemeral port range and past all of it.
//!
//! Measures `bind()` to port 0: the kernel chooses an unused port. Linux first uses the ports of one parity. When they
//! are used up, every call searches all of them before it turns to the other half: a cliff at half the range.
//!
//! Misleads if the sweep stops early: up to the classic 10,000 sockets the curve looks flat. Also misleads after a
//! run of an HTTP benchmark: sockets in `TIME_WAIT` hold ports too, so Landau waits for them.
//!
//! A process may have fewer descriptors than the range has ports. When its table is full, a holder process takes over
//! the bound sockets, untimed, and the table is emptied.
//!
//! Source: the bind benchmark of Felix von Leitner's 2003 study, whose program did not check the result of bind until
//! 6 November 2003.

use landau_engine::{
    Annotation, Benchmark, Context, Cost, Facts, Host, Kind, Parameter, Phase, ReplayCase, Settings, Stop, Study,
    Support, Timer, Unit, Variant,
};
use landau_sys::descriptor::close;
use landau_sys::process::DescriptorHolder;
use landau_sys::socket::{Address, Family, Transport, accepts_mapped_peer, bind, local_port, set_port_range, socket};
use landau_sys::system::{ephemeral_ports, reserved_ports, setting, time_wait_count};
use std::collections::HashSet;
use std::os::fd::OwnedFd;

/// Approximate number of ports that are probed before a pass.
const PROBED: u16 = 128;

/// Descriptors that stay unused when the table is handed to a holder process.
const SPARE: usize = 64;

/// State of a pass.
#[derive(Debug)]
pub struct Bind {
    family: Family,
    v6only: Option<bool>,
    mapped_peer: Option<landau_sys::Result<bool>>,
    range: Option<(u16, u16)>,
    address: Address,
    sockets: Vec<OwnedFd>,
    room: usize,
    held: Vec<DescriptorHolder>,
    ports: Vec<u16>,
}

const SOCKET: usize = 0;
const BIND: usize = 1;
const CLOSE: usize = 2;

impl Benchmark for Bind {
    const NAME: &'static str = "bind";
    const ABOUT: &'static str = "Does bind() to port 0 cost more when thousands of ports are in use?";
    const AXIS: &'static str = "bound sockets";
    const PHASES: &'static [Phase] = &[
        Phase::up("socket", "socket(): allocate a socket and the lowest unused descriptor"),
        Phase::up("bind", "bind() to port 0 of the wildcard address: find an unused port"),
        Phase::down("close", "close() of the socket that was bound last; releases its port"),
    ];
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::auto_steps(
            "64",
            "auto",
            "auto",
            "bound sockets; auto: quick: past half of the host's port range; full, or with range=LOW-HIGH: past all of \
             it",
        ),
        Parameter::fixed("family", Kind::Choice(&["v4", "v6"]), "v4", "IPv4 or IPv6"),
        Parameter::fixed("v6only", Kind::Choice(&["on", "off"]), "on", "IPV6_V6ONLY of IPv6 sockets"),
        Parameter::fixed(
            "range",
            Kind::PortRange,
            "host",
            "ephemeral ports: the host's, or LOW-HIGH for these sockets only (IP_LOCAL_PORT_RANGE, Linux 6.3)",
        ),
    ];
    const VARIANTS: &'static [Variant] = &[
        // A range of two thousand ports takes little time, and the law against n / capacity is the same.
        Variant::always(&[("range", "40000-42001")]),
        Variant::always(&[("range", "40000-42001"), ("family", "v6"), ("v6only", "on")]),
        Variant::always(&[("range", "40000-42001"), ("family", "v6"), ("v6only", "off")]),
        Variant::full(&[("family", "v6"), ("v6only", "on")]),
        Variant::full(&[("family", "v6"), ("v6only", "off")]),
    ];
    const REPLAYS: &'static [ReplayCase] = &[
        ReplayCase::author("2003", 5, &[("n", "10000")]),
        // Past half of the port range.
        ReplayCase::corrected(&[]),
    ];
    const CAVEATS: &'static [&'static str] = &[
        "A measurement that stops at a third of the port range misses the cliff at half of it.",
        "Sockets in TIME_WAIT hold ports as well: see the state of the host under Environment.",
        "Linux assigns the ports of one parity first (since 4.2), so the cliff is at half the range.",
        "The search takes longer in a larger range: compare two ranges at equal n / capacity, not at equal n.",
    ];
    const SOURCE: &'static str = "F. von Leitner, Benchmarking BSD and Linux (2003), the bind benchmark";

    fn support(_: &Host, settings: &Settings) -> Support {
        if settings.is("family", "v6") && socket(Family::V6, Transport::Tcp).is_err() {
            return Support::No("this host has no IPv6".to_owned());
        }
        match settings.ports("range") {
            // Linux ignores the part of a socket's range that is outside the host's.
            Some((low, high)) if ephemeral_ports().is_some_and(|(from, to)| low < from || high > to) => {
                Support::No(format!("ports {low}-{high} are not within the host's ephemeral range"))
            }
            Some((low, high)) => match socket(Family::V4, Transport::Tcp).map(|fd| set_port_range(&fd, low, high)) {
                Ok(Ok(())) => Support::Yes,
                Ok(Err(error)) => Support::No(format!("a port range for single sockets needs Linux 6.3 ({error})")),
                Err(error) => Support::No(error.to_string()),
            },
            None => Support::Yes,
        }
    }

    fn auto_n(host: &Host, settings: &Settings, study: Study) -> u64 {
        let Some(capacity) = capacity(settings) else {
            return 10_000;
        };
        // A range that the user sets is small, so the quick study goes past all of it. The second half of the host's
        // range takes a minute for each pass.
        if study == Study::Full || settings.ports("range").is_some() {
            capacity + capacity / 100
        } else if host.clock.unit != Unit::Ns {
            // An emulator would take minutes; the other cases show the second half with their small ranges.
            4_000
        } else {
            capacity / 2 * 103 / 100
        }
    }

    fn annotations(_: &Host, settings: &Settings) -> Vec<Annotation> {
        let Some(capacity) = capacity(settings) else {
            return Vec::new();
        };
        let source = if settings.ports("range").is_some() {
            "bind.range, IP_LOCAL_PORT_RANGE"
        } else {
            "net.ipv4.ip_local_port_range minus ip_local_reserved_ports"
        };
        vec![
            Annotation::capacity("half the ephemeral port range", capacity as f64 / 2.0, source),
            Annotation::capacity("the whole ephemeral port range", capacity as f64, source),
        ]
    }

    fn cost(_: &Settings) -> Cost {
        Cost { memory_bytes_each: 2_800, descriptors_each: 1, ..Cost::default() }
    }

    fn limit(settings: &Settings, refused: landau_sys::Error) -> Option<(String, String)> {
        let (low, high) = settings.ports("range").filter(|_| refused.errno == libc::EADDRINUSE)?;
        Some((format!("no unused port from {low} to {high}"), "--set bind.range=LOW-HIGH".to_owned()))
    }

    /// Returns a message if other sockets hold ports of the range. No table of the kernel lists sockets that are only
    /// bound, so some ports are probed by number. Not all: after 28,000 sockets were opened and closed, the state of
    /// the kernel's slabs makes a bind cost 29% more.
    fn unsettled(settings: &Settings) -> Option<String> {
        let (low, high) = settings.ports("range").or_else(ephemeral_ports)?;
        let (family, waiting) = (family(settings), time_wait_count().unwrap_or(0));
        let stride = (high - low) / PROBED + 1;
        // An odd stride probes both parities.
        let probed: Vec<u16> = (low..=high).step_by(usize::from(stride | 1)).collect();
        let taken = probed.iter().filter(|&&port| is_taken(family, port)).count();
        let is_host = settings.ports("range").is_none();
        let many_wait = is_host && waiting > u64::from(high - low) / 100;
        (many_wait || taken > 1 + probed.len() / 50).then(|| {
            format!(
                "other sockets hold {taken} of {} probed ports from {low} to {high} ({waiting} sockets are in \
                 TIME_WAIT)",
                probed.len()
            )
        })
    }

    fn step_us(_: &Settings) -> u64 {
        150
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        let settings = context.settings;
        let family = family(settings);
        let v6only = (family == Family::V6).then(|| settings.is("v6only", "on"));
        let limit = landau_sys::limits::get(landau_sys::limits::Resource::Descriptors)?.0;
        Ok(Self {
            family,
            v6only,
            // Tested now, while descriptors are left for it.
            mapped_peer: v6only.map(accepts_mapped_peer),
            range: settings.ports("range"),
            address: Address::any(family),
            sockets: Vec::with_capacity(context.n as usize),
            room: (limit as usize).saturating_sub(SPARE).max(1),
            held: Vec::new(),
            ports: Vec::with_capacity(context.n as usize),
        })
    }

    fn step(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        if self.sockets.len() >= self.room {
            self.hand_over()?;
        }
        let (family, address) = (self.family, &self.address);
        let socket = timer.time(SOCKET, || socket(family, Transport::Tcp))?;
        if let Some(only) = self.v6only {
            landau_sys::stream::set_v6_only(&socket, only)?;
        }
        if let Some((low, high)) = self.range {
            set_port_range(&socket, low, high)?;
        }
        timer.time(BIND, || bind(&socket, address))?;
        self.sockets.push(socket);
        Ok(())
    }

    fn undo(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let socket = self.sockets.pop().ok_or(Stop::Enough)?;
        timer.time(CLOSE, || close(socket))
    }

    fn check(&mut self, steps: u64, facts: &mut Facts) -> Result<(), Stop> {
        self.note_ports()?;
        let distinct: HashSet<u16> = self.ports.iter().copied().filter(|&port| port != 0).collect();
        Stop::unless(distinct.len() as u64 == steps, || {
            format!("{steps} sockets were bound, but only to {} distinct ports", distinct.len())
        })?;
        facts.text("first_1000_ports", parity(&self.ports));
        if let Some(accepted) = self.mapped_peer {
            // Without a working loopback interface the test fails, but the curve is valid.
            let answer = match accepted {
                Ok(true) => "yes".to_owned(),
                Ok(false) => "no".to_owned(),
                Err(error) => format!("unknown ({error})"),
            };
            facts.text("accepts_ipv4_mapped_peer", answer);
        }
        if let Some(default) = setting("net.ipv6.bindv6only").filter(|_| self.v6only.is_some()) {
            facts.text("ipv6_v6only_default", if default == "0" { "off" } else { "on" });
        }
        Ok(())
    }
}

impl Bind {
    /// Hands the bound sockets to a holder process and empties the descriptor table.
    fn hand_over(&mut self) -> Result<(), Stop> {
        self.note_ports()?;
        self.held.push(DescriptorHolder::new()?);
        for socket in self.sockets.drain(..) {
            close(socket)?;
        }
        Ok(())
    }

    /// Stores the ports of the sockets in the table.
    fn note_ports(&mut self) -> Result<(), Stop> {
        for socket in &self.sockets {
            self.ports.push(local_port(socket)?);
        }
        Ok(())
    }
}

/// Returns the number of ports in the range.
fn capacity(settings: &Settings) -> Option<u64> {
    let (low, high) = settings.ports("range").or_else(ephemeral_ports)?;
    Some((u64::from(high - low) + 1).saturating_sub(u64::from(reserved_ports(low, high))))
}

fn family(settings: &Settings) -> Family {
    if settings.is("family", "v6") { Family::V6 } else { Family::V4 }
}

/// Returns whether a port is in use. An error other than `EADDRINUSE` counts as unused.
fn is_taken(family: Family, port: u16) -> bool {
    let Ok(socket) = socket(family, Transport::Tcp) else {
        return false;
    };
    bind(&socket, &Address::any(family).with_port(port)).is_err_and(|error| error.errno == libc::EADDRINUSE)
}

/// Returns the parity of the first ports. If they share one, the curve has a cliff at half the range.
fn parity(ports: &[u16]) -> &'static str {
    let first = &ports[..ports.len().min(1_000)];
    match first.iter().filter(|&&port| port % 2 == 1).count() {
        0 => "all even",
        odd if odd == first.len() => "all odd",
        _ => "odd and even",
    }
}
