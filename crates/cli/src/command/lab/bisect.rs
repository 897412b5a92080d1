//! `landau lab bisect` and `landau lab test`: test a claim about a cost under kernels.

use super::step::{Machinery, Step};
use crate::status;
use anyhow::{Context, ensure};
use landau_claims::Claim;
use landau_lab::bisect::{Answer, Found, Search};
use landau_lab::debian;
use landau_lab::kernel::{Kernel, Source};
use landau_sys::signal::{catch_interrupts, interrupted};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau lab bisect --good debian:5.10 --bad debian:7.2 --metric 'bind.instructions@1000 < 2000'
                                     all kernels that Debian's archive has between the two
  landau lab bisect --good v1/bzImage --bad v9/bzImage -k v2/bzImage -k v3/bzImage \\
      --claim 'bind.instructions: grows at most O(log n) to 10000'

The claim must hold for the good kernel and not for the bad one.

A claim is written as for landau check: a cost at an n, a law, no cliff, no limit. Without a unit,
or about instructions, it is tested on the platform exact, in one pass: every pass would count
the same. A claim about ns is tested on kvm, in five passes. A claim that a record neither
confirms nor refutes cannot be tested.")]
pub(crate) struct Args {
    /// Start from this kernel, for which the claim holds
    #[arg(long)]
    good: String,
    /// End at this kernel, for which the claim does not hold
    #[arg(long)]
    bad: String,
    /// Search these kernels, given in order from the good one to the bad one; may be repeated [default: the kernels of
    /// Debian's archive between the two, if both are from there]
    #[arg(long, short)]
    kernel: Vec<String>,
    /// Test this claim: 'bind.instructions@1000 < 2000', 'bind.instructions: O(1) to 1000', 'bind: no cliff below 5000'
    #[arg(long, visible_alias = "claim", value_name = "CLAIM", value_parser = read_claim)]
    metric: Claim,
    #[command(flatten)]
    machinery: Machinery,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    catch_interrupts();
    let words = row(args)?;
    ensure!(words.len() >= 2, "no kernels between --good and --bad");
    let step = Step::new(&args.metric, &args.machinery)?;
    let mut search = Search::new(words.len());
    let mut names = words.clone();
    let mut kernels: Vec<Option<Kernel>> = vec![None; words.len()];
    // A typing error in an end of the series is reported before any kernel boots.
    for (flag, end) in [("--good", 0), ("--bad", words.len() - 1)] {
        let kernel = step.obtain(&words[end]).with_context(|| format!("{flag} {}", words[end]))?;
        names[end].clone_from(&kernel.name);
        kernels[end] = Some(kernel);
    }
    let most = words.len().min(3 + words.len().ilog2() as usize);
    status::tell(&format!("{} kernels, at most {most} boots", words.len()));
    let ended = loop {
        let place = match search.next() {
            Ok(place) => place,
            Err(found) => break Ended::Found(found),
        };
        // A kernel between the ends that cannot be obtained is skipped, like one that does not boot.
        let kernel = kernels[place].take().map_or_else(|| step.obtain(&words[place]), Ok);
        let answer = kernel.and_then(|kernel| {
            names[place].clone_from(&kernel.name);
            step.test(&kernel)
        });
        // The answer from a truncated record is meaningless.
        if interrupted().is_some() {
            break Ended::Interrupted(place);
        }
        let answer = answer.unwrap_or_else(|error| Answer::Unknown(format!("{error:#}")));
        status::tell(&format!("{}: {}", names[place], answer_text(&answer)));
        search.enter(place, answer);
    };
    let result = Series { claim: &args.metric, names: &names, search: &search, ended: &ended };
    let (sentence, status) = result.sentence();
    let text = if args.json { serde_json::to_string_pretty(&result.json(&sentence))? } else { sentence };
    status::answer(&text, status)
}

/// How a search ended.
#[derive(Debug)]
enum Ended {
    /// With a result of the search.
    Found(Found),
    /// By an interrupt while this kernel was tested.
    Interrupted(usize),
}

