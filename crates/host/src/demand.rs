//! The demands of a user: a kind of load and its size, and the resources that one object takes.

use crate::text::grouped;

/// A kind of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// The word before `=`.
    pub name: &'static str,
    /// The unit, in the plural.
    pub unit: &'static str,
    /// The description in the help text.
    pub about: &'static str,
    /// Whether it is a Landau benchmark, with the same name.
    pub is_benchmark: bool,
    pub(crate) needs: Needs,
}

impl Kind {
    /// Returns whether it is the load of a server, which several processes can share.
    pub(crate) fn is_server(&self) -> bool {
        !self.is_benchmark && self.needs.opens == "accept"
    }
}

/// The resources that each object takes, and those that its program takes in addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Descriptors of one process: for each object, and for the program itself. `None`: descriptors do not bound it.
    pub(crate) descriptors: Option<(u64, u64)>,
    /// Whether the program reserves a quarter of its free descriptors for files, at most [`SPARE_OF_SERVE`].
    pub(crate) keeps_spare: bool,
    /// Whether the program closes inherited descriptors, as a worker of Landau does.
    pub(crate) closes_inherited: bool,
    /// The call that fails without a free descriptor.
    pub(crate) opens: &'static str,
    /// Open files of the whole system.
    pub(crate) open_files: u64,
    /// Processes or threads: for each object, and for the program itself in addition to the calling one.
    pub(crate) tasks: Option<(u64, u64)>,
    /// Whether the program raises its soft limit of processes to the hard limit, as a worker of Landau does.
    pub(crate) raises_tasks: bool,
    /// The call that fails if no further task can be created.
    pub(crate) creates: &'static str,
    /// Mappings of one process.
    pub(crate) maps: u64,
    /// The address space of one process that each object takes.
    pub(crate) addresses: Addresses,
    /// The memory that the kernel commits for each object. It counts if the kernel does not overcommit.
    pub(crate) promised: Promised,
    /// The use of ephemeral ports.
    pub(crate) ports: Ports,
    /// Connected TCP sockets.
    pub(crate) connections: u64,
    /// Files in the directory.
    pub(crate) files: u64,
    /// Memory of the kernel, and of the program where it cannot be avoided, in bytes. For a connection, a measured
    /// value takes precedence. These are the measured figures of the benchmarks (`Benchmark::cost`).
    pub(crate) memory_bytes: u64,
}

/// Address space of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Addresses {
    /// A negligible amount.
    None,
    /// The stack of a thread, with its guard page.
    Stack,
    /// A page.
    Page,
}

/// Private writable memory that the kernel commits (`Committed_AS`), whether or not it is ever used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promised {
    /// None: shared or read-only file mappings and the kernel's own memory do not count.
    None,
    /// The stack of a thread; its guard page does not count.
    Stack,
    /// A page.
    Page,
    /// The private writable memory of the forking program, which the child gets too. For a program that is started,
    /// this many bytes.
    Copy(u64),
}

/// Ports of the ephemeral range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ports {
    /// None: the connections arrive at one port, or come from several source addresses.
    None,
    /// One for each destination address and port.
    PerDestination,
    /// One port of the wildcard address.
    Wildcard,
}

const NONE: Needs = Needs {
    descriptors: None,
    keeps_spare: false,
    closes_inherited: false,
    opens: "",
    open_files: 0,
    tasks: None,
    raises_tasks: false,
    creates: "",
    maps: 0,
    addresses: Addresses::None,
    promised: Promised::None,
    ports: Ports::None,
    connections: 0,
    files: 0,
    memory_bytes: 0,
};

/// Standard input, output and error.
const STANDARD: u64 = 3;

/// Descriptors that `landau mail` reserves for itself, as in `mail::delivery`.
const OF_MAIL: u64 = 32;

/// Descriptors that `landau serve` has open in addition to the connections.
const OF_SERVE: u64 = 8;

/// The maximum number of descriptors that `landau serve` reserves for files (`serve::admission`).
pub(crate) const SPARE_OF_SERVE: u64 = 80;

