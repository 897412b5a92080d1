//! `bench speed`: times the quick study, the fit of a large record and the build, and measures the size of the report.

use crate::program::Program;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use landau_record::schema::{
    Canary, Case, Chunk, Direction, End, EndOutcome, Header, Line, Outcome, PassEnd, PassStart, Phase, Samples, Window,
};
use landau_record::{SCHEMA_VERSION, Writer};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// Limit for the quick study with its record and report, in seconds.
const STUDY_S: f64 = 120.0;
/// Limit for the size of the report, in MiB.
const PAGE_MIB: f64 = 6.0;
/// Limit for a clean release build, in seconds.
const BUILD_S: f64 = 300.0;
/// Limit for reading and fitting a full study, in seconds.
const FIT_S: f64 = 10.0;

/// The synthetic full study: nine passes of twelve cases with two phases, 20,000 calls each.
const CASES: u32 = 12;
const PASSES: u32 = 9;
const STEPS: u32 = 20_000;
/// Calls in a chunk.
const CHUNK: u32 = 250;

/// Arguments of `bench speed`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// Time a clean release build as well
    #[arg(long)]
    build: bool,
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    let landau = workspace::landau()?;
    let scratch = tempfile::tempdir().context("create a temporary directory")?;
    let mut is_good = study(&landau, scratch.path())?;
    is_good &= fit(&landau, scratch.path())?;
    if words.build {
        is_good &= build(&scratch.path().join("target"))?;
    }
    Ok(is_good)
}

/// Prints a value and whether it is within its limit.
fn verdict(what: &str, value: f64, unit: &str, limit: f64) -> bool {
    let is_good = value <= limit;
    println!("{} {what}: {value:.1} {unit} (at most {limit:.0} {unit})", if is_good { "ok  " } else { "FAIL" });
    is_good
}

/// Runs `landau` without arguments.
fn study(landau: &Path, folder: &Path) -> Result<bool> {
    let began = Instant::now();
    // The record and the report go to the working directory.
    let (status, out, err) = Program::new(landau).within(folder).output()?;
    let elapsed_s = began.elapsed().as_secs_f64();
    ensure!(status.success(), "landau failed: {status}\n{out}{err}");
    let mut is_good = verdict("quick study with record and report", elapsed_s, "s", STUDY_S);
    for entry in std::fs::read_dir(folder).context("read the directory")?.flatten() {
        let size_mib = entry.metadata().context("get the size of a file")?.len() as f64 / f64::from(1 << 20);
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with("html") {
            is_good &= verdict("report", size_mib, "MiB", PAGE_MIB);
        } else {
            println!("     {name}: {size_mib:.1} MiB");
        }
    }
    Ok(is_good)
}

/// Times reading, checking and fitting a record of millions of samples.
fn fit(landau: &Path, folder: &Path) -> Result<bool> {
    let path = folder.join("synthetic.landau.ndjson");
    write_synthetic(&path)?;
    let size_mib = std::fs::metadata(&path).context("get the size of the record")?.len() >> 20;
    let samples = f64::from(CASES * PASSES) * f64::from(STEPS) * 2.0;
    println!("     a synthetic full study: {:.1} million samples, {size_mib} MiB", samples / 1e6);
    let began = Instant::now();
    let answer = Program::new(landau).args(["show", "--json"]).arg(&path).text()?;
    let elapsed_s = began.elapsed().as_secs_f64();
    let answer: Value = serde_json::from_str(&answer).context("parse what `landau show --json` printed")?;
    let fitted =
        answer["rows"].as_array().map_or(0, |rows| rows.iter().filter(|row| row["growth"].is_object()).count());
    ensure!(fitted == CASES as usize * 2, "only {fitted} phases of the synthetic record were fitted");
    Ok(verdict("reading and fitting", elapsed_s, "s", FIT_S))
}

fn build(target: &Path) -> Result<bool> {
    let began = Instant::now();
    Program::cargo()
        .args(["build", "--release", "--locked", "--package", "landau", "--target-dir"])
        .arg(target)
        .run()?;
    Ok(verdict("clean release build", began.elapsed().as_secs_f64(), "s", BUILD_S))
}

