//! The limits of a host: whether a load of a given size fits, which limit binds, the evidence, and how to raise it.
//!
//! [`examine`] reads `/proc`, `/sys` and `/etc` below a [`Root`] and changes nothing. For a running program it also
//! queries the kernel for listening sockets (`accept_queues`). A rule (`limit/`, one file for each subject) turns this
//! data into a [`Row`]: the limit, its bound in the user's units, the evidence and the remedy. The smallest bound of a
//! [`Demand`] is its [`Answer`]. Two measurements are optional: the kernel's memory for a [`connection`], and
//! [`noise`].
//!
//! | file | subject |
//! |---|---|
//! | `root`, `text`, `row`, `demand` | vocabulary: files, numbers, rows, kinds of load and the needs of an object |
//! | `subject`, `census`, `cgroups`, `systemd` | the process, all processes, its control groups, settings of systemd |
//! | `context`, `limit`, `conditions`, `process` | the rules |
//! | `connection`, `noise` | the measurements |
//! | `accept_queues` | the backlog and the drops of listening sockets, from the kernel |
//! | `rights` | what to do if another process cannot be read |
//! | `report` | the answer |
//! | `inspect` | the network architecture of a running server |

mod accept_queues;
mod census;
mod cgroups;
mod conditions;
pub mod connection;
mod context;
mod demand;
pub mod inspect;
mod limit;
mod links;
pub mod noise;
mod process;
mod report;
mod rights;
mod root;
mod row;
mod subject;
mod systemd;
mod text;

pub use census::FIRST_PID_NAMESPACE;
pub use context::Folder;
pub use demand::{Demand, Error, KINDS, Kind};
pub use limit::{NR_OPEN, NR_OPEN_OF_SYSTEMD};
pub use process::{Listener, Process};
pub use report::{Answer, NoProcess, Report, Request, Reserve, Worker, examine};
pub use root::Root;
pub use row::{Bound, Condition, Counter, Effect, Remedy, Row};
pub use subject::Unread;
pub use systemd::manager_setting;
pub use text::{bytes, counted, grouped};
