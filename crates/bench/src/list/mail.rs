//! `mail`: the mail engine sends to recipients over a growing number of connections, in a growing list, or in a growing
//! number of domains.
//!
//! Measures the cost of a recipient while all connections are busy: the time, and the processor time of the engine. The
//! engine runs in the worker; the receiver is `landau sink smtp`, a separate process. With `grows=connections` each
//! step puts one more connection to work and times the next 50 recipients over all of them; connections are opened
//! ahead of time, because opening one among thousands of busy ones takes several rounds of all of them. With
//! `grows=recipients` the connections stay as they are and n is the place in the list. With `grows=domains` the
//! connections stay as they are, too: each step adds a domain and times the next five recipients in the list, which are
//! in all domains so far. With `names=on` each domain is looked up at `landau sink dns` and has a separate host, so
//! that connections carry a few messages each, as in 2001; otherwise one server takes everything. A batch of replies
//! settles many recipients at once; each has the mean of its batch. At the end the engine's ledger and the sink's
//! counters must agree on every recipient.
//!
//! Not a measure of the network, of name servers or of other receivers: the sink answers at once. `recipient` is the
//! time of the slower of engine and sink, whose processor times are facts; `processor` is the engine's alone.
//!
//! Source: J. Rothman and J. Buckman, "Which OS is Fastest for High-Performance Network Applications?", Sys Admin, July
//! 2001. Their MailEngine sent to 200,000 recipients in 9,113 domains up to RSET, over up to 3,000 connections, to
//! the domains' own servers.

use crate::idle_poll::IdlePoll;
use crate::receiver::Receiver;
use crate::server::loopback_works;
use landau_engine::{
    Annotation, AnnotationKind, Benchmark, Context, Cost, FactUnit, Facts, Host, Kind, Parameter, Phase, ReplayCase,
    Settings, Stop, Study, Support, Timer, Unit, Variant,
};
use landau_mail::synthetic::Shape;
use landau_mail::{Backoff, Delivery, Envelope, Feedback, Limits, Mode, Run, Source, Sync};
use landau_sys::clock::monotonic_ns;
use landau_sys::process::thread_time_ns;
use std::fs;
use std::time::Duration;

/// The minimum number of recipients of a step with `grows=connections`.
const RECIPIENTS_EACH: u64 = 50;

/// The maximum number of recipients beyond those: each connection at work may answer in the iteration that ends a step,
/// and the event loop returns up to this number of events in an iteration.
const BEYOND_EACH: u64 = 256;

/// The maximum length of a recipient's line in the ledger, in bytes.
const LINE_BYTES: u64 = 128;

/// The number of recipients of a step with `grows=domains`.
const RECIPIENTS_PER_DOMAIN: u64 = 5;

/// The number of recipients in memory with `grows=domains`, in addition to one for each connection. Mail to a new
/// domain is sent that many recipients later.
const AHEAD_IN_DOMAINS: u64 = 500;

/// The number of domains in the study of 2001.
const DOMAINS_OF_2001: u32 = 9_113;

/// The number of connections that are opened ahead of time, in addition to an eighth of those at work.
const AHEAD: u64 = 64;

/// The maximum number of recipients in memory: the engine's default.
const ACTIVE: usize = 20_000;

/// The longest wait for a connection or a reply. The kernel repeats a dropped connection attempt after 1, 3 and 7 s.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The numbers of connections that the study of 2001 names.
const OF_2001: [(u32, &str); 3] = [
    (1_500, "2001: little gain beyond; FreeBSD falls"),
    (2_500, "2001: untuned FreeBSD fails"),
    (3_000, "2001: tuned FreeBSD, not always"),
];

/// The descriptors that an engine and a sink need in addition to connections: event loops, the ledger, standard
/// streams.
const OTHER_DESCRIPTORS: u64 = 32;

/// The error that ends a curve when the sink has no descriptor left for another connection.
const FULL: landau_sys::Error = landau_sys::Error { call: "accept", errno: libc::EMFILE };

