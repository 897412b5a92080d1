//! `landau lab bisect` and `landau lab test`: a claim about a cost, asked of kernels.

use super::step::{Machinery, Step};
use crate::status;
use anyhow::{bail, ensure};
use landau_lab::bisect::{Found, Search};
use landau_lab::debian;
use landau_lab::kernel::{Kernel, Source};
use landau_lab::metric::{Answer, Metric};
use landau_sys::signal::{catch_interrupts, interrupted};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau lab bisect --good debian:5.10 --bad debian:7.2 --metric 'bind.instructions@1000 < 2000'
                                     over every kernel that Debian's archive has between the two
  landau lab bisect --good v1/bzImage --bad v9/bzImage -k v2/bzImage -k v3/bzImage \\
      --metric 'event_wait.instructions@500 < 200000'

The claim holds of the good kernel and not of the bad one. Each kernel is booted once: a count needs no repetition.")]
pub(crate) struct Args {
    /// The kernel of which the claim holds
    #[arg(long)]
    good: String,
    /// The kernel of which it does not
    #[arg(long)]
    bad: String,
    /// The kernels between, in their order (repeatable) [default: those of Debian's archive, where both ends are]
    #[arg(long, short)]
    kernel: Vec<String>,
    /// What is claimed: BENCH[.PHASE].instructions@N < BOUND
    #[arg(long, value_name = "CLAIM")]
    metric: Metric,
    #[command(flatten)]
    machinery: Machinery,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    catch_interrupts();
    let words = row(args)?;
    ensure!(words.len() >= 2, "there is nothing between --good and --bad");
    let step = Step::new(&args.metric, &args.machinery)?;
    let mut search = Search::new(words.len());
    let mut names = words.clone();
    status::tell(&format!("{} kernels, at most {} boots", words.len(), 3 + words.len().ilog2()));
    let found = loop {
        let place = match search.next() {
            Ok(place) => place,
            Err(found) => break found,
        };
        // A kernel that cannot be had is gone round like one that does not boot.
        let answer = step.obtain(&words[place]).and_then(|kernel| {
            names[place].clone_from(&kernel.name);
            step.ask(&kernel)
        });
        let answer = answer.unwrap_or_else(|error| Answer::Unknown(format!("{error:#}")));
        if interrupted().is_some() {
            bail!("interrupted at {}", names[place]);
        }
        status::tell(&format!("{}: {}", names[place], in_words(&answer)));
        search.enter(place, answer);
    };
    conclude(args, &names, &search, &found)
}

/// What was found, in words or in JSON.
fn conclude(args: &Args, names: &[String], search: &Search, found: &Found) -> anyhow::Result<u8> {
    let told = |place: usize| search.answer(place).map_or("not asked".to_owned(), in_words);
    let (sentence, status) = match *found {
        Found::Between(good, bad) if bad == good + 1 => {
            let text = format!("`{}` holds up to {} ({}) ", args.metric, names[good], told(good));
            (format!("{text}and no longer from {} on ({})", names[bad], told(bad)), status::DONE)
        }
        Found::Between(good, bad) => {
            let between = names[good + 1..bad].join(", ");
            let text = format!("between {} ({}) and {} ({})", names[good], told(good), names[bad], told(bad));
            (format!("{text}; these cannot be told: {between}"), status::FAILED)
        }
        Found::WrongEnd(0) => (format!("`{}` does not hold of the good end: {}", args.metric, told(0)), status::FAILED),
        Found::WrongEnd(end) => (format!("`{}` holds of the bad end: {}", args.metric, told(end)), status::FAILED),
        Found::UnknownEnd(end) => (format!("{} cannot be told: {}", names[end], told(end)), status::FAILED),
    };
    if !args.json {
        status::print(&sentence)?;
        return Ok(status);
    }
    let asked: Vec<_> = (0..names.len())
        .filter_map(|place| Some((place, search.answer(place)?)))
        .map(|(place, answer)| serde_json::json!({ "kernel": names[place], "answer": in_words(answer) }))
        .collect();
    let (good, bad) =
        if let Found::Between(good, bad) = *found { (Some(&names[good]), Some(&names[bad])) } else { (None, None) };
    let value = serde_json::json!({
        "claim": args.metric.to_string(), "last_good": good, "first_bad": bad, "asked": asked, "sentence": sentence,
    });
    status::print(&serde_json::to_string_pretty(&value)?)?;
    Ok(status)
}

