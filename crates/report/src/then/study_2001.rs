//! The study of 2001: architectures of a server, ten thousand files, and a mail engine, one figure each.

use super::published::{self, EXEC_SHARE, EXEC_TIMES, FREEBSD_S, LINUX_S, SOLARIS_S, THREAD_TIMES};
use super::reading::{
    Author, Settings, absent, at_end, facts_of, judged, last_tenth, median_near, mismatch, phase, points, ratio,
    ratio_text, verdict,
};
use super::{Article, Change, Figure, Published, Subject, Test};
use crate::quantity::{FormatCost, count, digits, duration, factor};
use crate::{Analysis, PhaseStudy, unit_of};
use landau_stats::Estimate;

const STUDY: &str = "2001";

const ARTICLE: &str = "Rothman and Buckman, Sys Admin 10 (7), July 2001";
const FOLLOW_UP: &str = "Rothman and Buckman, Sys Admin 10 (8), August 2001";

const CITATION: &str = "J. Rothman and J. Buckman, \"Which OS is Fastest for High-Performance Network Applications?\" \
                        (Sys Admin, July 2001) and its follow-up (August 2001), on Pentium III of 550 MHz with Linux \
                        2.2.16, Solaris 8, FreeBSD 4.2 and Windows 2000. The charts are images; the figures below are \
                        those of the text.";

const fn row(what: &'static str, value: &'static str, source: &'static str) -> Published {
    Published { what, value, source }
}

/// Returns the curves that this article uses.
pub(super) fn subjects() -> Vec<Subject> {
    let one = |study, benchmark, settings, phase| Subject { study, benchmark, settings, phase };
    let server = |study, phase| [LOOP, THREAD, EXEC].map(|settings| one(study, SERVER, settings, phase));
    let files = SIZES.map(|(_, settings)| one(Some(STUDY), FILES, settings, "create"));
    let promises = PROMISES.map(|(_, settings)| one(None, FILES, settings, "create"));
    let mail = [Some(STUDY), None].map(|study| one(study, MAIL, GROWS, "recipient"));
    [&server(Some(STUDY), "reply")[..], &server(None, "processor"), &files, &promises, &mail].concat()
}

pub(super) fn replay(analysis: &Analysis<'_>) -> Article {
    let tests: Vec<Test> = [architecture(analysis), files(analysis), mail(analysis)].into_iter().flatten().collect();
    Article {
        year: STUDY,
        citation: CITATION,
        asked: "Which operating system, and which architecture of a program, is fastest for network applications?",
        method: "One figure for each system or architecture: no repeats, no spread, and means over four systems.",
        contradictions: if tests.is_empty() { Vec::new() } else { published::of_2001() },
        tests,
    }
}

/// Returns the sentences, or a sentence that nothing was measured.
fn or_absent(sentences: Vec<String>, analysis: &Analysis<'_>, benchmark: &str) -> Vec<String> {
    if sentences.is_empty() { vec![absent(analysis, benchmark)] } else { sentences }
}

const SERVER: &str = "architecture";
const LOOP: Settings = &[("architecture", "event-loop"), ("workload", "busy")];
const THREAD: Settings = &[("architecture", "thread"), ("workload", "busy")];
const EXEC: Settings = &[("architecture", "exec"), ("workload", "busy")];

/// The architectures other than the event loop: the name, the settings, and the published ratios.
const ARCHITECTURES: [(&str, Settings, &[f64]); 2] = [
    ("a process executed for each connection", EXEC, &[EXEC_TIMES, 1.0 / EXEC_SHARE]),
    ("a thread for each connection", THREAD, &[THREAD_TIMES]),
];

const PUBLISHED_SERVERS: [Published; 4] = [
    row("process", "\"a 12x performance difference\"", ARTICLE),
    row("process", "\"can handle only about 5 percent of the connections of the asynchronous method\"", ARTICLE),
    row("thread", "\"about 35 percent more load … at 1000 simultaneous connections\"", ARTICLE),
    row("thread", "\"35% faster\" on average, while \"the … gap widens as load increases\"", ARTICLE),
];