/// State of a pass.
#[derive(Debug)]
pub struct Mail {
    /// Taken when the delivery is finished.
    run: Option<Run>,
    /// Taken when its counters are read.
    receiver: Option<Receiver>,
    mode: Mode,
    grows: Grows,
    /// The number of connections at the last step.
    most: u64,
    /// The number of recipients that were done before the first step.
    done_before: u64,
    /// The means of the last batch.
    each: Each,
    began_ns: u64,
    processor: Option<u32>,
    idle: IdlePoll,
}

/// What n counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grows {
    Connections,
    Recipients,
    Domains,
}

impl Grows {
    fn of(settings: &Settings) -> Self {
        match settings.text("grows") {
            "connections" => Self::Connections,
            "domains" => Self::Domains,
            _ => Self::Recipients,
        }
    }

    /// Returns the minimum number of recipients of a step.
    const fn recipients_each(self) -> u64 {
        match self {
            Self::Connections => RECIPIENTS_EACH,
            Self::Recipients => 1,
            Self::Domains => RECIPIENTS_PER_DOMAIN,
        }
    }

    /// Returns the maximum mean number of recipients of a step over a pass of `n` steps. In a list and over domains,
    /// recipients beyond a step count for the next ones.
    fn most_recipients_each(self, n: u64) -> u64 {
        let beyond = if self == Self::Connections { n.min(BEYOND_EACH) } else { 0 };
        self.recipients_each() + beyond
    }
}

/// The cost of a recipient.
#[derive(Debug, Clone, Copy, Default)]
struct Each {
    elapsed_ns: u64,
    processor_ns: u64,
}

/// The name of the ledger.
const LEDGER: &str = "ledger";

const RECIPIENT: usize = 0;
const PROCESSOR: usize = 1;

