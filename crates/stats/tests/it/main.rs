//! The one integration binary: properties that hold for every curve, shapes that must be recognised, and cells of the
//! calibration as a regression.

mod cells;
mod comparisons;
mod exact;
mod properties;
mod shapes;
mod synthetic;