/// The two ratios of an architecture to the event loop.
struct Factor {
    name: &'static str,
    /// Throughput in one run: replies per second, and the ratio of the event loop's to this.
    run: Option<(f64, f64)>,
    /// The server's processor time per reply over the event loop's.
    cost: Option<Estimate>,
    published: &'static [f64],
}

impl Factor {
    /// Returns whether one run gives a different factor than the passes; `None` if one of the two is not known.
    fn changes(&self) -> Option<bool> {
        let (_, times) = self.run?;
        self.cost.filter(|cost| cost.high.is_finite()).map(|cost| !cost.holds(times))
    }

    fn then(&self) -> Option<String> {
        let (rate, times) = self.run?;
        Some(format!("With {}: {} a second, so the event loop is {}.", self.name, count(rate), factor(times)))
    }

    fn now(&self) -> Option<String> {
        let claims: Vec<String> = self.published.iter().map(|claim| factor(*claim)).collect();
        Some(format!(
            "The server's processor time for a reply with {}: {} of the event loop's, paired by round, 95%. Published: \
             {}.",
            self.name,
            ratio_text(self.cost?),
            claims.join(" and ")
        ))
    }

    fn why(&self) -> Option<String> {
        let ((_, times), cost) = (self.run?, self.cost?);
        self.changes().filter(|changes| *changes).map(|_| {
            format!(
                "With {} one run of throughput gives {}, and the server's own time {}: replies a second are those of \
                 the slower of client and server.",
                self.name,
                factor(times),
                ratio_text(cost)
            )
        })
    }
}

fn processor<'a>(analysis: &'a Analysis<'_>, settings: Settings) -> Option<&'a PhaseStudy<'a>> {
    phase(judged(analysis, (SERVER, settings))?, "processor")
}

/// Returns the architecture test: replies per second in 2001, processor time of the server today.
fn architecture(analysis: &Analysis<'_>) -> Option<Test> {
    let author = |settings| Author::find(analysis, STUDY, (SERVER, settings), "reply");
    let reply = |settings| last_tenth(author(settings)?.curve.passes.first()?);
    let (base, base_cost) = (reply(LOOP), processor(analysis, LOOP));
    if base.is_none() && base_cost.is_none() {
        return None;
    }
    let factor_of = |(name, settings, published): (&'static str, Settings, &'static [f64])| {
        let cost = processor(analysis, settings).zip(base_cost);
        let cost = cost.and_then(|(own, base)| ratio(&at_end(own), &at_end(base)));
        let run = reply(settings).zip(base).map(|(own, base)| (1e9 / own, own / base));
        Factor { name, run, cost, published }
    };
    let factors = ARCHITECTURES.map(factor_of);
    let first = base.map(|ns| format!("Event loop: {} replies a second, one run.", count(1e9 / ns)));
    let then = first.into_iter().chain(factors.iter().filter_map(Factor::then)).collect();
    let now = factors.iter().filter_map(Factor::now).collect();
    let differs = |settings| {
        let study = judged(analysis, (SERVER, settings))?;
        mismatch(&author(settings)?, study, phase(study, "processor")?, &[])
    };
    let (change, conclusion) = match [LOOP, EXEC, THREAD].into_iter().find_map(differs) {
        Some(reason) => (Change::Open, format!("Open: {reason}.")),
        None => server_conclusion(analysis, &factors),
    };
    let kinds = [("event loop", LOOP), ("thread", THREAD), ("process", EXEC)];
    let curve = |(name, settings): (&str, Settings)| Some((name.to_owned(), points(processor(analysis, settings)?)));
    Some(Test {
        name: "architecture",
        asked: "How much faster is one thread with nonblocking calls than a thread or a process for each connection?",
        published: PUBLISHED_SERVERS.to_vec(),
        method: "Replies counted by one client while connections rise to 1,000; the mean of four systems.",
        then: or_absent(then, analysis, SERVER),
        now: or_absent(now, analysis, SERVER),
        change,
        conclusion,
        why: if change == Change::Changes { factors.iter().filter_map(Factor::why).collect() } else { Vec::new() },
        figure: Some(Figure {
            axis: "simultaneous connections".to_owned(),
            samples: author(LOOP).as_ref().map(Author::samples).unwrap_or_default(),
            sampled: "event loop",
            curves: kinds.into_iter().filter_map(curve).collect(),
        }),
    })
}

