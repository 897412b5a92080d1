//! A directory of records as a collection: its contents, which of its values are comparable, and how they changed.
//!
//! [`read`] updates the [index](Collection::index) of the directory, an `SQLite` database that can be rebuilt from the
//! records at any time. It returns the records that a [`Filter`] selects. [`trends`] follows one [`Quantity`] over
//! them. The crate prints nothing; `landau_report::history` renders its results.

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
    /// The directory cannot be read.
    #[error("cannot read the directory {path}")]
    Folder {
        /// The path as the user gave it.
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The file at the path of the index is a link or not an index.
    #[error(
        "{path} is not an index of landau history (or is a symbolic link), so it is not overwritten; remove it, or \
         choose another path with --index"
    )]
    NotAnIndex {
        /// The path.
        path: String,
    },
    /// The index failed.
    #[error("the index {path} failed; {}", advice(.source))]
    Index {
        /// The path.
        path: String,
        /// The error of `SQLite`.
        source: rusqlite::Error,
    },
    /// Other programs kept changing the index or the records during the read.
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
        // A table is missing, or a column has another type or no value; this version never writes that.
        rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::SqlInputError { .. } => true,
        _ => false,
    }
}

/// Returns what to do about an error of `SQLite`. A rebuild only fixes a damaged index.
fn advice(error: &rusqlite::Error) -> &'static str {
    if is_damage(error) {
        "run landau history --rebuild to rebuild it from the records"
    } else {
        "choose another path with --index"
    }
}
