//! Inside the guest: the first process of a system that was booted to measure it.

use crate::frame;
use crate::job::{JOB_PATH, Job, Message, VARIABLE};
use landau_engine::{
    Entry, Fault, Pinning, Plan, Request, Scratch, Session, Silent, Study, describe_host_in, scratch_space,
};
use landau_record::schema::{Line, Unit};
use landau_record::{Error as RecordError, Journal};
use landau_sys::clock::Clock;
use landau_sys::{boot, process, system};
use std::fs::{File, OpenOptions};
use std::io::{Error as IoError, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

/// The line to the host. The kernel's console is the same one.
const LINE: &str = "/dev/ttyS0";

/// How often the guest waits anew for the work of its start to end.
const SETTLE_TRIES: u32 = 6;

/// Measures as the first process of a guest, if that is what this process is. Then it does not return.
pub fn main(registry: &[Entry]) {
    if std::process::id() != 1 || std::env::var_os(VARIABLE).is_none() {
        return;
    }
    let ended = match Link::open() {
        Ok(mut link) => {
            let last = match measure(registry, &mut link) {
                Ok(done) => done,
                Err(reason) => Message::Failed(reason),
            };
            link.say(&last).map_err(|error| error.to_string())
        }
        Err(reason) => Err(reason),
    };
    if let Err(reason) = ended {
        // The console is all there is left to say it to.
        let _ = File::options()
            .write(true)
            .open("/dev/console")
            .and_then(|mut console| writeln!(console, "landau: {reason}"));
    }
    let refused = boot::restart();
    panic!("the machine does not end: {refused}");
}

/// The line to the host, and the lines of the record that have not gone over it yet.
struct Link {
    line: File,
    number: u64,
    waiting: Vec<String>,
}

impl Link {
    fn open() -> Result<Self, String> {
        for (kind, target) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/tmp")] {
            boot::mount(kind, target).map_err(|error| format!("{target}: {error}"))?;
        }
        let line = OpenOptions::new().read(true).write(true).open(LINE).map_err(|error| format!("{LINE}: {error}"))?;
        boot::make_raw(line.as_fd()).map_err(|error| format!("{LINE}: {error}"))?;
        Ok(Self { line, number: 0, waiting: Vec::new() })
    }

    /// Says something and waits until it has left: nothing is to be sent while something is measured.
    fn say(&mut self, message: &Message) -> std::io::Result<()> {
        let content = serde_json::to_vec(message)?;
        let text = frame::encode(self.number, &content)?;
        self.number += 1;
        self.line.write_all(text.as_bytes())?;
        boot::drain(self.line.as_fd()).map_err(IoError::other)
    }
}

fn refused(source: IoError) -> RecordError {
    RecordError::Io { action: "write", path: LINE.to_owned(), source }
}

impl Journal for Link {
    fn append(&mut self, line: &Line) -> Result<(), RecordError> {
        let text = serde_json::to_string(line).map_err(|error| refused(error.into()))?;
        self.waiting.push(text);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), RecordError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let lines = std::mem::take(&mut self.waiting);
        self.say(&Message::Lines(lines)).map_err(refused)
    }

    fn sync(&mut self) -> Result<(), RecordError> {
        self.flush()
    }
}

fn measure(registry: &[Entry], link: &mut Link) -> Result<Message, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    link.say(&Message::Up).map_err(|error| text(&error))?;
    let job: Job = std::fs::read(Path::new("/").join(JOB_PATH))
        .map_err(|error| error.to_string())
        .and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()))?;
    prepare(&job)?;
    if job.symbols {
        link.say(&Message::Symbols(symbols()?)).map_err(|error| text(&error))?;
    }
    let settled = settle(&job);
    let scratch = Scratch::create(Path::new("/tmp")).map_err(|error| text(&error))?;
    let mut plan = plan(registry, &job, &scratch).map_err(|error| text(&error))?;
    plan.notes.push(settled);
    let session = Session { words: &[], scratch: &scratch, observer: &mut Silent, interrupted: &|| false };
    let (_, end) = landau_engine::run(&plan, link, session).map_err(|error| text(&error))?;
    link.flush().map_err(|error| text(&error))?;
    Ok(Message::Done { outcome: end.outcome, elapsed_ms: end.elapsed_ms })
}