fn server_conclusion(analysis: &Analysis<'_>, factors: &[Factor]) -> (Change, String) {
    let changes: Vec<bool> = factors.iter().filter_map(Factor::changes).collect();
    if changes.is_empty() {
        return (Change::Open, "Open: one of the two methods gives no ratio in this record.".to_owned());
    }
    if !changes.contains(&true) {
        let text = "The method does not change the conclusion: one run gives factors that lie in the intervals of the \
                    corrected method.";
        return (Change::Stays, text.to_owned());
    }
    let order = match has_order_of_2001(analysis) {
        Some(true) => "; their order is that of 2001",
        Some(false) => "; their order is not that of 2001",
        None => "",
    };
    let text = "The method changes the conclusion: the factors between the architectures depend on what is counted";
    (Change::Changes, format!("{text}{order}."))
}

/// Returns whether the server's processor time has the order of 2001: event loop, thread, process. `None` if an
/// interval leaves it open.
fn has_order_of_2001(analysis: &Analysis<'_>) -> Option<bool> {
    let end = |settings| Some(at_end(processor(analysis, settings)?));
    let (base, thread, exec) = (end(LOOP)?, end(THREAD)?, end(EXEC)?);
    let steps = [ratio(&thread, &base)?, ratio(&exec, &thread)?];
    match () {
        () if steps.iter().all(|step| step.low > 1.0) => Some(true),
        () if steps.iter().any(|step| step.high < 1.0) => Some(false),
        () => None,
    }
}

const FILES: &str = "files";
const TIME: &str = "time_per_file";

/// The sizes of the study that are repeated, and the durabilities of the corrected method other than none.
const SIZES: [(&str, Settings); 2] = [("4 KiB", &[("size", "4KiB")]), ("128 KiB", &[("size", "128KiB")])];
const PROMISES: [(&str, Settings); 2] = [
    ("fsync() of each file", &[("durability", "fsync")]),
    ("fsync() of each file and of the directory", &[("durability", "fsync-directory")]),
];

/// From this ratio on, durability explains a difference between file systems.
const OTHER_PROMISE: f64 = 1.5;

const PUBLISHED_FILES: [Published; 6] = [
    row("Linux, ext2", "542 s for all sizes", FOLLOW_UP),
    row("Windows 2000, NTFS", "613 s", FOLLOW_UP),
    row("FreeBSD 4.2, UFS async", "630 s", FOLLOW_UP),
    row("FreeBSD 4.2, UFS", "2,398 s", FOLLOW_UP),
    row("Solaris 8, UFS", "3,990 s", FOLLOW_UP),
    row("Linux and Windows", "\"6x faster than FreeBSD, 10x faster than Solaris\"", ARTICLE),
];

