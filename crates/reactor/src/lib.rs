//! An event loop whose backend is chosen by name at run time, with O(1) timers, and batches of buffers and file ranges
//! that are sent with as few system calls as the kernel allows.
//!
//! [`Reactor`] reports readiness through `select`, `poll`, `epoll`, `kqueue`, queued signals or `io_uring`;
//! [`completions::Ring`] performs whole operations on `io_uring`. The crate implements no protocol. A [`Reactor`]
//! belongs to one thread; only its [`Waker`] may be used from another.
//!
//! ```
//! use landau_reactor::{Backend, Interest, Reactor, Token};
//! use std::io::Write;
//! use std::os::unix::net::UnixStream;
//! use std::time::Duration;
//!
//! let mut reactor = Reactor::new(Backend::default())?;
//! let (reading, mut writing) = UnixStream::pair()?;
//! reactor.register(&reading, Token(7), Interest::READABLE)?;
//! writing.write_all(b"x")?;
//! reactor.wait(Some(Duration::from_secs(1)))?;
//! let event = reactor.next_event().expect("the stream is readable");
//! assert_eq!(event.token, Token(7));
//! assert!(event.ready.is_readable());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod backend;
pub mod batch;
mod clock;
#[cfg(target_os = "linux")]
pub mod completions;
mod error;
mod interest;
mod reactor;
pub mod timers;
mod waker;

pub use backend::{Backend, backends};
pub use batch::Batch;
pub use clock::ManualClock;
pub use error::Error;
pub use interest::{Event, Interest, Ready, Token};
pub use reactor::Reactor;
pub use waker::Waker;
