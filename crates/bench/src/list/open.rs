//! `open`: opens the same small file thousands of times.
//!
//! Measures `open()` for reading: the path lookup, an open file, the lowest unused descriptor; during destruction
//! `close()`.
//!
//! Not a measure of file systems: the path is short, and cached from the first call on. `map_files` opens thousands of
//! different files.
//!
//! Source: the open graph of the 2003 study, reduced to the part that does not depend on the directory.

use crate::files::small_file;
use landau_engine::{Benchmark, Context, Cost, Facts, Parameter, Phase, Settings, Stop, Timer};
use landau_sys::descriptor::{close, open};
use std::ffi::CString;
use std::os::fd::OwnedFd;

/// State of a pass.
#[derive(Debug)]
pub struct Open {
    path: CString,
    files: Vec<OwnedFd>,
}

const OPEN: usize = 0;
const CLOSE: usize = 1;

impl Benchmark for Open {
    const NAME: &'static str = "open";
    const ABOUT: &'static str = "Does open() cost more when thousands of files are open?";
    const AXIS: &'static str = "open files";
    const PHASES: &'static [Phase] = &[
        Phase::up("open", "open() of one small cached file for reading"),
        Phase::down("close", "close() of the newest file"),
    ];
    const PARAMETERS: &'static [Parameter] = &[Parameter::steps("64", "5000", "19000", "open files")];
    const CAVEATS: &'static [&'static str] =
        &["It is always the same file, so its path is cached; map_files opens different files."];
    const SOURCE: &'static str = "F. von Leitner, Benchmarking BSD and Linux (2003), the open graph";

    fn cost(_: &Settings) -> Cost {
        Cost { memory_bytes_each: 400, descriptors_each: 1, disk_bytes: 1 << 20, ..Cost::default() }
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        let path = small_file(context.scratch)?;
        Ok(Self { path, files: Vec::with_capacity(context.n as usize) })
    }

    fn step(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let path = &self.path;
        self.files.push(timer.time(OPEN, || open(path))?);
        Ok(())
    }

    fn undo(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let file = self.files.pop().ok_or(Stop::Enough)?;
        timer.time(CLOSE, || close(file))
    }

    fn check(&mut self, steps: u64, _facts: &mut Facts) -> Result<(), Stop> {
        crate::list::check_open(&self.files, steps)
    }
}