/// Returns the file test: seconds for 10,000 files in 2001, and the same files with declared durability today. Only the
/// corrected cases decide the conclusion, so they may be shorter than the authors'.
fn files(analysis: &Analysis<'_>) -> Option<Test> {
    let run = |(name, settings): (&str, Settings)| {
        let author = Author::find(analysis, STUDY, (FILES, settings), "create")?;
        let (ns, files) = (*author.facts(TIME).first()?, author.case.n as f64);
        let seconds = digits(ns * files / 1e9);
        Some(format!("{} files of {name}: {seconds} s, {} a file, one run.", count(files), duration(ns)))
    };
    let then: Vec<String> = SIZES.into_iter().filter_map(run).collect();
    let times = |settings| Some(facts_of(analysis.record, judged(analysis, (FILES, settings))?.case, TIME));
    let none = times(&[("durability", "none")]);
    if then.is_empty() && none.is_none() {
        return None;
    }
    let promise = |(name, settings)| Some((name, ratio(&times(settings)?, none.as_ref()?)?));
    let ratios: Vec<(&str, Estimate)> = PROMISES.into_iter().filter_map(promise).collect();
    let told = |(name, ratio): &(&str, Estimate)| {
        format!("The same files on the same file system with {name}: {} of the time without, 95%.", ratio_text(*ratio))
    };
    let now = ratios.iter().map(told).collect();
    let (change, conclusion, why) = files_conclusion(&ratios);
    Some(Test {
        name: "files",
        asked: "How long do creating, writing and reading back 10,000 files take?",
        published: PUBLISHED_FILES.to_vec(),
        method: "One run for each system and size, 4 to 128 KB, with each file system's defaults. Here the smallest \
                 and the largest size, each file read back at once; the article does not say which order it had.",
        then: or_absent(then, analysis, FILES),
        now: or_absent(now, analysis, FILES),
        change,
        conclusion: conclusion.to_owned(),
        why,
        figure: None,
    })
}

fn files_conclusion(ratios: &[(&str, Estimate)]) -> (Change, &'static str, Vec<String>) {
    let known = ratios.iter().map(|one| one.1).filter(|ratio| ratio.high.is_finite());
    let Some(ratio) = known.max_by(|a, b| a.low.total_cmp(&b.low)) else {
        return (Change::Open, "Open: durability was not measured in two passes of this record.", Vec::new());
    };
    let (text, between) = (ratio_text(ratio), [FREEBSD_S / LINUX_S, SOLARIS_S / LINUX_S]);
    if ratio.low > OTHER_PROMISE {
        let why = format!(
            "Between the systems of 2001 the times differ by {} and {}. They promised different things by default. \
             Here one file system differs by {text} between two promises.",
            factor(between[0]),
            factor(between[1])
        );
        let conclusion = "The method changes the conclusion: such a difference is the promise about a power failure, \
                          not the file system.";
        return (Change::Changes, conclusion, vec![why]);
    }
    if ratio.high <= OTHER_PROMISE {
        let conclusion = "The method does not change the conclusion: on this file system the promise costs little, so \
                          a difference between file systems would be their own.";
        return (Change::Stays, conclusion, vec![format!("The promise costs {text} here.")]);
    }
    let why = format!("The interval of the promise's cost, {text}, contains {}.", factor(OTHER_PROMISE));
    (Change::Open, "Open: whether the promise explains the difference is not shown here.", vec![why])
}

const MAIL: &str = "mail";
const GROWS: Settings = &[("grows", "connections"), ("mode", "rset")];

/// Connections beyond this number gained little in 2001.
const ENOUGH: f64 = 1_500.0;

/// A gain below this factor is little.
const LITTLE: f64 = 1.1;

const PUBLISHED_MAIL: [Published; 4] = [
    row("Linux over Solaris", "\"roughly 35% faster\"", ARTICLE),
    row("best over worst", "\"a 75% performance gap\"", ARTICLE),
    row("beyond 1,500 connections", "\"marginal additional speed\"", ARTICLE),
    row("FreeBSD, tuned", "\"27% faster\"; falls beyond 1,500; bind() fails at about 3,000", FOLLOW_UP),
];

