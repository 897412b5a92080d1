//! Properties of every verdict, shapes that must be recognised, and cells of the calibration as regression tests.

mod cells;
mod claims;
mod comparisons;
mod exact;
mod extrapolated;
mod interleaved;
mod ministat;
mod properties;
mod settled;
mod shapes;
mod synthetic;
