//! Whole sessions against bytes from a hostile peer. Not part of the public interface: fuzz targets and tests use it.

pub use crate::client::hostile::client;
pub use crate::relay::hostile::relay;
pub use crate::sink::smtp::hostile::sink;