impl Benchmark for Mail {
    const NAME: &'static str = "mail";
    const ABOUT: &'static str = "What does a recipient cost a mail engine, by connections, recipients and domains?";
    const AXIS: &'static str = "busy connections";
    const PHASES: &'static [Phase] = &[
        Phase::up("recipient", "time per recipient while all connections are busy: the slower of engine and sink")
            .elsewhere(),
        Phase::up("processor", "processor time of the engine per recipient").elsewhere(),
    ];
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::auto_steps(
            "64",
            "auto",
            "auto",
            "connections, recipients or domains at the end; auto: connections: quick: 800; full: 19,000, or 95% of \
             RLIMIT_NOFILE if that is less; recipients: quick: 20,000; full: 200,000; domains: quick: 9,113; full: \
             20,000",
        ),
        Parameter::fixed(
            "grows",
            Kind::Choice(&["connections", "recipients", "domains"]),
            "connections",
            "what n counts. connections: each step adds a busy connection; recipients: n is the position in the list; \
             domains: each step adds one, and sends to 5 recipients in all domains so far",
        ),
        Parameter::fixed(
            "mode",
            Kind::Choice(&["rset", "data"]),
            "rset",
            "rset: MAIL, RCPT, RSET, as in 2001; data: the message is delivered",
        ),
        Parameter::fixed(
            "connections",
            Kind::Count { min: 1, max: 100_000 },
            "100",
            "connections with grows=recipients and grows=domains",
        ),
        Parameter::fixed(
            "domains",
            Kind::Count { min: 1, max: 1_000_000 },
            "9113",
            "domains over which the recipients are distributed, in equal shares; grows=domains: n",
        ),
        Parameter::fixed(
            "names",
            Kind::Choice(&["off", "on"]),
            "off",
            "on: each domain is looked up at a name server on loopback, and has its own host; off: one server receives \
             all mail. Not with grows=connections",
        ),
        Parameter::fixed(
            "message",
            Kind::Size { min: 128, max: 64 << 20 },
            "2KiB",
            "size of the message with mode=data, with its header",
        ),
        Parameter::fixed(
            "pipelining",
            Kind::Choice(&["on", "off"]),
            "on",
            "on: the commands for the next recipient are sent with this one's message; off: each command waits for its \
             reply",
        ),
        Parameter::fixed("chunking", Kind::Choice(&["off", "on"]), "off", "on: mode=data sends with BDAT"),
        Parameter::fixed(
            "per_connection",
            Kind::Count { min: 1, max: 1_000_000_000 },
            "1000000000",
            "recipients per connection with grows=recipients; then the engine closes it and opens another",
        ),
        Parameter::fixed(
            "sync",
            Kind::Choice(&["never", "interval", "always"]),
            "never",
            "when the ledger is synced to the disk: interval: every second; always: before the engine waits again",
        ),
        Parameter::fixed(
            "idle",
            Kind::Choice(&["poll", "halt"]),
            "poll",
            "idle state of the CPUs of engine and sink. poll: busy SCHED_IDLE processes keep them from halting; halt: \
             they halt when idle",
        ),
    ];
    const VARIANTS: &'static [Variant] = &[
        Variant::full(&[("mode", "data")]),
        Variant::always(&[("grows", "recipients")]),
        Variant::always(&[("grows", "domains")]),
        Variant::full(&[("grows", "domains"), ("names", "on")]),
        Variant::full(&[("grows", "recipients"), ("names", "on")]),
        Variant::full(&[("grows", "recipients"), ("mode", "data")]),
        Variant::full(&[("grows", "recipients"), ("mode", "data"), ("chunking", "on")]),
        Variant::full(&[("grows", "recipients"), ("mode", "data"), ("pipelining", "off")]),
        Variant::full(&[("grows", "recipients"), ("mode", "data"), ("per_connection", "1")]),
        Variant::full(&[("grows", "recipients"), ("mode", "data"), ("sync", "always")]),
    ];
    const REPLAYS: &'static [ReplayCase] =
        &[ReplayCase::author("2001", 1, &[("n", "3000")]), ReplayCase::corrected(&[("n", "3000")])];
    const CAVEATS: &'static [&'static str] = &[
        "Engine and sink run on two processors of one machine. There is no network between them, and the kernel \
         receives each segment on the sender's processor.",
        "The sink accepts everything at once. Servers on the Internet answer late, refuse and limit: they then \
         determine the time per recipient, and more connections hide it. That is what the study of 2001 measured.",
        "recipient is the time of the slower of engine and sink: see the processor shares under Checks and facts.",
        "A batch of replies settles many recipients at once, and each counts with the mean of its batch: neighbouring \
         samples are not independent. Passes are.",
        "The engine writes its ledger to the run's scratch directory; with sync=never the disk is not waited for.",
    ];
    const SOURCE: &'static str = "J. Rothman and J. Buckman, Which OS is Fastest for High-Performance Network \
                                  Applications? (2001), MailEngine";

    fn axis(settings: &Settings) -> &'static str {
        match Grows::of(settings) {
            Grows::Connections => Self::AXIS,
            Grows::Recipients => "recipients",
            Grows::Domains => "domains",
        }
    }

    fn support(host: &Host, settings: &Settings) -> Support {
        if host.clock.unit != Unit::Ns {
            return Support::No("the sink needs real time and a separate processor".to_owned());
        }
        let grows_by_connections = Grows::of(settings) == Grows::Connections;
        if grows_by_connections && looks_up(settings) {
            return Support::No("with names=on each domain has its own connections; set grows=recipients".to_owned());
        }
        let limit = host.limits.get("RLIMIT_NOFILE").copied().unwrap_or(u64::MAX);
        let connections = if grows_by_connections { 0 } else { settings.count("connections") };
        if connections.saturating_add(OTHER_DESCRIPTORS) > limit {
            return Support::No(format!("{connections} connections are more than RLIMIT_NOFILE permits ({limit})"));
        }
        match loopback_works() {
            Ok(()) => Support::Yes,
            Err(error) => Support::No(format!("cannot connect over the loopback interface ({error})")),
        }
    }

    fn auto_n(host: &Host, settings: &Settings, study: Study) -> u64 {
        match (Grows::of(settings), study) {
            (Grows::Connections, Study::Full) => {
                host.limits.get("RLIMIT_NOFILE").map_or(19_000, |limit| (limit / 20 * 19).clamp(16, 19_000))
            }
            (Grows::Connections, _) => 800,
            (Grows::Recipients, Study::Full) => 200_000,
            (Grows::Domains, Study::Full) | (Grows::Recipients, _) => 20_000,
            (Grows::Domains, _) => u64::from(DOMAINS_OF_2001),
        }
    }

    fn annotations(_: &Host, settings: &Settings) -> Vec<Annotation> {
        let annotation = |(n, name): (u32, &str)| Annotation {
            name: name.to_owned(),
            n: f64::from(n),
            kind: AnnotationKind::Event,
            source: "Rothman and Buckman, 2001".to_owned(),
        };
        match Grows::of(settings) {
            Grows::Connections => OF_2001.map(annotation).to_vec(),
            Grows::Recipients => Vec::new(),
            Grows::Domains => vec![annotation((DOMAINS_OF_2001, "2001: the domains of the list"))],
        }
    }

    fn cost(settings: &Settings) -> Cost {
        let grows = Grows::of(settings);
        let (memory_bytes_each, descriptors_each) = if grows == Grows::Connections { (12_000, 1) } else { (0, 0) };
        Cost {
            memory_bytes_each,
            descriptors_each,
            memory_bytes: 96 << 20,
            disk_bytes: (1 << 20) + LINE_BYTES * settings.count("n") * grows.most_recipients_each(settings.count("n")),
            ..Cost::default()
        }
    }

    fn kept_files(_: &Settings) -> Option<String> {
        Some(LEDGER.to_owned())
    }

    fn uses_other_processors(_: &Settings) -> bool {
        true
    }

    fn step_us(_: &Settings) -> u64 {
        2_500
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        let (settings, own) = (context.settings, context.host.pinned_processor);
        let grows = Grows::of(settings);
        let mut receiver = Receiver::start(context, looks_up(settings).then(|| domains(context)))?;
        let delivery = delivery(context, &receiver)?;
        let mut run = Run::start(&delivery).map_err(stop)?;
        let polls = settings.is("idle", "poll");
        let processors = if polls { receiver.processor().into_iter().chain(own).collect() } else { Vec::new() };
        let idle = IdlePoll::start(processors);
        run.reset_on_close();
        if grows == Grows::Domains {
            run.use_domains(1);
        }
        match (grows, looks_up(settings)) {
            (Grows::Connections, _) => run.set_busy(0),
            // Connections come and go with their domains.
            (_, true) => {
                send(&mut run, 1)?;
            }
            (_, false) => work(&mut run, &receiver, settings.count("connections"), 0)?,
        }
        receiver.begin();
        Ok(Self {
            done_before: run.progress().recipients.done,
            run: Some(run),
            receiver: Some(receiver),
            mode: delivery.envelope.mode,
            grows,
            most: context.n,
            each: Each::default(),
            began_ns: monotonic_ns(),
            processor: own,
            idle,
        })
    }

    fn measured_processes(&self) -> Vec<u32> {
        self.receiver.as_ref().map(Receiver::processes).unwrap_or_default()
    }

    fn step(&mut self, n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let (Some(run), Some(receiver)) = (&mut self.run, &self.receiver) else { return Err(Stop::Enough) };
        let until = match self.grows {
            Grows::Connections => {
                work(run, receiver, n, (AHEAD + n / 8).min(self.most - n))?;
                run.progress().recipients.done + RECIPIENTS_EACH
            }
            Grows::Recipients => self.done_before + n,
            Grows::Domains => {
                run.use_domains(u32::try_from(n).unwrap_or(u32::MAX));
                self.done_before + n * RECIPIENTS_PER_DOMAIN
            }
        };
        // A batch has the recipients of several steps, and only the first of them waits.
        if let Some(each) = send(run, until)? {
            self.each = each;
        }
        timer.record_ns(RECIPIENT, self.each.elapsed_ns);
        timer.record_ns(PROCESSOR, self.each.processor_ns);
        Ok(())
    }

    fn check(&mut self, steps: u64, facts: &mut Facts) -> Result<(), Stop> {
        let (Some(run), Some(receiver)) = (self.run.take(), self.receiver.take()) else {
            return Err(Stop::Wrong("the pass was already checked".to_owned()));
        };
        let elapsed_ns = monotonic_ns() - self.began_ns;
        let done = run.progress().recipients.done - self.done_before;
        receiver.report(self.processor, done, facts);
        facts.text("idle_processors", self.idle.describe());
        facts.count("recipients_done", done);
        let per_second = done as f64 * 1e9 / elapsed_ns.max(1) as f64;
        facts.count("recipients_per_second", per_second.round() as u64);
        let outcome = run.finish().map_err(stop)?;
        facts.count("connections_greeted", outcome.connections);
        facts.count("connections_most", u64::from(outcome.most_open));
        facts.count("domains", outcome.domain_count);
        facts.number("sends_per_recipient", share(outcome.calls.0, outcome.recipients.done), FactUnit::Share);
        facts.number("receives_per_recipient", share(outcome.calls.1, outcome.recipients.done), FactUnit::Share);
        if let Some((reason, count)) = outcome.reasons.first().or(outcome.lost.first()) {
            return Err(Stop::Wrong(format!("the sink did not accept all mail: {count} times {reason}")));
        }
        let wanted = steps * self.grows.recipients_each();
        Stop::unless(done >= wanted, || format!("only {done} of {wanted} recipients are done"))?;
        let counters = receiver.end()?;
        let accepted = counters[if self.mode == Mode::Data { "messages" } else { "recipients" }].as_u64();
        Stop::unless(accepted == Some(outcome.recipients.done), || {
            format!("the engine counts {} recipients, and the sink {accepted:?}", outcome.recipients.done)
        })
    }
}

