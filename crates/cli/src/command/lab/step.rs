//! Tests a claim with one boot of one kernel, for `landau lab bisect` and `landau lab test`.

use super::run::{own_program, seed_of};
use crate::claims::{resolved, settings};
use crate::options::{Cache, Guest, Settings, Stall};
use crate::status;
use anyhow::{Context, bail};
use landau_claims::{Assertion, Claim, Placed, Reference};
use landau_engine::Scratch;
use landau_lab::bisect::Answer;
use landau_lab::choice::{self, Paths};
use landau_lab::job::Job;
use landau_lab::kernel::Kernel;
use landau_lab::launch::Timeouts;
use landau_lab::machine::Login;
use landau_lab::matrix::Matrix;
use landau_lab::observer::Silent;
use landau_lab::obtain;
use landau_lab::outcome::KernelOutcome;
use landau_lab::platform::{self, Platform};
use landau_record::schema::{Line, Unit};
use landau_record::{Record, Writer};
use landau_report::{Analysis, claims};
use landau_sys::signal::interrupted;
use std::path::PathBuf;

/// The flags for the guests.
#[derive(Debug, clap::Args)]
pub(super) struct Machinery {
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    guest: Guest,
    #[command(flatten)]
    stall: Stall,
    #[command(flatten)]
    pub(super) cache: Cache,
}

/// The test to run under each kernel.
pub(super) struct Step<'a> {
    claim: Claim,
    machinery: &'a Machinery,
    platform: &'static dyn Platform,
    job: Job,
    program: PathBuf,
    scratch: Scratch,
}

impl<'a> Step<'a> {
    /// Returns the test of a claim. An unknown benchmark, phase or setting is an error.
    pub(super) fn new(claim: &Claim, machinery: &'a Machinery) -> anyhow::Result<Self> {
        let claim = resolved(claim)?;
        let names = vec![claim.subject.benchmark.clone()];
        let mut settings = settings_of(&claim);
        settings.extend(machinery.settings.set.iter().cloned());
        landau_engine::check_names(landau_bench::REGISTRY, &names, &settings)?;
        match &claim.assertion {
            Assertion::Ratio { of: Reference::Base, .. } => {
                bail!("`{claim}` needs a base record, which `landau lab` does not have; see landau check --help")
            }
            Assertion::Ratio { of: Reference::Subject(other), .. } => {
                bail!(
                    "`{claim}`: only one case is measured here, so {other} cannot be compared; see landau check --help"
                )
            }
            _ => {}
        }
        let unit = match claim.subject.unit {
            Some(landau_claims::Unit::Ns) => Unit::Ns,
            Some(landau_claims::Unit::Instructions) | None => Unit::Instructions,
        };
        let platform = platform::for_unit(unit).with_context(|| format!("no platform measures {}", unit.name()))?;
        let program = own_program()?;
        platform.check(&program)?;
        let cache = machinery.cache.known();
        let paths = Paths { cache: cache.as_deref(), program: &program };
        choice::check_known(platform, &paths, "make a claim about instructions")?;
        let job = Job {
            names,
            study: "quick".to_owned(),
            pass_count: (platform.unit() == Unit::Instructions).then_some(1),
            settings,
            seed: seed_of(platform, None),
            unit: platform.unit(),
            settle_s: platform.settle_s(),
            ..Job::default()
        };
        let scratch = Scratch::create(&std::env::temp_dir())?;
        Ok(Self { claim, machinery, platform, job, program, scratch })
    }

    /// Obtains a kernel that the platform can boot.
    pub(super) fn obtain(&self, word: &str) -> anyhow::Result<Kernel> {
        let kernel = obtain::obtain(word, &self.machinery.cache.directory()?, &mut |text| status::tell(text))?;
        self.platform.check_kind(&kernel)?;
        Ok(kernel)
    }

