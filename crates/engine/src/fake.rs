//! A benchmark that is never run, for tests of planning, which need only its description.

use crate::{
    Benchmark, Context, Cost, Entry, Facts, Host, Kind, Parameter, Phase, ReplayCase, Settings, Stop, Support, Timer,
    Variant,
};

pub(crate) struct Fake;

impl Benchmark for Fake {
    const NAME: &'static str = "fake";
    const ABOUT: &'static str = "";
    const AXIS: &'static str = "things";
    const PHASES: &'static [Phase] = &[Phase::up("make", "")];
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::steps("10", "100", "1000", ""),
        Parameter::fixed("colour", Kind::Choice(&["red", "blue"]), "red", ""),
    ];
    const VARIANTS: &'static [Variant] =
        &[Variant::always(&[("colour", "blue")]), Variant::full(&[("colour", "blue"), ("n", "7")])];
    const REPLAYS: &'static [ReplayCase] = &[
        ReplayCase::author("2003", 3, &[("n", "30")]),
        ReplayCase::author("2001", 1, &[("colour", "blue"), ("n", "40")]),
        ReplayCase::corrected(&[]),
        ReplayCase::corrected(&[("colour", "blue")]),
    ];
    const CAVEATS: &'static [&'static str] = &[];
    const SOURCE: &'static str = "";

    fn most_passes(settings: &Settings) -> Option<u32> {
        (settings.count("n") >= 5_000).then_some(5)
    }

    fn support(_: &Host, settings: &Settings) -> Support {
        Support::when(settings.count("n") != 7, "seven is not supported")
    }

    fn cost(_: &Settings) -> Cost {
        Cost { processes_each: 1, ..Cost::default() }
    }

    fn setup(_: &Context) -> Result<Self, Stop> {
        Ok(Fake)
    }

    fn step(&mut self, _: u64, _: &mut Timer) -> Result<(), Stop> {
        Ok(())
    }

    fn check(&mut self, _: u64, _: &mut Facts) -> Result<(), Stop> {
        Ok(())
    }
}

pub(crate) const REGISTRY: &[Entry] = &[Entry::of::<Fake>()];