fn share(part: u64, whole: u64) -> f64 {
    (part as f64 / whole.max(1) as f64 * 1e3).round() / 1e3
}

fn looks_up(settings: &Settings) -> bool {
    settings.is("names", "on")
}

/// Returns the number of domains at the end of a pass.
fn domains(context: &Context) -> u64 {
    match Grows::of(context.settings) {
        Grows::Domains => context.n,
        _ => context.settings.count("domains"),
    }
}

/// Returns the delivery of a pass: an endless list of recipients, sent to the sink.
fn delivery(context: &Context, receiver: &Receiver) -> Result<Delivery, Stop> {
    let settings = context.settings;
    let io = |error: std::io::Error| Stop::io("write", &error);
    let message = context.scratch.join("message.eml");
    fs::write(&message, text(settings.bytes("message"))).map_err(io)?;
    let ledger = context.scratch.join(LEDGER);
    match fs::remove_file(&ledger) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io(error)),
        _ => {}
    }
    let mode = if settings.is("mode", "data") { Mode::Data } else { Mode::Rset };
    let sessions = u32::try_from(settings.count("connections")).unwrap_or(u32::MAX);
    let grows = Grows::of(settings);
    let by_connections = grows == Grows::Connections;
    let most = if by_connections { u32::try_from(context.n).unwrap_or(u32::MAX) } else { sessions };
    let domains = u32::try_from(domains(context)).unwrap_or(u32::MAX);
    let source = Source::Synthetic(Shape { recipients: u64::MAX, domains, zipf: 0.0, seed: context.seed });
    Ok(Delivery {
        message: Some(message),
        via: receiver.name_server().is_none().then(|| receiver.address().to_string()),
        name_server: receiver.name_server(),
        smtp_port: receiver.address().port(),
        sync: match settings.text("sync") {
            "always" => Sync::Always,
            "interval" => Sync::Interval(Duration::from_secs(1)),
            _ => Sync::Never,
        },
        envelope: Envelope {
            pipelining: settings.is("pipelining", "on"),
            chunking: settings.is("chunking", "on"),
            ..Envelope::new("sender@landau.test", mode)
        },
        limits: Limits {
            sessions: most,
            per_site: most,
            initial: most,
            feedback: Feedback::Inverse,
            backoff: Backoff { first: TIMEOUT, longest: TIMEOUT },
            attempts: 1,
            seed: context.seed,
        },
        active: if grows == Grows::Domains { (AHEAD_IN_DOMAINS + u64::from(most)) as usize } else { ACTIVE },
        per_connection: if by_connections { u64::MAX } else { settings.count("per_connection") },
        reuse_for: Duration::MAX,
        timeout: TIMEOUT,
        ..Delivery::new(source, ledger)
    })
}