/// The private writable memory of the fork helper, a small program that the benchmarks fork: the mappings with the flag
/// `ac` in `/proc/PID/smaps`. Of these, 132 KiB are its stack.
const FORK_HELPER: u64 = 252 << 10;

const SOCKETS: Needs =
    Needs { descriptors: Some((1, STANDARD)), opens: "socket", open_files: 1, memory_bytes: 2_600, ..NONE };
const BOUND: Needs = Needs { ports: Ports::Wildcard, opens: "bind", open_files: 1, memory_bytes: 2_800, ..NONE };
const PROCESSES: Needs = Needs {
    tasks: Some((1, 0)),
    creates: "fork",
    promised: Promised::Copy(FORK_HELPER),
    memory_bytes: 150 << 10,
    ..NONE
};
const THREADS: Needs = Needs {
    tasks: Some((1, 0)),
    creates: "pthread_create",
    maps: 2,
    addresses: Addresses::Stack,
    promised: Promised::Stack,
    memory_bytes: 40 << 10,
    ..NONE
};
const MAPS: Needs = Needs { maps: 1, addresses: Addresses::Page, promised: Promised::Page, memory_bytes: 220, ..NONE };

/// All kinds, in the order of the help text.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "idle",
        unit: "connections",
        about: "connections that a server on this host holds open",
        is_benchmark: false,
        needs: Needs {
            descriptors: Some((1, STANDARD)),
            opens: "accept",
            open_files: 1,
            connections: 1,
            memory_bytes: 4_000,
            ..NONE
        },
    },
    Kind {
        name: "mail",
        unit: "sessions",
        about: "simultaneous SMTP sessions to other hosts",
        is_benchmark: false,
        needs: Needs {
            descriptors: Some((1, OF_MAIL)),
            opens: "socket",
            open_files: 1,
            ports: Ports::PerDestination,
            connections: 1,
            memory_bytes: 4_000,
            ..NONE
        },
    },
    Kind {
        name: "files",
        unit: "files",
        about: "files in the directory, of one block each",
        is_benchmark: false,
        needs: Needs { files: 1, ..NONE },
    },
    Kind { name: "processes", unit: "processes", about: "further processes", is_benchmark: false, needs: PROCESSES },
    Kind {
        name: "threads",
        unit: "threads",
        about: "further threads of one process",
        is_benchmark: false,
        needs: THREADS,
    },
    Kind {
        name: "maps",
        unit: "mappings",
        about: "mappings of one page in one process",
        is_benchmark: false,
        needs: MAPS,
    },
    Kind { name: "ports", unit: "ports", about: "sockets bound to port 0", is_benchmark: false, needs: BOUND },
    Kind {
        name: "sockets",
        unit: "sockets",
        about: "open sockets of one process",
        is_benchmark: false,
        needs: SOCKETS,
    },
    Kind {
        name: "socket",
        unit: "steps",
        about: "n of the benchmark socket",
        is_benchmark: true,
        // The worker keeps /proc/stat open, to read the stolen time.
        needs: Needs { descriptors: Some((1, STANDARD + 1)), closes_inherited: true, ..SOCKETS },
    },
    Kind { name: "bind", unit: "steps", about: "n of the benchmark bind", is_benchmark: true, needs: BOUND },
    Kind {
        name: "connect",
        unit: "steps",
        about: "n of the benchmark connect",
        is_benchmark: true,
        needs: Needs {
            descriptors: Some((1, OF_SERVE)),
            keeps_spare: true,
            closes_inherited: true,
            opens: "accept",
            open_files: 2,
            connections: 2,
            memory_bytes: 8_000,
            ..NONE
        },
    },
    Kind {
        name: "fork",
        unit: "steps",
        about: "n of the benchmark fork",
        is_benchmark: true,
        needs: Needs { tasks: Some((1, 2)), raises_tasks: true, ..PROCESSES },
    },
    Kind {
        name: "thread",
        unit: "steps",
        about: "n of the benchmark thread",
        is_benchmark: true,
        needs: Needs { raises_tasks: true, ..THREADS },
    },
    Kind {
        name: "mmap",
        unit: "steps",
        about: "n of the benchmark mmap",
        is_benchmark: true,
        // It maps pages of a file for reading.
        needs: Needs { promised: Promised::None, ..MAPS },
    },
    Kind {
        name: "spawn",
        unit: "steps",
        about: "n of the benchmark spawn",
        is_benchmark: true,
        needs: Needs { tasks: Some((1, 5)), raises_tasks: true, creates: "clone3", ..PROCESSES },
    },
];

