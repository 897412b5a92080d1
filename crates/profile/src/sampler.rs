//! Samples of a process (its kernel call chain at fixed intervals of its processor time), and the times at which
//! another task had its processor.
//!
//! If the processor counts cycles, the sampler uses that counter; its interrupt also reaches code that has disabled
//! interrupts. A virtual machine without counters has `cpu-clock`, a timer. Its interrupt is delayed until interrupts
//! are enabled again, so the sample shows the function that enables them, although its caller spent the time.
//!
//! If the processor counts instructions, samples of that counter measure the work of a call.

use crate::{Error, setting};

/// The trigger of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The processor's counter of cycles.
    Cycles,
    /// The kernel's timer.
    CpuClock,
    /// The processor's counter of instructions: such samples count work, not time.
    Instructions,
}

impl Event {
    /// Returns the name of the event in perf(1).
    pub fn name(self) -> &'static str {
        match self {
            Event::Cycles => "cycles",
            Event::CpuClock => "cpu-clock",
            Event::Instructions => "instructions",
        }
    }
}

/// A call chain at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sample {
    /// The time of the sample, in nanoseconds of `CLOCK_MONOTONIC`.
    pub(crate) time_ns: u64,
    /// Addresses in the kernel, innermost first; empty if the process was in its own code.
    pub(crate) chain: Vec<u64>,
}

/// The result of a collection.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    pub(crate) samples: Vec<Sample>,
    /// The context switches, in order.
    pub(crate) switches: Vec<Switch>,
    /// Number of samples or context switches that the kernel dropped, and of times when it took no samples for a while
    /// or gave the counter to others.
    pub(crate) lost: u64,
}

/// A context switch of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Switch {
    /// The time of the switch, in nanoseconds of `CLOCK_MONOTONIC`.
    pub(crate) time_ns: u64,
    pub(crate) kind: SwitchKind,
}

/// The effect of a context switch on the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SwitchKind {
    /// The process runs again.
    In,
    /// The process waits for something.
    Asleep,
    /// The process could have continued, but another task preempted it.
    Preempted,
}

/// The aspects of a process that are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Its call chain, and its context switches.
    Samples(Event),
    /// Only its context switches, which do not change the cost of a call without one.
    Switches,
}

/// The way in which this host samples processes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    /// The trigger of a sample of time.
    pub event: Event,
    /// The processor time that a sample represents, in nanoseconds. It is less than the interval, because the interval
    /// includes the time to take a sample.
    pub sample_ns: f64,
    /// The number of instructions that a sample of their counter represents; `None` if the host does not count them.
    pub sample_instructions: Option<u64>,
}

impl Sampler {
    /// Chooses the event, and measures the time that a sample represents: the processor time of a number of reads of
    /// `/dev/zero`, divided by the number of samples that as many further reads yield.
    pub fn calibrated() -> Result<Self, Error> {
        let event =
            if open(THIS_THREAD, Subject::Samples(Event::Cycles)).is_ok() { Event::Cycles } else { Event::CpuClock };
        // An interruption inflates either the time of the first loop or the number of samples of the second.
        let mut rounds = (0..ROUNDS).map(|_| round(event)).collect::<Result<Vec<_>, _>>()?;
        rounds.sort_by(f64::total_cmp);
        let counts_instructions = open(THIS_THREAD, Subject::Samples(Event::Instructions)).is_ok();
        let sample_instructions = counts_instructions.then_some(INTERVAL_INSTRUCTIONS);
        Ok(Self { event, sample_ns: rounds[ROUNDS / 2], sample_instructions })
    }
}

/// The process identifier with which a thread samples itself.
const THIS_THREAD: u32 = 0;

/// The interval between two samples of the counter of instructions: a prime, so that it is not a multiple of the
/// instructions of a call.
const INTERVAL_INSTRUCTIONS: u64 = 500_009;

