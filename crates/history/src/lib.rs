//! A folder of records as a collection: what is in it, which of its values are comparable, and how they changed.
//!
//! [`read`] brings the [index](Collection::index) up to date with the folder, a `SQLite` database that can be rebuilt
//! from the records at any time, and returns the records that a [`Filter`] selects. [`trends`] follows one [`Quantity`]
//! over them. The crate prints nothing; `landau_report::history` words and draws what it returns.

mod collection;
mod digest;
mod entry;
mod files;
mod filter;
mod group;
mod index;
mod quantity;
mod trends;

pub use collection::{Collection, Options, read};
pub use entry::{Curve, Entry};
pub use files::SITE_MARK;
pub use filter::Filter;
pub use group::{Group, Grouping, groups};
pub use index::Place;
pub use quantity::{Quantity, UnknownQuantity};
pub use trends::trends;

/// An error of reading a collection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder cannot be read.
    #[error("cannot read the folder {path}")]
    Folder {
        /// The path as the user gave it.
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The file in the place of the index is a link or something else.
    #[error(
        "{path} is no index of landau history (or a link), and will not be overwritten; remove it, or choose another \
         place with --index"
    )]
    NotAnIndex {
        /// Where it is.
        path: String,
    },
    /// The index failed.
    #[error("the index {path} failed; {}", advice(.source))]
    Index {
        /// Where it is.
        path: String,
        /// The error of `SQLite`.
        source: rusqlite::Error,
    },
    /// Other programs kept changing the index or the records while they were read.
    #[error("the collection kept changing while it was read; run the command again")]
    Busy,
}

impl Error {
    /// Returns whether the index is damaged, so that only a rebuild helps.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Index { source, .. } if is_damage(source))
    }
}

/// Returns whether an error of `SQLite` says that the index is damaged.
fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => matches!(failure.code, DatabaseCorrupt | NotADatabase),
        // A table or a column of another type or without its value: not what this version writes.
        rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::SqlInputError { .. } => true,
        _ => false,
    }
}

/// Returns what to do about an error of `SQLite`: only a damaged index is mended by a rebuild.
fn advice(error: &rusqlite::Error) -> &'static str {
    if is_damage(error) {
        "landau history --rebuild makes it again from the records"
    } else {
        "choose another place with --index"
    }
}
