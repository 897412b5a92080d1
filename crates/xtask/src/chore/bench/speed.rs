//! `bench speed`: how long does everything take, and how large is the page?

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

/// The quick study with its record and page.
const STUDY_S: f64 = 120.0;
/// The page.
const PAGE_MIB: f64 = 6.0;
/// A clean release build.
const BUILD_S: f64 = 300.0;
/// Reading and fitting a full study.
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
    let scratch = tempfile::tempdir().context("make a folder")?;
    let mut is_good = study(&landau, scratch.path())?;
    is_good &= fit(&landau, scratch.path())?;
    if words.build {
        is_good &= build(&scratch.path().join("target"))?;
    }
    Ok(is_good)
}

/// Says what something took and whether that is in order.
fn verdict(what: &str, value: f64, unit: &str, limit: f64) -> bool {
    let is_good = value <= limit;
    println!("{} {what}: {value:.1} {unit} (at most {limit:.0} {unit})", if is_good { "ok  " } else { "FAIL" });
    is_good
}

/// What a newcomer does first.
fn study(landau: &Path, folder: &Path) -> Result<bool> {
    let began = Instant::now();
    // In the folder, because that is where the record and the page go.
    let (status, out, err) = Program::new(landau).within(folder).output()?;
    let elapsed_s = began.elapsed().as_secs_f64();
    ensure!(status.success(), "landau failed: {status}\n{out}{err}");
    let mut is_good = verdict("the quick study, its record and page", elapsed_s, "s", STUDY_S);
    for entry in std::fs::read_dir(folder).context("read the folder")?.flatten() {
        let size_mib = entry.metadata().context("look at a file")?.len() as f64 / f64::from(1 << 20);
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with("html") {
            is_good &= verdict("the page", size_mib, "MiB", PAGE_MIB);
        } else {
            println!("     {name}: {size_mib:.1} MiB");
        }
    }
    Ok(is_good)
}

/// Reading, checking and fitting a record of millions of samples.
fn fit(landau: &Path, folder: &Path) -> Result<bool> {
    let path = folder.join("synthetic.landau.ndjson");
    write_synthetic(&path)?;
    let size_mib = std::fs::metadata(&path).context("look at the record")?.len() >> 20;
    let samples = f64::from(CASES * PASSES) * f64::from(STEPS) * 2.0;
    println!("     a synthetic full study: {:.1} million samples, {size_mib} MiB", samples / 1e6);
    let began = Instant::now();
    let answer = Program::new(landau).args(["show", "--json"]).arg(&path).text()?;
    let elapsed_s = began.elapsed().as_secs_f64();
    let answer: Value = serde_json::from_str(&answer).context("parse what `landau show --json` printed")?;
    let fitted =
        answer["rows"].as_array().map_or(0, |rows| rows.iter().filter(|row| row["growth"].is_object()).count());
    ensure!(fitted == CASES as usize * 2, "only {fitted} phases of the synthetic record were fitted");
    Ok(verdict("reading and fitting it", elapsed_s, "s", FIT_S))
}

fn build(target: &Path) -> Result<bool> {
    let began = Instant::now();
    Program::cargo()
        .args(["build", "--release", "--locked", "--package", "landau", "--target-dir"])
        .arg(target)
        .run()?;
    Ok(verdict("a clean release build", began.elapsed().as_secs_f64(), "s", BUILD_S))
}

/// Writes a record of a full study's size: linear costs with noise, some calls dear.
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
    let phase = |name: &str, direction| Phase { name: name.to_owned(), direction, about: "nothing real".to_owned() };
    Case {
        case,
        benchmark: format!("synthetic{case}"),
        label: format!("synthetic{case}"),
        about: "How long does fitting take?".to_owned(),
        axis: "objects".to_owned(),
        caveats: Vec::new(),
        source: String::new(),
        phases: vec![phase("make", Direction::Up), phase("unmake", Direction::Down)],
        settings: BTreeMap::new(),
        n: u64::from(STEPS),
        reduced: None,
        annotations: Vec::new(),
    }
}

fn write_pass(writer: &mut Writer, random: &mut ChaCha8Rng, pass: u32) -> Result<()> {
    let (case, round) = (pass % CASES, pass / CASES);
    writer.append(&Line::Pass(PassStart { pass, case, round, at_ms: u64::from(pass) * 100 }))?;
    for (direction, phase) in [(Direction::Up, "make"), (Direction::Down, "unmake")] {
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

/// About a microsecond, growing with n by a slope of the case's own; one call in a thousand is dear.
fn cost_ns(random: &mut ChaCha8Rng, case: u32, n: u32) -> u64 {
    let jitter = u64::from(random.next_u32() % 60);
    let dear = if random.next_u32().is_multiple_of(1000) { u64::from(random.next_u32() % 50_000) } else { 0 };
    1_000 + u64::from(n) * u64::from(case % 4) / 20 + jitter + dear
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_synthetic_record_is_a_record() {
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
        assert_eq!(series["unmake"].n.last(), Some(&1));
    }
}