/// Number of rounds of the calibration; the median is used.
const ROUNDS: usize = 7;

/// The processor time of half a round.
const HALF_NS: u64 = 60_000_000;

/// Returns the time that a sample represents, from one round.
fn round(event: Event) -> Result<f64, Error> {
    use landau_sys::process::thread_time_ns;
    let mut zeros = Zeros::open()?;
    let began = thread_time_ns();
    let mut count = 0_u32;
    while thread_time_ns() - began < HALF_NS {
        zeros.read();
        count += 1;
    }
    let ns = thread_time_ns() - began;
    let mut watch = open(THIS_THREAD, Subject::Samples(event))?;
    for _ in 0..count {
        zeros.read();
        // As in the first loop.
        std::hint::black_box(thread_time_ns());
    }
    let found = watch.collect().samples.len();
    if found == 0 { Err(Error::NoSamples) } else { Ok(ns as f64 / found as f64) }
}

/// A source of work for the kernel.
struct Zeros {
    file: std::fs::File,
    buffer: Vec<u8>,
}

impl Zeros {
    fn open() -> Result<Self, Error> {
        let file = std::fs::File::open("/dev/zero")
            .map_err(|error| Error::NotExplainable(format!("cannot open /dev/zero: {error}")))?;
        Ok(Self { file, buffer: vec![0; 1 << 16] })
    }

    fn read(&mut self) {
        use std::io::Read;
        // Only the work matters, not the result: /dev/zero always fills the buffer.
        let _ = self.file.read(&mut self.buffer);
    }
}

#[cfg(target_os = "linux")]
pub(crate) use of_linux::{Watch, open};

#[cfg(target_os = "linux")]
mod of_linux {
    use super::{Error, Event, INTERVAL_INSTRUCTIONS, Sample, Samples, Subject, Switch, SwitchKind, setting};
    use perf_event::data::Record;
    use perf_event::events::{Hardware, Software};
    use perf_event::{Builder, Clock, SampleFlag};

    /// The interval between two samples: nanoseconds of `cpu-clock`, and a number of cycles that takes about as long.
    const INTERVAL_NS: u64 = 250_000;
    const INTERVAL_CYCLES: u64 = 750_000;

    /// The type of a record of a context switch, and its markers (`PERF_RECORD_SWITCH` in `linux/perf_event.h`).
    const SWITCH: u32 = 14;
    const OUT: u16 = 1 << 13;
    const OUT_PREEMPTED: u16 = 1 << 14;

    /// Size of the ring buffer in bytes. An unprivileged user may lock fewer bytes, which hold the samples of half a
    /// second; if more time passes between two collections, samples are lost.
    const RING: usize = 1 << 22;
    const RING_UNPRIVILEGED: usize = 1 << 19;

    /// Markers in a call chain (`PERF_CONTEXT_MAX` in `linux/perf_event.h`) are above this. Each marker identifies the
    /// context of the entries after it.
    const MARKERS: u64 = u64::MAX - 4095;
    const OF_KERNEL: u64 = u64::MAX - 127;

    /// A watch on a process, which collects samples from the time when it is opened.
    pub(crate) struct Watch {
        ring: perf_event::Sampler,
        /// Whether it uses a counter of the processor, which several events may have to share.
        is_counter: bool,
    }