/// A requested load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// The kind of load.
    pub kind: &'static Kind,
    /// The size; `None` asks for the maximum.
    pub size: Option<u64>,
}

/// An invalid demand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The word is not a known kind.
    #[error("`{0}` is not a kind of load; write one of {names}", names = names())]
    UnknownKind(String),
    /// The size is not a number.
    #[error("`{0}` is not a size; write a whole number of at least 1, as in idle=100000")]
    NotASize(String),
}

fn names() -> String {
    KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ")
}

impl Demand {
    /// Parses `idle=100000`, or `idle` for the maximum that fits.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (name, size) = text.split_once('=').map_or((text, None), |(name, size)| (name, Some(size)));
        let kind = KINDS.iter().find(|kind| kind.name == name.trim());
        let kind = kind.ok_or_else(|| Error::UnknownKind(name.trim().to_owned()))?;
        let size = size.map(|size| {
            let parsed = size.trim().replace(['_', ','], "").parse::<u64>().ok().filter(|&size| size > 0);
            parsed.ok_or_else(|| Error::NotASize(size.to_owned()))
        });
        Ok(Self { kind, size: size.transpose()? })
    }

    /// Parses demands separated by commas: `mail=3000,files`. A comma may also group the digits of a size:
    /// `idle=100,000,files`.
    ///
    /// # Errors
    ///
    /// Fails if one of them is invalid.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, Error> {
        let mut words: Vec<String> = Vec::new();
        for part in text.split(',') {
            let is_group = part.len() == 3 && part.bytes().all(|byte| byte.is_ascii_digit());
            match words.last_mut().filter(|before| is_group && before.contains('=')) {
                Some(before) => before.push_str(part),
                None => words.push(part.to_owned()),
            }
        }
        words.iter().map(|word| Self::parse(word)).collect()
    }

    /// Returns the default demands: the maximum of every kind but benchmarks.
    pub fn all() -> Vec<Self> {
        KINDS.iter().filter(|kind| !kind.is_benchmark).map(|kind| Self { kind, size: None }).collect()
    }

    /// Returns the demand as a user types it, with grouped digits.
    pub fn label(&self) -> String {
        self.size.map_or(self.kind.name.to_owned(), |size| format!("{}={}", self.kind.name, grouped(size)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demand_has_a_kind_and_a_size() {
        let demand = Demand::parse("idle=100_000").unwrap();
        assert_eq!((demand.kind.name, demand.size, demand.label().as_str()), ("idle", Some(100_000), "idle=100,000"));
        assert_eq!(Demand::parse("ports").unwrap().size, None);
        assert!(matches!(Demand::parse("idel=3"), Err(Error::UnknownKind(word)) if word == "idel"));
        assert!(["idle=", "idle=0", "idle=-3", "idle=3k"].iter().all(|text| Demand::parse(text).is_err()));
    }

    /// Guards against reading one size, in the format of `doctor`, as two demands.
    #[test]
    fn a_comma_separates_demands_or_groups_digits() {
        let read = |text: &str| -> Vec<String> { Demand::parse_all(text).unwrap().iter().map(Demand::label).collect() };
        assert_eq!(read("idle=100,000"), ["idle=100,000"]);
        assert_eq!(read("idle=1,000,000,files,mail=3000"), ["idle=1,000,000", "files", "mail=3,000"]);
        assert_eq!(read("mail=3000,files=20"), ["mail=3,000", "files=20"]);
        for wrong in ["idle,100", "idle=100,00", "idle=100,", "100,000", ""] {
            assert!(Demand::parse_all(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_unique() {
        assert!(KINDS.iter().enumerate().all(|(at, one)| KINDS[..at].iter().all(|other| other.name != one.name)));
    }
}
