//! The client side of an SMTP connection as a state machine without I/O: it takes bytes and times, and returns events
//! and the bytes to send.

pub(crate) mod hostile;
mod outgoing;
mod session;
mod timeouts;

pub(crate) use outgoing::{Content, Outgoing};
pub(crate) use session::{Broken, Event, Needs, Security, Session, Stage, Verdict};
pub(crate) use timeouts::Timeouts;