/// Returns a message of a size, with CR LF at its line ends.
fn text(bytes: u64) -> Vec<u8> {
    const LINE: &[u8] = b"the quick brown fox jumps over the lazy dog, and nobody knows why it does\r\n";
    let mut text = b"From: sender@landau.test\r\nSubject: benchmark\r\n\r\n".to_vec();
    let rest = (bytes as usize).saturating_sub(text.len() + 2);
    text.extend(LINE.iter().cycle().take(rest / LINE.len() * LINE.len()));
    text.resize(text.len() + rest % LINE.len(), b'.');
    text.extend_from_slice(b"\r\n");
    text
}

/// Puts `connections` connections to work, and opens `ahead` more, which later steps need. Sends until enough
/// connections were greeted.
fn work(run: &mut Run, receiver: &Receiver, connections: u64, ahead: u64) -> Result<(), Stop> {
    if run.own_limit().is_none() {
        run.set_sessions(u32::try_from(connections + ahead).unwrap_or(u32::MAX));
    }
    let deadline_ns = monotonic_ns() + TIMEOUT.as_nanos() as u64;
    while u64::from(run.progress().greeted) < connections {
        let progress = run.progress();
        if let Some(error) = run.own_limit().filter(|_| u64::from(progress.open) < connections) {
            return Err(error.into());
        }
        if monotonic_ns() > deadline_ns {
            let (greeted, s) = (progress.greeted, TIMEOUT.as_secs());
            let reason = format!("{greeted} of {connections} connections were greeted within {s} s");
            return Err(if receiver.is_full() { FULL.into() } else { Stop::Wrong(reason) });
        }
        turn(run)?;
    }
    run.set_busy(u32::try_from(connections).unwrap_or(u32::MAX));
    Ok(())
}