    /// Starts watching a process with one thread.
    pub(crate) fn open(pid: u32, subject: Subject) -> Result<Watch, Error> {
        let (mut builder, interval) = match subject {
            Subject::Samples(Event::Cycles) => (Builder::new(Hardware::CPU_CYCLES), INTERVAL_CYCLES),
            Subject::Samples(Event::CpuClock) => (Builder::new(Software::CPU_CLOCK), INTERVAL_NS),
            Subject::Samples(Event::Instructions) => (Builder::new(Hardware::INSTRUCTIONS), INTERVAL_INSTRUCTIONS),
            Subject::Switches => (Builder::new(Software::DUMMY), 0),
        };
        if interval > 0 {
            builder.include_kernel().sample_period(interval);
        }
        if let Subject::Samples(Event::Cycles | Event::CpuClock) = subject {
            // Include user frames: the library cannot read a chain without any.
            builder.sample(SampleFlag::IP | SampleFlag::CALLCHAIN);
        }
        builder
            .observe_pid(pid.cast_signed())
            .any_cpu()
            // The time is the only field that `switch` reads from records other than samples.
            .sample(SampleFlag::TIME)
            .sample_id_all(true)
            .context_switch(true)
            .clockid(Clock::MONOTONIC);
        let refused = |why| Error::Refused { paranoid: setting("/proc/sys/kernel/perf_event_paranoid"), why };
        let sampled = |bytes| builder.build().and_then(|counter| counter.sampled(bytes));
        let mut ring = sampled(RING).or_else(|_| sampled(RING_UNPRIVILEGED)).map_err(refused)?;
        ring.enable().map_err(refused)?;
        let is_counter = matches!(subject, Subject::Samples(Event::Cycles | Event::Instructions));
        Ok(Watch { ring, is_counter })
    }

    impl Watch {
        /// Returns the samples since the last call.
        pub(crate) fn collect(&mut self) -> Samples {
            let mut found = Samples::default();
            while let Some(record) = self.ring.next_record() {
                if record.ty() == SWITCH {
                    found.switches.extend(switch(record.misc(), &record.to_contiguous()));
                    continue;
                }
                match record.parse_record() {
                    Ok(Record::Sample(sample)) => found.samples.push(Sample {
                        time_ns: sample.time().unwrap_or(0),
                        chain: chain(sample.callchain().unwrap_or_default()),
                    }),
                    Ok(Record::Lost(lost)) => found.lost += lost.lost,
                    Ok(Record::LostSamples(lost)) => found.lost += lost.lost,
                    // A record that cannot be read is a lost sample. If throttled, the kernel takes no samples until
                    // the next tick.
                    Ok(Record::Throttle(_)) | Err(_) => found.lost += 1,
                    Ok(_) => {}
                }
            }
            found.lost += u64::from(self.is_counter && self.was_shared());
            found
        }

        /// Returns whether other events used the counter for a while.
        fn was_shared(&mut self) -> bool {
            let times = self.ring.as_counter_mut().read_count_and_time();
            // If a counter cannot be read, it is unknown whether it ran.
            !times.is_ok_and(|times| times.time_running >= times.time_enabled)
        }
    }

    /// Parses a context switch from its record: the markers, and the fields that every record has, of which the time is
    /// the only one here.
    pub(super) fn switch(markers: u16, fields: &[u8]) -> Option<Switch> {
        let time_ns = u64::from_ne_bytes(*fields.first_chunk()?);
        let kind = match (markers & OUT != 0, markers & OUT_PREEMPTED != 0) {
            (false, _) => SwitchKind::In,
            (true, false) => SwitchKind::Asleep,
            (true, true) => SwitchKind::Preempted,
        };
        Some(Switch { time_ns, kind })
    }