/// A series of kernels and the results of its search.
#[derive(Debug)]
struct Series<'a> {
    claim: &'a Claim,
    names: &'a [String],
    search: &'a Search,
    ended: &'a Ended,
}

impl Series<'_> {
    /// Returns the result as a sentence, and the exit status.
    fn sentence(&self) -> (String, u8) {
        let Self { claim, names, search, .. } = self;
        let answer = |place: usize| search.answer(place).map_or("not tested".to_owned(), answer_text);
        let why = |place: usize| search.answer(place).map_or("not tested", evidence);
        let last = names.len() - 1;
        let sentence = match *self.ended {
            Ended::Found(Found::Between(good, bad)) if bad == good + 1 => {
                let text = format!("`{claim}` holds up to {} ({}), ", names[good], why(good));
                return (format!("{text}but not from {} on ({})", names[bad], why(bad)), status::DONE);
            }
            Ended::Found(Found::Between(good, bad)) => {
                let between = names[good + 1..bad].join(", ");
                let text = format!("between {} ({}) and {} ({})", names[good], answer(good), names[bad], answer(bad));
                format!("{text}; not testable: {between}")
            }
            Ended::Found(Found::WrongEnd(0)) => {
                format!("`{claim}` does not hold for --good {}: {}", names[0], why(0))
            }
            Ended::Found(Found::WrongEnd(end)) => format!("`{claim}` holds for --bad {}: {}", names[end], why(end)),
            Ended::Found(Found::UnknownEnd(end)) => {
                let flag = if end == last { "--bad" } else { "--good" };
                format!("{flag} {} cannot be tested: {}", names[end], why(end))
            }
            Ended::Interrupted(place) => format!("interrupted at {}", names[place]),
        };
        (sentence, status::FAILED)
    }

    /// Returns the result as JSON.
    fn json(&self, sentence: &str) -> serde_json::Value {
        let Self { claim, names, search, ended } = self;
        let asked: Vec<_> = (0..names.len())
            .filter_map(|place| Some((place, search.answer(place)?)))
            .map(|(place, answer)| serde_json::json!({ "kernel": names[place], "answer": answer_text(answer) }))
            .collect();
        let (good, bad) = match **ended {
            Ended::Found(Found::Between(good, bad)) => (Some(&names[good]), Some(&names[bad])),
            _ => (None, None),
        };
        serde_json::json!({
            "claim": claim.to_string(), "last_good": good, "first_bad": bad, "asked": asked,
            "interrupted": matches!(ended, Ended::Interrupted(_)), "sentence": sentence,
        })
    }
}

/// Parses the claim of a flag.
fn read_claim(text: &str) -> Result<Claim, String> {
    text.parse().map_err(|error: landau_claims::ParseError| error.in_line())
}

pub(super) fn answer_text(answer: &Answer) -> String {
    match answer {
        Answer::Holds(evidence) => format!("holds: {evidence}"),
        Answer::Fails(evidence) => format!("does not hold: {evidence}"),
        Answer::Unknown(why) => format!("cannot be tested: {why}"),
    }
}

/// Returns the evidence of an answer, or the reason why there is none.
fn evidence(answer: &Answer) -> &str {
    match answer {
        Answer::Holds(why) | Answer::Fails(why) | Answer::Unknown(why) => why,
    }
}

/// Returns the kernels from the good one to the bad one.
fn row(args: &Args) -> anyhow::Result<Vec<String>> {
    let between = match (Source::parse(&args.good)?, Source::parse(&args.bad)?) {
        (Source::Debian(_), Source::Debian(_)) if args.kernel.is_empty() => return debian_row(args),
        _ => args.kernel.iter().cloned(),
    };
    Ok(std::iter::once(args.good.clone()).chain(between).chain([args.bad.clone()]).collect())
}

