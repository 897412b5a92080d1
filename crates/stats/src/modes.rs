//! Two branches instead of one: calls, or whole passes, that cost either this or that.

use crate::{Curve, Estimate, Options};
use serde::{Deserialize, Serialize};

/// How the costs divide.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Modes {
    /// What chooses the branch.
    pub kind: ModeKind,
    /// The cheaper branch.
    pub low: Branch,
    /// The dearer branch.
    pub high: Branch,
}

/// What chooses between two branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModeKind {
    /// A whole pass is on one branch: layout, boot or placement.
    ByPass,
    /// Calls of one pass alternate: two paths in the kernel.
    ByCall,
}

/// One of two branches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Branch {
    /// Its share of the passes or calls, 0 to 1.
    pub share: f64,
    /// Its centre in nanoseconds at the largest n; lowest and highest centre over the passes.
    pub ns: Estimate,
    /// Its cost at the largest n over its cost at the smallest.
    pub growth: f64,
}

/// Looks for two branches.
pub(crate) fn find(_curve: &Curve, _options: &Options) -> Option<Modes> {
    None
}
