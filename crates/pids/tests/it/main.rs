//! Tests of the models: the invariants of every allocator, and the closed forms of the mean cost.

mod closed_forms;
mod operations;
mod sizes;