/// Returns the test of the mail engine: recipients per second by simultaneous connections.
fn mail(analysis: &Analysis<'_>) -> Option<Test> {
    let author = Author::find(analysis, STUDY, (MAIL, GROWS), "recipient");
    let study = judged(analysis, (MAIL, GROWS));
    let own = study.and_then(|study| phase(study, "recipient"));
    if author.is_none() && own.is_none() {
        return None;
    }
    let run = author.as_ref().and_then(|author| author.curve.passes.first());
    let at = |n: f64| run.and_then(|pass| median_near(pass, n));
    let rate = |n: f64| Some(format!("{} recipients a second over {} connections.", count(1e9 / at(n)?), count(n)));
    let then_gain = at(ENOUGH).zip(run.and_then(last_tenth)).map(|(before, after)| before / after);
    let from = count(ENOUGH);
    let told = then_gain.map(|gain| format!("From {from} connections to the end: {}, in one run.", factor(gain)));
    let then = [100.0, 500.0, ENOUGH, 3_000.0].into_iter().filter_map(rate).chain(told).collect();
    let gain = own.and_then(|own| {
        let passes = own.rounds.iter().zip(&own.curve.passes);
        let before = passes.filter_map(|(round, pass)| Some((*round, median_near(pass, ENOUGH)?))).collect();
        ratio(&before, &at_end(own))
    });
    let mut now: Vec<String> = Vec::new();
    now.extend(gain.map(|gain| format!("From {from} connections to the end: {}, 95%.", ratio_text(gain))));
    now.extend(own.map(|own| verdict("time per recipient", own)));
    let processor = study.and_then(|study| phase(study, "processor")?.verdict.all.end);
    now.extend(processor.map(|end| {
        let cost = unit_of(analysis.record).cost(end.value);
        format!("The engine's own processor time is {cost} a recipient at the end.")
    }));
    let both = author.as_ref().zip(study).zip(own);
    let (change, conclusion) = match both.and_then(|((author, study), own)| mismatch(author, study, own, &[])) {
        Some(reason) => (Change::Open, format!("Open: {reason}.")),
        None => mail_conclusion(then_gain, gain),
    };
    Some(Test {
        name: "mail engine",
        asked: "How many recipients a second does a mail engine reach over thousands of connections?",
        published: PUBLISHED_MAIL.to_vec(),
        method: "200,000 recipients in 9,113 domains, RSET instead of DATA, to the domains' own servers on the \
                 Internet; one run for each number of connections. Here the receiver is on the same machine.",
        then: or_absent(then, analysis, MAIL),
        now: or_absent(now, analysis, MAIL),
        change,
        conclusion,
        why: Vec::new(),
        figure: Some(Figure {
            axis: "busy connections".to_owned(),
            samples: author.as_ref().map(Author::samples).unwrap_or_default(),
            sampled: "time per recipient",
            curves: own.into_iter().map(|own| ("time per recipient".to_owned(), points(own))).collect(),
        }),
    })
}

fn mail_conclusion(one_run: Option<f64>, gain: Option<Estimate>) -> (Change, String) {
    let (Some(one_run), Some(gain)) = (one_run, gain.filter(|gain| gain.high.is_finite())) else {
        return (Change::Open, "Open: one of the two methods gives no gain in this record.".to_owned());
    };
    if gain.low < LITTLE && gain.high >= LITTLE {
        let (gain, little) = (ratio_text(gain), factor(LITTLE));
        return (Change::Open, format!("Open: the interval {gain} contains {little}, below which a gain is little."));
    }
    let is_little = [one_run < LITTLE, gain.high < LITTLE];
    let word = |is_little: bool| {
        if is_little { "more than 1,500 connections gain little" } else { "more than 1,500 connections gain" }
    };
    if is_little[0] == is_little[1] {
        let published = if is_little[1] { "That is what was published." } else { "\"Marginal\" was published." };
        let text = format!("The method does not change the conclusion: {}. {published}", word(is_little[1]));
        return (Change::Stays, text);
    }
    let text = format!(
        "The method changes the conclusion: {} by one run, {} by the passes.",
        word(is_little[0]),
        word(is_little[1])
    );
    (Change::Changes, text)
}
