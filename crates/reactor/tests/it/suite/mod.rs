//! What every backend must do alike, by subject.

mod changes;
mod closing;
mod crowd;
mod deadlines;
mod kinds;
mod limits;
mod model;
mod readiness;
mod waker;
