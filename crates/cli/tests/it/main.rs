//! The program from outside: what it does, says and leaves behind.

mod interrupted;
mod measured;
mod misused;
mod support;