/// Returns the kernels of Debian's archive between two of the same flavour.
fn debian_row(args: &Args) -> anyhow::Result<Vec<String>> {
    let cache = args.machinery.cache.directory()?;
    let all = debian::available(&cache, &mut |text| status::tell(text))?;
    let place = |word: &str| -> anyhow::Result<usize> {
        let meant = debian::meant(word.trim_start_matches("debian:"), &all)?;
        Ok(all.iter().position(|one| one == meant).unwrap_or(0))
    };
    let (good, bad) = (place(&args.good)?, place(&args.bad)?);
    let flavour = all[good].flavour;
    ensure!(flavour == all[bad].flavour, "{} and {} have different flavours", args.good, args.bad);
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
  git bisect run sh -c 'make -j8 bzImage || exit 125; \\
      landau lab test -k arch/x86/boot/bzImage --metric \"bind.instructions@1000 < 2000\"'

`landau lab bisect --help` explains how a claim is tested.

Exit status, for `git bisect run`: 0 if the claim holds, 1 if it does not, 125 if this kernel
cannot be tested. 255 ends the bisection: the claim is invalid, or it is about ns and needs kvm,
which is known not to work here.")]
pub(crate) struct Test {
    /// Test this kernel
    #[arg(long, short)]
    kernel: String,
    /// Test this claim: 'bind.instructions@1000 < 2000', 'bind.instructions: O(1) to 1000', 'bind: no cliff below 5000'
    #[arg(long, visible_alias = "claim", value_name = "CLAIM", value_parser = read_claim)]
    metric: Claim,
    #[command(flatten)]
    machinery: Machinery,
}

/// Exit status that makes `git bisect run` skip a commit.
const UNTESTABLE: u8 = 125;

pub(crate) fn test(args: &Test) -> anyhow::Result<u8> {
    catch_interrupts();
    let step = match Step::new(&args.metric, &args.machinery) {
        Ok(step) => step,
        Err(error) => return Ok(no_answer(&error)),
    };
    let answer = step.obtain(&args.kernel).and_then(|kernel| step.test(&kernel));
    if interrupted().is_some() {
        // A status of 128 or more ends a bisection.
        status::tell("interrupted");
        return Ok(130);
    }
    let answer = answer.unwrap_or_else(|error| Answer::Unknown(format!("{error:#}")));
    let status = match answer {
        Answer::Holds(_) => status::DONE,
        Answer::Fails(_) => status::FAILED,
        Answer::Unknown(_) => UNTESTABLE,
    };
    let text = format!("{}: {}", args.metric, answer_text(&answer));
    // With the exit status of an ordinary failure, git would consider the commit bad.
    status::answer(&text, status).or_else(|error| Ok(no_answer(&error)))
}

/// Prints the error that prevents the test, and returns the exit status that ends a bisection.
fn no_answer(error: &anyhow::Error) -> u8 {
    status::tell(&format!("landau: {error:#}"));
    status::NO_ANSWER
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

    use super::*;

    /// Guards against a Ctrl-C that discards hours of answers and exits with the status of a command that could not
    /// run.
    #[test]
    fn an_interrupted_search_tells_its_answers() {
        let claim: Claim = "bind.instructions@1000 < 2000".parse().unwrap();
        let names = ["5.10", "6.1", "6.12"].map(str::to_owned);
        let mut search = Search::new(names.len());
        search.enter(0, Answer::Holds("1,000".to_owned()));
        search.enter(2, Answer::Fails("3,000".to_owned()));
        let result = |search: &Search, ended: &Ended| {
            let series = Series { claim: &claim, names: &names, search, ended };
            let (sentence, status) = series.sentence();
            (series.json(&sentence), status)
        };
        let (value, status) = result(&search, &Ended::Interrupted(1));
        let expected = serde_json::json!({
            "claim": claim.to_string(), "last_good": null, "first_bad": null,
            "asked": [
                { "kernel": "5.10", "answer": "holds: 1,000" },
                { "kernel": "6.12", "answer": "does not hold: 3,000" },
            ],
            "interrupted": true, "sentence": "interrupted at 6.1",
        });
        assert_eq!((value, status), (expected, status::FAILED));

        search.enter(1, Answer::Holds("1,001".to_owned()));
        let (value, status) = result(&search, &Ended::Found(search.next().unwrap_err()));
        assert_eq!((status, value["interrupted"].as_bool()), (status::DONE, Some(false)));
        assert_eq!((value["last_good"].as_str(), value["first_bad"].as_str()), (Some("6.1"), Some("6.12")));
    }
}