    /// Boots a kernel and tests the claim.
    pub(super) fn test(&self, kernel: &Kernel) -> anyhow::Result<Answer> {
        let kernels = [kernel.clone()];
        let matrix = Matrix {
            kernels: &kernels,
            platform: self.platform,
            job: &self.job,
            program: &self.program,
            login: &Login::default(),
            out: self.scratch.path(),
            temporary: self.scratch.path(),
            memory_mib: self.machinery.guest.memory_mib,
            append: &self.machinery.guest.append,
            timeouts: Timeouts::new(self.machinery.stall.timeout, self.machinery.guest.time_limit),
            parallel: 1,
            resume: false,
            command: &[],
        };
        // No results are written: the claim is checked against the samples.
        let close = |writer: &mut Writer, end| {
            writer.append(&Line::End(end)).and_then(|()| writer.flush()).map_err(|error| error.to_string())
        };
        let outcomes = matrix.run(&close, &|| interrupted().is_some(), &Silent);
        let Some(outcome) = outcomes.first() else {
            return Ok(Answer::Unknown("the kernel was not run".to_owned()));
        };
        let Some(path) = outcome.record() else {
            return Ok(Answer::Unknown(outcome.text()));
        };
        let is_unfinished = matches!(outcome, KernelOutcome::Crashed(..) | KernelOutcome::Incomplete(_, Some(_)));
        let mut answer = self.answer(&Record::read(path)?);
        if is_unfinished {
            answer = answer_of_unfinished(answer, &self.claim, || outcome.text());
        }
        std::fs::remove_file(path).with_context(|| format!("remove {}", path.display()))?;
        Ok(answer)
    }

    /// Returns the answer of a record to the claim.
    fn answer(&self, record: &Record) -> Answer {
        let analysis = Analysis::of(record);
        let source = claims::Source { analysis: &analysis, name: &record.path };
        let placed = Placed { line: 1, text: self.claim.to_string(), claim: self.claim.clone() };
        let checked = claims::check(&placed, source, None);
        match checked.answer {
            claims::Answer::Pass => Answer::Holds(checked.text),
            claims::Answer::Fail => Answer::Fails(checked.text),
            claims::Answer::Inconclusive => Answer::Unknown(checked.text),
        }
    }
}

/// Returns the answer of a record that ends where the kernel stopped or the time limit expired. A claim without an n is
/// about the whole curve. Such a record lacks a part of the curve: it can refute the claim, but not confirm it.
fn answer_of_unfinished(answer: Answer, claim: &Claim, why: impl Fn() -> String) -> Answer {
    let is_shown = matches!(answer, Answer::Holds(_)) && claim.n().is_some();
    if is_shown || matches!(answer, Answer::Fails(_)) { answer } else { Answer::Unknown(why()) }
}

/// Returns the settings of the case that a resolved claim is about.
fn settings_of(claim: &Claim) -> Vec<String> {
    let benchmark = &claim.subject.benchmark;
    let n = claim.steps().map(|n| format!("{benchmark}.n={n}"));
    n.into_iter().chain(settings(&claim.subject).map(|(name, value)| format!("{benchmark}.{name}={value}"))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

    use super::*;

    /// Guards against a kernel that panics early but is considered good because its calls were cheap until then.
    #[test]
    fn an_unfinished_record_shows_no_claim_about_the_whole_curve() {
        let holds = || Answer::Holds("evidence".to_owned());
        let fails = || Answer::Fails("evidence".to_owned());
        let unknown = |why: &str| Answer::Unknown(why.to_owned());
        let answer = |answer, claim: &str| {
            answer_of_unfinished(answer, &claim.parse().unwrap(), || "the kernel panicked".to_owned())
        };
        for claim in ["bind: O(1)", "bind: no cliff", "bind: no limit", "bind: grows at most O(log n)"] {
            assert_eq!(answer(holds(), claim), unknown("the kernel panicked"), "{claim}");
            assert_eq!(answer(fails(), claim), fails(), "{claim}");
        }
        for claim in ["bind: O(1) to 1000", "bind.instructions@1000 < 2000", "bind: no cliff below 5000"] {
            assert_eq!(answer(holds(), claim), holds(), "{claim}");
            assert_eq!(answer(unknown("too few points"), claim), unknown("the kernel panicked"), "{claim}");
        }
    }
}
