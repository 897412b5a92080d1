//! One suite over every mechanism of this system.

mod suite;
