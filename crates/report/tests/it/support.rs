//! Synthetic records with realistic curves, written through the real writer.

#![allow(clippy::unwrap_used, reason = "a study that cannot be written is a broken test")]

use landau_record::schema::{
    Annotation, AnnotationKind, Canary, Case, Chunk, Clock, Cut, Direction, End, EndOutcome, Facts, Header, Host,
    Limit, Note, Outcome, PassEnd, PassStart, Phase, Quantum, Samples, Skip, Timeline, TimerOverhead, Window,
};
use landau_record::{Line, Record, Writer};
use std::collections::BTreeMap;
use std::path::Path;

/// A small deterministic source of noise: no test may depend on chance.
pub(crate) struct Noise(u64);

impl Noise {
    /// Creates the source from a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a number between 0 and 1.
    pub(crate) fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn cost(&mut self, ns: f64) -> u64 {
        (ns * (1.0 + 0.06 * (self.unit() + self.unit() - 1.0))).round().max(1.0) as u64
    }
}

/// One phase: its name, its direction, and the cost of a call at n in pass k.
pub(crate) type Shape = (&'static str, Direction, fn(u32, u32) -> f64);

/// A case to be written.
pub(crate) struct Sketch {
    pub(crate) benchmark: &'static str,
    pub(crate) label: &'static str,
    pub(crate) n: u32,
    pub(crate) phases: Vec<Shape>,
    pub(crate) marks: Vec<(&'static str, f64)>,
    pub(crate) limit: bool,
}

fn socket(n: u32, _: u32) -> f64 {
    if n.is_power_of_two() && n >= 256 { 1.3e6 + f64::from(n) * 900.0 } else { 2600.0 }
}

fn bind(n: u32, _: u32) -> f64 {
    if n >= 1400 { 1.75e6 } else { 1000.0 + 20.0 / (1.0 - f64::from(n) / 1420.0) }
}

/// A small study: flat with doublings, a cliff, a line, a logarithm, a limit.
pub(crate) fn sketches() -> Vec<Sketch> {
    let (up, down) = (Direction::Up, Direction::Down);
    let flat: fn(u32, u32) -> f64 = |_, _| 3000.0;
    vec![
        Sketch {
            benchmark: "socket",
            label: "socket threads=1",
            n: 3000,
            phases: vec![("socket", up, socket), ("close", down, flat)],
            marks: vec![],
            limit: false,
        },
        Sketch {
            benchmark: "bind",
            label: "bind",
            n: 1800,
            phases: vec![("bind", up, bind), ("close", down, flat)],
            marks: vec![("half the ephemeral port range", 1400.0)],
            limit: false,
        },
        Sketch {
            benchmark: "fork",
            label: "fork",
            n: 600,
            phases: vec![("fork", up, |n, _| 60_000.0 + 90.0 * f64::from(n))],
            marks: vec![],
            limit: false,
        },
        Sketch {
            benchmark: "fork",
            label: "fork linkage=static",
            n: 600,
            phases: vec![("fork", up, |n, _| 30_000.0 + 90.0 * f64::from(n))],
            marks: vec![],
            limit: false,
        },
        Sketch {
            benchmark: "mmap",
            label: "mmap",
            n: 2500,
            phases: vec![("mmap", up, |n, _| 1500.0 + 400.0 * f64::from(n).ln()), ("munmap", down, flat)],
            marks: vec![],
            limit: true,
        },
    ]
}

fn host() -> Host {
    Host {
        system: "Linux".into(),
        release: "6.18.0".into(),
        machine: "x86_64".into(),
        processor: "Model of a processor".into(),
        processor_count: 2,
        memory_bytes: 8 << 30,
        memory_available_bytes: 7 << 30,
        page_bytes: 4096,
        virtualization: "kvm".into(),
        clock: Clock {
            name: "clock_gettime".into(),
            timer_overhead: TimerOverhead::Ns(20.0),
            quantum: Quantum::Ns(1.0),
            ..Clock::default()
        },
        ..Host::default()
    }
}

/// The parameters of a synthetic record that a test may change.
pub(crate) struct Bend {
    /// Factor applied to every cost.
    pub(crate) factor: f64,
    /// Text inserted into label, notes, skip and facts.
    pub(crate) poison: &'static str,
    /// Seed of the noise.
    pub(crate) seed: u64,
    /// Whether the file ends in the middle of a line.
    pub(crate) torn: bool,
}

impl Default for Bend {
    fn default() -> Self {
        Self { factor: 1.0, poison: "", seed: 1, torn: false }
    }
}

/// Writes a record of `passes` passes.
pub(crate) fn write(path: &Path, sketches: &[Sketch], passes: u32, bend: &Bend) {
    let mut writer = Writer::create(path).unwrap();
    let mut put = |line: Line| writer.append(&line).unwrap();
    put(Line::Header(Header {
        case_count: sketches.len() as u32,
        schema: 1,
        landau: "0.1.0".into(),
        command: vec!["landau".into(), "run".into()],
        started: "2026-01-02T03:04:05Z".into(),
        seed: 7,
        study: "quick".into(),
        pass_count: passes,
        time_limit_s: None,
        ..Header::default()
    }));
    put(Line::Host(Box::new(host())));
    for (number, sketch) in sketches.iter().enumerate() {
        put(Line::Case(case(number as u32, sketch, bend)));
    }
    put(Line::Skip(Skip { label: format!("rocket{}", bend.poison), reason: "because there is no launch pad".into() }));
    let mut noise = Noise::new(bend.seed);
    let mut pass = 0;
    for round in 0..passes {
        for (number, sketch) in sketches.iter().enumerate() {
            put(Line::Pass(PassStart { pass, case: number as u32, round, at_ms: 0, adaptive_for: Vec::new() }));
            for line in samples(pass, round, sketch, bend.factor, &mut noise) {
                put(line);
            }
            let poison = bend.poison;
            put(Line::PassEnd(end(pass, sketch, poison)));
            pass += 1;
        }
    }
    put(Line::Cut(Cut { label: "fork".into(), pass_count: 2, reason: "the time limit of 60 s was reached".into() }));
    put(Line::Note(Note { text: format!("waited 3 s for TIME_WAIT to drain{}", bend.poison) }));
    put(Line::End(End { outcome: EndOutcome::Complete, line_count: 0, elapsed_ms: 1000 }));
    writer.flush().unwrap();
    drop(writer);
    if bend.torn {
        let bytes = std::fs::read(path).unwrap();
        std::fs::write(path, &bytes[..bytes.len() - 20]).unwrap();
    }
}

fn case(number: u32, sketch: &Sketch, bend: &Bend) -> Case {
    let phase = |(name, direction, _): &Shape| Phase {
        name: (*name).to_owned(),
        direction: *direction,
        about: format!("{name}(): what is timed"),
    };
    let mark = |(name, n): &(&str, f64)| Annotation {
        name: (*name).to_owned(),
        n: *n,
        kind: AnnotationKind::Capacity,
        source: "a file".into(),
    };
    Case {
        case: number,
        benchmark: sketch.benchmark.into(),
        label: format!("{}{}", sketch.label, bend.poison),
        about: format!("Does {} cost more?", sketch.benchmark),
        axis: "open things".into(),
        caveats: vec!["It stops too early.".into()],
        source: "an article".into(),
        phases: sketch.phases.iter().map(phase).collect(),
        settings: BTreeMap::from([("family".into(), "v4".into()), ("n".into(), sketch.n.to_string())]),
        settings_about: BTreeMap::from([("family".into(), format!("IPv4 or IPv6{}", bend.poison))]),
        n: u64::from(sketch.n),
        reduced: None,
        annotations: sketch.marks.iter().map(mark).collect(),
        timeline: (sketch.benchmark == "download").then_some(Timeline { step_bytes: 1 << 20 }),
        replay: None,
    }
}

fn samples(pass: u32, round: u32, sketch: &Sketch, factor: f64, noise: &mut Noise) -> Vec<Line> {
    let mut lines = Vec::new();
    for (name, direction, cost) in &sketch.phases {
        let order: Vec<u32> = match direction {
            Direction::Up => (1..=sketch.n).collect(),
            Direction::Down => (1..=sketch.n).rev().collect(),
        };
        for part in order.chunks(500) {
            let samples = Samples::Ns(part.iter().map(|&n| noise.cost(cost(n, round) * factor)).collect());
            let stride = if *direction == Direction::Up { 1 } else { -1 };
            lines.push(Line::Chunk(Chunk { pass, phase: (*name).to_owned(), first: part[0], stride, samples }));
            lines.push(Line::Window(Window {
                pass,
                direction: *direction,
                first: part[0],
                count: part.len() as u32,
                until_us: 0,
                preempted: 0,
                faults: [0, 0],
                processor: 1,
                steal_ms: 0,
                steal_windows: None,
                others_preempted: None,
                others_faults: None,
                calls: None,
                canary: Canary::Ns((0..4).map(|_| noise.cost(180.0)).collect()),
            }));
        }
    }
    lines
}

fn end(pass: u32, sketch: &Sketch, poison: &str) -> PassEnd {
    let limit = sketch.limit.then(|| Limit {
        n: u64::from(sketch.n) + 1,
        call: "mmap".into(),
        errno: 12,
        error: "ENOMEM".into(),
        meaning: "vm.max_map_count is 2500".into(),
        raise: "sysctl -w vm.max_map_count=5000".into(),
    });
    PassEnd {
        pass,
        outcome: if sketch.limit { Outcome::Limit } else { Outcome::Done },
        steps: u64::from(sketch.n),
        elapsed_ms: 10,
        limit,
        error: None,
        facts: {
            let mut facts = Facts::new();
            facts.text("an IPv4-mapped peer is accepted", format!("yes{poison}"));
            facts
        },
    }
}

/// Returns a record from a separate directory, and its bytes.
pub(crate) fn record(passes: u32, bend: &Bend) -> (Record, Vec<u8>) {
    record_of(&sketches(), passes, bend)
}

/// Like `record`, for other cases.
pub(crate) fn record_of(sketches: &[Sketch], passes: u32, bend: &Bend) -> (Record, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.landau.ndjson");
    write(&path, sketches, passes, bend);
    let bytes = std::fs::read(&path).unwrap();
    (Record::parse("study.landau.ndjson", &bytes).unwrap(), bytes)
}
