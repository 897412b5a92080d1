//! The life of a pass inside the worker: set up, create, check, destroy.

use crate::order::Report;
use crate::{Benchmark, Context, Cost, Stop, Timer, limit};
use landau_record::schema::{Direction, Limit, Unit};
use landau_sys::{memory, system};

/// Runs one pass of a benchmark.
pub(crate) fn pass<B: Benchmark>(context: &Context, timer: &mut Timer) -> Report {
    let mut report = Report::new();
    let mut benchmark = match B::setup(context) {
        Ok(benchmark) => benchmark,
        Err(stop) => {
            fail(&mut report, &stop, 0);
            return report;
        }
    };
    context.progress.report();
    supply_memory(&B::cost(context.settings), context, &mut report);
    context.progress.report();
    timer.watch(&benchmark.measured_processes());
    create(&mut benchmark, context, timer, &mut report);
    if report.wrong.is_none()
        && let Err(stop) = benchmark.check(report.steps, &mut report.facts)
    {
        let steps = report.steps;
        fail(&mut report, &stop, steps);
    }
    if report.wrong.is_none() && B::phases(context.settings).iter().any(|phase| phase.direction == Direction::Down) {
        displace_caches(context, &mut report);
        destroy(&mut benchmark, timer, &mut report);
    }
    // The removal of the benchmark's objects, which follows, may take long and yields no samples.
    timer.finish_pass();
    report
}

/// Touches the memory that the objects will need, so that the host of a virtual machine supplies it before the
/// measurement.
fn supply_memory(cost: &Cost, context: &Context, report: &mut Report) {
    // The amount of free memory may have changed since the plan, or the record that is resumed, was made.
    let free = system::free_memory().unwrap_or(0);
    // Other programs use memory, too.
    let needed = |each: u64, most: u64| each.saturating_mul(context.n).saturating_mul(5).div_ceil(4).min(most);
    let kernel = needed(cost.memory_bytes_each.saturating_sub(cost.page_bytes_each), free / 2);
    let pages = needed(cost.page_bytes_each, free / 2 - kernel);
    if kernel + pages == 0 {
        return;
    }
    match memory::supply(kernel as usize, pages as usize) {
        Ok(None) => {}
        Ok(Some(error)) => report.facts.text("memory", format!("the kernel's own was supplied as pages: {error}")),
        Err(error) => report.facts.text("memory", format!("not supplied before the pass: {error}")),
    }
}

/// Displaces the objects from the caches before the first is destroyed. The newest is destroyed first, at the largest
/// n, while it is still in the caches: the cost would fall with n, by an amount that depends on the other users of the
/// last-level cache.
fn displace_caches(context: &Context, report: &mut Report) {
    let largest = context.host.caches.iter().map(|cache| cache.bytes).max().unwrap_or(0);
    // The number of instructions does not depend on the caches.
    if largest == 0 || context.host.clock.unit != Unit::Ns {
        return;
    }
    let displaced = displacing_bytes(largest, system::free_memory())
        .and_then(|bytes| memory::displace_caches(bytes).map_err(|error| error.to_string()));
    if let Err(why) = displaced {
        report.facts.text("caches", format!("not displaced before the destruction: {why}"));
    }
}

/// Returns how many bytes to touch to displace the objects from a cache of `cache_bytes`, or why that is impossible.
fn displacing_bytes(cache_bytes: u64, free_bytes: Option<u64>) -> Result<usize, String> {
    let free_bytes = free_bytes.ok_or("the amount of free memory is unknown")?;
    let bytes = cache_bytes.saturating_mul(2).min(free_bytes / 2);
    if bytes == 0 { Err("no memory is free".to_owned()) } else { Ok(bytes as usize) }
}

fn create<B: Benchmark>(benchmark: &mut B, context: &Context, timer: &mut Timer, report: &mut Report) {
    timer.begin(Direction::Up);
    for n in 1..=context.n {
        if let Err(stop) = benchmark.step(n, timer) {
            refuse::<B>(report, &stop, n, context);
            break;
        }
        timer.end_step(n);
        report.steps = n;
    }
    timer.finish();
}