/// Writes a record of the size of a full study: linear costs with noise and outliers.
fn write_synthetic(path: &Path) -> Result<()> {
    let mut writer = Writer::create(path)?;
    let mut random = ChaCha8Rng::seed_from_u64(1);
    writer.append(&Line::Header(Header {
        schema: SCHEMA_VERSION,
        landau: "synthetic".to_owned(),
        command: vec!["cargo xtask bench speed".to_owned()],
        started: "2026-01-01T00:00:00Z".to_owned(),
        seed: 1,
        study: "full".to_owned(),
        pass_count: PASSES,
        case_count: CASES,
        time_limit_s: None,
        ..Header::default()
    }))?;
    writer.append(&Line::Host(Box::default()))?;
    for case in 0..CASES {
        writer.append(&Line::Case(synthetic_case(case)))?;
    }
    for pass in 0..CASES * PASSES {
        write_pass(&mut writer, &mut random, pass)?;
    }
    let line_count = writer.line_count();
    writer.append(&Line::End(End { outcome: EndOutcome::Complete, line_count, elapsed_ms: 1 }))?;
    Ok(writer.sync()?)
}

fn synthetic_case(case: u32) -> Case {
    let phase = |name: &str, direction| Phase { name: name.to_owned(), direction, about: "synthetic".to_owned() };
    Case {
        case,
        benchmark: format!("synthetic{case}"),
        label: format!("synthetic{case}"),
        about: "How long does fitting take?".to_owned(),
        axis: "objects".to_owned(),
        caveats: Vec::new(),
        source: String::new(),
        phases: vec![phase("create", Direction::Up), phase("destroy", Direction::Down)],
        settings: BTreeMap::new(),
        settings_about: BTreeMap::new(),
        n: u64::from(STEPS),
        reduced: None,
        annotations: Vec::new(),
        timeline: None,
        replay: None,
    }
}

fn write_pass(writer: &mut Writer, random: &mut ChaCha8Rng, pass: u32) -> Result<()> {
    let (case, round) = (pass % CASES, pass / CASES);
    writer.append(&Line::Pass(PassStart {
        pass,
        case,
        round,
        at_ms: u64::from(pass) * 100,
        adaptive_for: Vec::new(),
    }))?;
    for (direction, phase) in [(Direction::Up, "create"), (Direction::Down, "destroy")] {
        for done in (0..STEPS).step_by(CHUNK as usize) {
            let (first, stride) = if direction == Direction::Up { (done + 1, 1) } else { (STEPS - done, -1) };
            let ns = (0..CHUNK).map(|_| cost_ns(random, case, first)).collect();
            writer.append(&Line::Chunk(Chunk {
                pass,
                phase: phase.to_owned(),
                first,
                stride,
                samples: Samples::Ns(ns),
            }))?;
            writer.append(&Line::Window(Window {
                pass,
                direction,
                first,
                count: CHUNK,
                until_us: u64::from(done),
                preempted: u32::from(random.next_u32().is_multiple_of(50)),
                faults: [0, 0],
                processor: 0,
                steal_ms: 0,
                steal_windows: None,
                others_preempted: None,
                others_faults: None,
                calls: None,
                canary: Canary::Ns((0..CHUNK / 16).map(|_| 180 + u64::from(random.next_u32() % 8)).collect()),
            }))?;
        }
    }
    writer.append(&Line::PassEnd(PassEnd {
        pass,
        outcome: Outcome::Done,
        steps: u64::from(STEPS),
        elapsed_ms: 100,
        limit: None,
        error: None,
        facts: landau_record::schema::Facts::new(),
    }))?;
    Ok(())
}

/// Returns a cost of about one microsecond plus a slope that depends on the case. One call in a thousand is an outlier.
fn cost_ns(random: &mut ChaCha8Rng, case: u32, n: u32) -> u64 {
    let jitter = u64::from(random.next_u32() % 60);
    let outlier = if random.next_u32().is_multiple_of(1000) { u64::from(random.next_u32() % 50_000) } else { 0 };
    1_000 + u64::from(n) * u64::from(case % 4) / 20 + jitter + outlier
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_synthetic_record_is_valid() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.landau.ndjson");
        let mut writer = Writer::create(&path).unwrap();
        writer
            .append(&Line::Header(
                serde_json::from_value(serde_json::json!({"schema": 1, "landau": "x",
            "command": [], "started": "x", "seed": 1, "study": "full", "pass_count": 1}))
                .unwrap(),
            ))
            .unwrap();
        writer.append(&Line::Case(synthetic_case(0))).unwrap();
        write_pass(&mut writer, &mut ChaCha8Rng::seed_from_u64(1), 0).unwrap();
        writer.flush().unwrap();
        let record = landau_record::Record::read(&path).unwrap();
        assert!(record.fault.is_none(), "{:?}", record.fault);
        let series = &record.passes[0].series;
        assert!(series.values().all(|lane| lane.costs.len() == STEPS as usize) && series.len() == 2);
        assert_eq!(series["destroy"].n.last(), Some(&1));
    }
}
