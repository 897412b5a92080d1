//! How many steps fit on this host, with a margin for everything else that runs on it.

use crate::{Cost, Entry, Host, Settings, Study, lanes};
use landau_record::schema::Reduced;
use landau_sys::shared::Lanes;
use landau_sys::system::Headroom;
use std::collections::BTreeMap;

/// The smallest n that is measured: fewer steps show nothing, so the case is skipped instead.
const SMALLEST: u64 = 16;

/// The resources that are free on this host.
#[derive(Debug, Clone)]
pub(crate) struct Free {
    pub(crate) headroom: Headroom,
    /// Free bytes for the benchmarks' files.
    pub(crate) scratch_bytes: Option<u64>,
    /// The files of the cases that were planned before.
    pub(crate) files: Files,
}

/// The sizes of the files of several cases. Passes of different cases take turns, so files that stay are there beside
/// those of any other pass.
#[derive(Debug, Clone, Default)]
pub(crate) struct Files {
    /// Files that stay until the run ends, by name.
    kept: BTreeMap<String, u64>,
    /// The largest files that end with their pass.
    temporary_bytes: u64,
}

impl Files {
    fn add(&mut self, kept: Option<String>, bytes: u64) {
        let size = kept.map_or(&mut self.temporary_bytes, |name| self.kept.entry(name).or_default());
        *size = bytes.max(*size);
    }

    fn bytes(&self) -> u64 {
        self.kept.values().sum::<u64>() + self.temporary_bytes
    }
}

impl Free {
    /// Reserves room for the files of a case, which have this name if they stay. Returns the bytes that are left for
    /// them if they do not fit.
    fn reserve(&mut self, kept: Option<String>, bytes: u64) -> Result<(), u64> {
        let mut files = self.files.clone();
        files.add(kept, bytes);
        if let Some(free) = self.scratch_bytes.filter(|&free| free < files.bytes()) {
            return Err(free.saturating_sub(files.bytes().saturating_sub(bytes)));
        }
        self.files = files;
        Ok(())
    }
}

/// Returns the number of steps that fits, and the requested number if that was larger. The error says why none fits.
pub(crate) fn fit(
    entry: &Entry,
    settings: &Settings,
    study: Study,
    host: &Host,
    free: &mut Free,
) -> Result<(u64, Option<Reduced>), String> {
    let requested = entry.steps(host, settings, study);
    let mut settings = settings.clone();
    settings.set("n", &requested.to_string());
    let cost = (entry.cost)(&settings);
    let lanes_bytes = lanes_bytes(entry, &settings, requested);
    let tightest = bounds(lanes_bytes, &cost, requested, &free.headroom).into_iter().min_by_key(|(n, _)| *n);
    let (n, reason) = tightest.unwrap_or_else(|| {
        (0, "the free resources cannot be read (on Linux they are in /proc: is it mounted?)".to_owned())
    });
    if n < requested.min(SMALLEST) {
        return Err(format!("the host has no room for it: {reason}"));
    }
    free.reserve((entry.kept_files)(&settings), cost.disk_bytes).map_err(|bytes| {
        let beside = if free.scratch_bytes == Some(bytes) { "" } else { " beside the files of other cases" };
        format!(
            "its files need {} MiB and their directory has {} MiB free{beside}; choose another directory with --dir",
            cost.disk_bytes >> 20,
            bytes >> 20
        )
    })?;
    let is_reduced = n < requested;
    Ok((n.min(requested), is_reduced.then_some(Reduced { requested, reason })))
}

/// Returns the size of the lanes of the samples of `n` steps, in bytes.
fn lanes_bytes(entry: &Entry, settings: &Settings, n: u64) -> u64 {
    let phase_count = (entry.phases_of)(settings).len();
    Lanes::byte_count(&lanes::capacities(phase_count, n, entry.tags_calls, false))
}

/// Returns the address space that a worker takes for a plan of `n` steps before the first of them, in bytes: the
/// samples, and what the benchmark itself keeps for each step.
pub(crate) fn worker_bytes(entry: &Entry, settings: &Settings, n: u64) -> u64 {
    let own = (entry.cost)(settings).worker_bytes_each;
    lanes_bytes(entry, settings, n).saturating_add(own.saturating_mul(n))
}

/// Returns the largest n that each resource of the host allows, and why. The lanes of the samples take `lanes_bytes`.
fn bounds(lanes_bytes: u64, cost: &Cost, requested: u64, headroom: &Headroom) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    if let Some(free) = headroom.memory_bytes {
        let each = cost.memory_bytes_each + lanes_bytes.div_ceil(requested.max(1));
        let usable = (free / 10 * 7).saturating_sub(cost.memory_bytes);
        found.push((
            usable / each.max(1),
            format!("each object takes about {each} bytes; 30% of the {} MiB of free memory are kept free", free >> 20),
        ));
    }
    if let (Some((room, why)), 1..) = (&headroom.processes, cost.processes_each) {
        found.push((room / 10 * 9 / cost.processes_each, format!("{why}; a tenth is kept free")));
    }
    if let (Some((room, why)), 1..) = (&headroom.descriptors, cost.descriptors_each) {
        found.push((room / 10 * 8 / cost.descriptors_each, format!("{why}; a fifth is kept free")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::REGISTRY;

    /// The host always keeps a part of each resource: here a tenth of its processes.
    #[test]
    fn the_tightest_resource_bounds_the_size() {
        let headroom =
            Headroom { memory_bytes: Some(1 << 40), processes: Some((1_000, "a limit".to_owned())), descriptors: None };
        let settings = Settings::of_study(REGISTRY[0].parameters, Study::Full);
        let fit = |headroom: Headroom| {
            let mut free = Free { headroom, scratch_bytes: None, files: Files::default() };
            fit(&REGISTRY[0], &settings, Study::Full, &Host::default(), &mut free)
        };
        let reduced = Reduced { requested: 1_000, reason: "a limit; a tenth is kept free".to_owned() };
        assert_eq!(fit(headroom.clone()), Ok((900, Some(reduced))));
        let none = Headroom { processes: Some((9, "full".to_owned())), ..headroom };
        assert!(fit(none).unwrap_err().contains("no room"));
    }

    /// Guards against cases whose files fit one by one, but not together.
    #[test]
    fn the_files_of_all_cases_have_room_together() {
        let headroom = Headroom { memory_bytes: None, processes: None, descriptors: None };
        let mut free = Free { headroom, scratch_bytes: Some(300), files: Files::default() };
        let mut reserve = |kept: &str, bytes| free.reserve((!kept.is_empty()).then(|| kept.to_owned()), bytes);
        assert_eq!([reserve("", 50), reserve("", 40)], [Ok(()), Ok(())], "one after another");
        assert_eq!([reserve("big", 100), reserve("big", 100)], [Ok(()), Ok(())], "they share the file");
        assert_eq!([reserve("image", 75), reserve("other image", 76)], [Ok(()), Err(75)]);
        assert_eq!([reserve("", 126), reserve("", 125)], [Err(125), Ok(())]);
        free.scratch_bytes = None;
        assert_eq!(free.reserve(None, 1 << 40), Ok(()), "it is unknown");
    }
}
