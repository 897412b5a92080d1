//! HTTP/1.1 (RFC 9110, RFC 9112) for a server of files and a generator of load, one subject a file.

mod bytes;
pub mod field;
mod framing;
pub mod host;
pub mod request;
mod scan;
pub mod status;

pub use field::Field;
pub use request::{BodyLength, Expectation, Form, Limits, Method, Parsed, Reject, Request, Version};
pub use scan::Scan;
pub use status::Status;