    /// Returns the kernel functions of a chain. The user part can contain anything: without frame pointers the kernel
    /// reads arbitrary data from the user stack.
    pub(super) fn chain(entries: &[u64]) -> Vec<u64> {
        let mut is_kernel = false;
        let mut found = Vec::new();
        for &entry in entries {
            if entry > MARKERS {
                is_kernel = entry == OF_KERNEL;
            } else if is_kernel {
                found.push(entry);
            }
        }
        found
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{Watch, open};

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::{Error, Samples, Subject};

    pub(crate) struct Watch;

    pub(crate) fn open(_pid: u32, _subject: Subject) -> Result<Watch, Error> {
        Err(Error::NotLinux)
    }

    impl Watch {
        pub(crate) fn collect(&mut self) -> Samples {
            Samples::default()
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Guards against taking data on the user stack for a kernel function.
    #[test]
    fn only_what_the_kernel_marks_as_its_own_is_of_the_kernel() {
        let (kernel, user) = (u64::MAX - 127, u64::MAX - 511);
        let (function, stack) = (0xffff_ffff_8100_0000, 0x8948_0002_7bba_15ff);
        assert_eq!(of_linux::chain(&[kernel, function, function + 9, user, 0x5555, stack]), [function, function + 9]);
        assert_eq!(of_linux::chain(&[user, 0x5555, stack]), [0; 0]);
    }

    /// All samples can be read, and are in the kernel only during the reads. If the kernel refuses samples, there is
    /// nothing to test.
    #[test]
    fn samples_of_this_thread_are_all_readable_and_in_the_kernel_or_not() {
        let mut watch = match open(THIS_THREAD, Subject::Samples(Event::CpuClock)) {
            Ok(watch) => watch,
            Err(error) => return assert!(matches!(error, Error::Refused { .. }), "{error}"),
        };
        let mut zeros = Zeros::open().unwrap();
        let began = landau_sys::process::thread_time_ns();
        while landau_sys::process::thread_time_ns() - began < HALF_NS {
            zeros.read();
        }
        while landau_sys::process::thread_time_ns() - began < 2 * HALF_NS {
            // Reading that clock is a system call.
            for i in 0..100_000 {
                std::hint::black_box(i);
            }
        }
        let found = watch.collect();
        assert_eq!(found.lost, 0);
        let of_kernel = found.samples.iter().filter(|sample| !sample.chain.is_empty()).count();
        assert!(of_kernel > 50 && found.samples.len() > of_kernel, "{of_kernel} of {}", found.samples.len());
        assert!(found.samples.is_sorted_by_key(|sample| sample.time_ns));
    }

    #[test]
    fn a_switch_is_read_from_its_markers_and_its_time() {
        let time = 7_u64.to_ne_bytes();
        let of = |markers| of_linux::switch(markers, &time).map(|one| (one.time_ns, one.kind));
        assert_eq!(of(0), Some((7, SwitchKind::In)));
        assert_eq!(of(1 << 13), Some((7, SwitchKind::Asleep)));
        assert_eq!(of(3 << 13), Some((7, SwitchKind::Preempted)));
        assert_eq!(of_linux::switch(0, &time[..7]), None);
    }

    /// A waiting thread is switched out and in again, at times between two readings of the clock.
    #[test]
    fn a_wait_is_a_switch_out_and_one_in() {
        // Before the first switch that can be observed.
        let before = landau_sys::clock::monotonic_ns();
        let Ok(mut watch) = open(THIS_THREAD, Subject::Switches) else { return };
        let mut switches = Vec::new();
        let count = |of: &[Switch], kind: SwitchKind| of.iter().filter(|one| one.kind == kind).count();
        // A thread that is preempted before it sleeps is not recorded as asleep.
        for _ in 0..100 {
            // Nothing wakes the thread, so it waits until the timeout.
            std::thread::park_timeout(std::time::Duration::from_millis(1));
            let found = watch.collect();
            assert!(found.samples.is_empty() && found.lost == 0, "{found:?}");
            switches.extend(found.switches);
            if count(&switches, SwitchKind::Asleep) > 0 {
                break;
            }
        }
        let after = landau_sys::clock::monotonic_ns();
        let outs = count(&switches, SwitchKind::Asleep) + count(&switches, SwitchKind::Preempted);
        assert!(count(&switches, SwitchKind::Asleep) > 0 && outs == count(&switches, SwitchKind::In), "{switches:?}");
        let times: Vec<u64> = switches.iter().map(|one| one.time_ns).collect();
        assert!(
            times.is_sorted() && times.iter().all(|at| (before..=after).contains(at)),
            "{before} {switches:?} {after}"
        );
    }
}
