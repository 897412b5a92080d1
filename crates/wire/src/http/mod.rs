//! HTTP/1.1 (RFC 9110, RFC 9112) for a file server and a load generator, one subject a file.

pub mod accept;
pub mod body;
pub(crate) mod bytes;
pub mod condition;
pub mod date;
pub mod encoding;
pub mod field;
mod framing;
pub mod head;
pub mod host;
pub mod mime;
pub mod multipart;
pub mod range;
pub mod request;
pub mod response;
mod scan;
pub mod status;
pub mod target;

pub use field::Field;
pub use request::{BodyLength, Expectation, Form, Limits, Method, Parsed, Reject, Request, Version};
pub use scan::Scan;
pub use status::Status;