/// Sends until `until` recipients are done. Returns the mean cost of the recipients of this batch; none if they are
/// done already.
#[inline(always)]
fn send(run: &mut Run, until: u64) -> Result<Option<Each>, Stop> {
    let before = run.progress().recipients.done;
    if before >= until {
        return Ok(None);
    }
    let (began_ns, used_ns) = (monotonic_ns(), thread_time_ns());
    let mut done = before;
    while done < until {
        turn(run)?;
        done = run.progress().recipients.done;
    }
    let (elapsed_ns, processor_ns) = (monotonic_ns() - began_ns, thread_time_ns() - used_ns);
    let count = done - before;
    Ok(Some(Each { elapsed_ns: elapsed_ns / count, processor_ns: processor_ns / count }))
}

fn turn(run: &mut Run) -> Result<(), Stop> {
    if run.turn().map_err(stop)? {
        return Ok(());
    }
    Err(Stop::Wrong("the delivery ended: the sink refused a recipient or all connections".to_owned()))
}

/// Returns the reason to stop a pass.
fn stop(error: landau_mail::Error) -> Stop {
    match error {
        landau_mail::Error::System(error) => Stop::Refused(error),
        other => Stop::Wrong(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pass with 1,000 connections once wrote 24 MB where 7.4 MB were reserved: on a small disk it failed half-way.
    /// The recipients are those of `landau run mail --set mail.mode=rset --set mail.grows=connections --set mail.n=N`.
    #[test]
    fn the_ledger_of_a_pass_fits_in_what_is_reserved() {
        let line = "{\"recipient\":667174,\"to\":\"u66718@d0005.example\",\"state\":\"accepted\",\
            \"at_ms\":1795365548700,\"code\":250,\"reply\":\"2.0.0 Ok\"}\n";
        assert!((100..=LINE_BYTES as usize).contains(&line.len()));
        for (n, recipients) in [(20, 1_054), (200, 20_197), (1_000, 215_467), (3_000, 667_175)] {
            let mut settings = Settings::of_study(Mail::PARAMETERS, Study::Quick);
            settings.set("grows", "connections");
            settings.set("n", &n.to_string());
            let (reserved, written) = (Mail::cost(&settings).disk_bytes, recipients * line.len() as u64);
            assert!(written <= reserved && reserved <= (2 << 20) + 4 * written, "n = {n}: {reserved} for {written}");
        }
    }

    #[test]
    fn a_message_has_its_size_and_whole_lines() {
        for bytes in [128, 2_048, 2_049, 100_000] {
            let text = text(bytes);
            assert_eq!(text.len() as u64, bytes);
            assert!(text.ends_with(b"\r\n"));
            assert!(landau_mail::Message::parse(&text, &[], None).is_ok());
        }
    }
}