fn destroy<B: Benchmark>(benchmark: &mut B, timer: &mut Timer, report: &mut Report) {
    timer.begin(Direction::Down);
    for n in (1..=report.steps).rev() {
        if let Err(stop) = benchmark.undo(n, timer) {
            fail(report, &stop, n);
            break;
        }
        timer.end_step(n);
    }
    timer.finish();
}

/// Reports why the creation ended; a refusal because of a limit is a result.
fn refuse<B: Benchmark>(report: &mut Report, stop: &Stop, n: u64, context: &Context) {
    let nr_open = context.host.sysctls.get("fs.nr_open").and_then(|value| value.parse().ok());
    if let Stop::Refused(error) = stop
        && let Some(limit) = limit::explain(*error, n, nr_open)
    {
        let (meaning, raise) = B::limit(context.settings, *error).unwrap_or((limit.meaning, limit.raise));
        report.limit = Some(Limit { meaning, raise, ..limit });
    } else {
        fail(report, stop, n);
    }
}

/// Reports why the pass failed.
fn fail(report: &mut Report, stop: &Stop, n: u64) {
    match stop {
        Stop::Refused(error) => report.wrong = Some(format!("at n = {n}: {error}")),
        Stop::Wrong(what) => report.wrong = Some(format!("at n = {n}: {what}")),
        Stop::Enough => {}
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::host::{self, Pinning};
    use crate::{Facts, Host, Kind, Parameter, Phase, Progress, ReplayCase, Settings, Support, Variant, lanes};
    use landau_record::schema::Cache;
    use landau_sys::clock::Clock;
    use landau_sys::shared::Lanes;
    use std::fs;
    use std::sync::Mutex;

    /// A benchmark without objects, which records the peak of resident memory between creation and destruction.
    struct Resident {
        before: u64,
    }

    impl Benchmark for Resident {
        const NAME: &'static str = "resident";
        const ABOUT: &'static str = "";
        const AXIS: &'static str = "things";
        const PHASES: &'static [Phase] = &[Phase::up("make", ""), Phase::down("end", "")];
        const PARAMETERS: &'static [Parameter] =
            &[Parameter::steps("1", "1", "1", ""), Parameter::fixed("colour", Kind::Choice(&["red"]), "red", "")];
        const VARIANTS: &'static [Variant] = &[];
        const REPLAYS: &'static [ReplayCase] = &[];
        const CAVEATS: &'static [&'static str] = &[];
        const SOURCE: &'static str = "";

        fn support(_: &Host, _: &Settings) -> Support {
            Support::when(true, "")
        }

        fn cost(_: &Settings) -> Cost {
            Cost::default()
        }

        fn setup(_: &Context) -> Result<Self, Stop> {
            Ok(Self { before: 0 })
        }

        fn step(&mut self, _: u64, _: &mut Timer) -> Result<(), Stop> {
            Ok(())
        }

        fn check(&mut self, _: u64, _: &mut Facts) -> Result<(), Stop> {
            fs::write("/proc/self/clear_refs", "5").expect("the peak of one's own memory can be reset");
            self.before = peak_kb();
            Ok(())
        }

        fn undo(&mut self, _: u64, _: &mut Timer) -> Result<(), Stop> {
            Err(Stop::Wrong((peak_kb() - self.before).to_string()))
        }
    }

    /// The events in a pass of [`Limited`], in order.
    static EVENTS: Mutex<Vec<&str>> = Mutex::new(Vec::new());

    /// A benchmark that reaches a limit at its first step.
    struct Limited;

    impl Benchmark for Limited {
        const NAME: &'static str = "limited";
        const ABOUT: &'static str = "";
        const AXIS: &'static str = "things";
        const PHASES: &'static [Phase] = &[Phase::up("make", "")];
        const PARAMETERS: &'static [Parameter] = &[Parameter::steps("9", "9", "9", "")];
        const VARIANTS: &'static [Variant] = &[];
        const REPLAYS: &'static [ReplayCase] = &[];
        const CAVEATS: &'static [&'static str] = &[];
        const SOURCE: &'static str = "";

        fn support(_: &Host, _: &Settings) -> Support {
            Support::when(true, "")
        }

        fn cost(_: &Settings) -> Cost {
            Cost::default()
        }

        fn setup(_: &Context) -> Result<Self, Stop> {
            Ok(Self)
        }

        fn step(&mut self, _: u64, _: &mut Timer) -> Result<(), Stop> {
            Err(Stop::Refused(landau_sys::Error { call: "make", errno: libc::EMFILE }))
        }

        fn check(&mut self, _: u64, _: &mut Facts) -> Result<(), Stop> {
            Ok(())
        }
    }

    impl Drop for Limited {
        fn drop(&mut self) {
            EVENTS.lock().expect("no other test uses it").push("removed");
        }
    }

    /// Guards against killing a worker while it removes its files, because samples of its pass are missing.
    #[test]
    fn the_end_of_the_samples_is_announced_before_the_objects_are_removed() {
        let (lanes, _fd) = Lanes::create(&lanes::capacities(1, 9, false, false)).unwrap();
        let mut timer = Timer::new(&lanes, Clock::Gettime, 1, None, 1);
        timer.announce_end(|| EVENTS.lock().unwrap().push("announced"));
        let settings = Settings::from_map(std::collections::BTreeMap::new());
        let (scratch, host) = (std::env::temp_dir(), Host::default());
        let context =
            Context { settings: &settings, n: 9, seed: 1, scratch: &scratch, host: &host, progress: Progress::NONE };
        let report = pass::<Limited>(&context, &mut timer);
        assert_eq!(report.limit.map(|limit| limit.n), Some(1));
        assert_eq!(*EVENTS.lock().unwrap(), ["announced", "removed"]);
    }

    #[test]
    fn memory_that_is_not_known_is_not_said_to_be_used_up() {
        assert_eq!(displacing_bytes(8, Some(100)), Ok(16));
        assert_eq!(displacing_bytes(8, Some(20)), Ok(10));
        assert_eq!(displacing_bytes(8, Some(0)), Err("no memory is free".to_owned()));
        assert_eq!(displacing_bytes(8, None), Err("the amount of free memory is unknown".to_owned()));
    }

    fn peak_kb() -> u64 {
        let text = fs::read_to_string("/proc/self/status").expect("Linux has it");
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux tells it");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Returns by how much the peak of resident memory grew between the end of the creation and the first destruction,
    /// in KiB.
    fn more_before_destruction(host: &Host) -> u64 {
        let capacities = lanes::capacities(2, 1, false, false);
        let (lanes, _fd) = Lanes::create(&capacities).expect("memory for two samples");
        let mut timer = Timer::new(&lanes, Clock::Gettime, 2, None, 1);
        let settings = Settings::from_map(std::collections::BTreeMap::new());
        let scratch = std::env::temp_dir();
        let context = Context { settings: &settings, n: 1, seed: 1, scratch: &scratch, host, progress: Progress::NONE };
        let report = pass::<Resident>(&context, &mut timer);
        let wrong = report.wrong.expect("the destruction always ends with what it found");
        wrong.rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a number")
    }

    /// Guards against a cost of destruction that falls with n because the newest objects are in the caches.
    #[test]
    fn caches_are_displaced_before_the_destruction() {
        // Other tests of this process take memory, too.
        if std::env::var_os("LANDAU_TEST_ALONE").is_none() {
            let name = "drive::tests::caches_are_displaced_before_the_destruction";
            let mut alone = std::process::Command::new(std::env::current_exe().expect("a test has a program"));
            let output = alone.args([name, "--exact"]).env("LANDAU_TEST_ALONE", "1").output().expect("it starts again");
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && text.contains("1 passed"), "{text}");
            return;
        }
        let (mut host, _) = host::describe(Pinning::Free).expect("this machine can be described");
        host.caches = vec![Cache { level: 1, bytes: 1 << 15 }, Cache { level: 3, bytes: 32 << 20 }];
        let displaced = more_before_destruction(&host);
        assert!(displaced > 50 << 10, "{displaced} KiB");
        host.clock.unit = Unit::Instructions;
        let counted = more_before_destruction(&host);
        assert!(counted < 20 << 10, "{counted} KiB");
    }
}
