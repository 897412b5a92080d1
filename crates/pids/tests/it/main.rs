//! The models against what must hold of every allocator, and against the closed forms of the mean cost.

mod closed_forms;
mod operations;
mod sizes;