pub(super) fn in_words(answer: &Answer) -> String {
    match answer {
        Answer::Holds(figure) => format!("holds, {figure}"),
        Answer::Fails(figure) => format!("does not hold, {figure}"),
        Answer::Unknown(why) => format!("cannot be told: {why}"),
    }
}

/// The kernels from the good end to the bad one.
fn row(args: &Args) -> anyhow::Result<Vec<String>> {
    let between = match (Source::parse(&args.good)?, Source::parse(&args.bad)?) {
        (Source::Debian(_), Source::Debian(_)) if args.kernel.is_empty() => return debian_row(args),
        _ => args.kernel.iter().cloned(),
    };
    Ok(std::iter::once(args.good.clone()).chain(between).chain([args.bad.clone()]).collect())
}

/// The kernels of Debian's archive between two of them, of the same flavour.
fn debian_row(args: &Args) -> anyhow::Result<Vec<String>> {
    let cache = args.machinery.cache.directory()?;
    let all = debian::available(&cache, &mut |text| status::tell(text))?;
    let place = |word: &str| -> anyhow::Result<usize> {
        let meant = debian::meant(word.trim_start_matches("debian:"), &all)?;
        Ok(all.iter().position(|one| one == meant).unwrap_or(0))
    };
    let (good, bad) = (place(&args.good)?, place(&args.bad)?);
    let flavour = all[good].flavour;
    ensure!(flavour == all[bad].flavour, "{} and {} are of different flavours", args.good, args.bad);
    let (from, to) = (good.min(bad), good.max(bad));
    let mut words: Vec<String> =
        all[from..=to].iter().filter(|one| one.flavour == flavour).map(debian::Available::word).collect();
    if good > bad {
        words.reverse();
    }
    Ok(words)
}

/// `landau lab test`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau lab test --kernel arch/x86/boot/bzImage --metric 'bind.instructions@1000 < 2000'
  git bisect run sh -c 'make -j8 bzImage || exit 125; landau lab test -k arch/x86/boot/bzImage \\
      --metric \"bind.instructions@1000 < 2000\"'

Exit status, as `git bisect run` wants it: 0 the claim holds, 1 it does not, 125 it cannot be told of this kernel,
255 it could not be asked at all, which ends the bisection.")]
pub(crate) struct Test {
    /// The kernel
    #[arg(long, short)]
    kernel: String,
    /// What is claimed: BENCH[.PHASE].instructions@N < BOUND
    #[arg(long, value_name = "CLAIM")]
    metric: Metric,
    #[command(flatten)]
    machinery: Machinery,
}

/// What `git bisect run` takes for "this commit cannot be tested".
const UNTESTABLE: u8 = 125;

pub(crate) fn test(args: &Test) -> anyhow::Result<u8> {
    catch_interrupts();
    let step = match Step::new(&args.metric, &args.machinery) {
        Ok(step) => step,
        Err(error) => {
            status::tell(&format!("landau: {error:#}"));
            return Ok(status::NO_ANSWER);
        }
    };
    let answer = step.obtain(&args.kernel).and_then(|kernel: Kernel| step.ask(&kernel));
    if interrupted().is_some() {
        // git ends a bisection at a status of 128 and above.
        status::tell("interrupted");
        return Ok(130);
    }
    let answer = answer.unwrap_or_else(|error| Answer::Unknown(format!("{error:#}")));
    status::print(&format!("{}: {}", args.metric, in_words(&answer)))?;
    Ok(match answer {
        Answer::Holds(_) => status::DONE,
        Answer::Fails(_) => status::FAILED,
        Answer::Unknown(_) => UNTESTABLE,
    })
}
