//! Which kernel functions a call's instructions are spent in, and which of them make it dearer the more there is.

pub mod plugin;