/// A fault that the kernel's command line asks for: `LANDAU_PANIC_AT=2031`, `LANDAU_HANG_AT=2031`.
fn fault() -> Option<Fault> {
    let at = |name: &str| std::env::var(name).ok()?.parse().ok();
    at("LANDAU_PANIC_AT").map(Fault::Panic).or_else(|| at("LANDAU_HANG_AT").map(Fault::Hang))
}

/// What a system's start-up would have done, and what the user wants changed.
fn prepare(job: &Job) -> Result<(), String> {
    boot::raise_loopback().map_err(|error| format!("the loopback interface: {error}"))?;
    // From here on only a panic speaks on the console, which is the line to the host.
    std::fs::write("/proc/sys/kernel/printk", "1").map_err(|error| format!("kernel.printk: {error}"))?;
    for (name, value) in &job.sysctls {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        std::fs::write(path, value).map_err(|error| format!("{name}={value}: {error}"))?;
    }
    Ok(())
}

/// The kernel's own functions and where they stand.
fn symbols() -> Result<String, String> {
    let text = std::fs::read_to_string("/proc/kallsyms").map_err(|error| format!("/proc/kallsyms: {error}"))?;
    let is_function = |line: &&str| matches!(line.as_bytes().get(17), Some(b't' | b'T' | b'w' | b'W' | b'i'));
    Ok(text.lines().filter(is_function).flat_map(|line| [line, "\n"]).collect())
}

/// Waits until the work that a kernel does in the background after its start is done, and says what was seen.
fn settle(job: &Job) -> String {
    let mut tries = 0;
    loop {
        std::thread::sleep(Duration::from_secs(job.settle_s));
        tries += 1;
        let (quickest, mean) = canary(job);
        if mean <= quickest as f64 * 1.05 || tries == SETTLE_TRIES || job.settle_s == 0 {
            return format!(
                "waited {} s for the kernel's background work; then getppid took {quickest} {} at the least and \
                 {mean:.1} on average",
                u64::from(tries) * job.settle_s,
                if job.unit == Unit::Instructions { "instructions" } else { "ns" },
            );
        }
    }
}

/// The canary's quickest call and its mean: where others run, the mean is far above.
fn canary(job: &Job) -> (u64, f64) {
    const CALLS: u64 = 2_000;
    let clock = if job.unit == Unit::Instructions { Clock::Instructions } else { Clock::Gettime };
    let (mut quickest, mut sum) = (u64::MAX, 0);
    for _ in 0..CALLS {
        let start = clock.ticks();
        std::hint::black_box(process::parent_id());
        let ticks = clock.ticks() - start;
        quickest = quickest.min(ticks);
        sum += ticks;
    }
    (quickest, sum as f64 / CALLS as f64)
}

fn plan(registry: &[Entry], job: &Job, scratch: &Scratch) -> Result<Plan, landau_engine::Error> {
    if let Some(open) = system::setting("fs.nr_open").and_then(|text| text.parse().ok()) {
        boot::raise_descriptors(open)?;
    }
    let (host, clock) = describe_host_in(job.unit, Pinning::Last)?;
    let request = Request {
        names: job.names.clone(),
        study: Study::named(&job.study).unwrap_or(Study::Quick),
        pass_count: job.pass_count,
        settings: job.settings.clone(),
        seed: job.seed,
        time_limit_s: None,
    };
    let mut plan = Plan::resolve(registry, &request, host, clock.clock, scratch_space(scratch.path()))?;
    (plan.lockstep, plan.fine, plan.fault) = (true, job.fine, fault());
    Ok(plan)
}
