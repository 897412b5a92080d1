//! Turns the verdict of a `figure` of schema 1 or 2 into that of a `result` of today.

use serde_json::Value;

/// Returns a verdict of schema 1 or 2 as `landau-stats` serialises it today.
pub(super) fn upgrade(verdict: Value) -> Value {
    verdict
}
