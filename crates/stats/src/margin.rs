//! The position of the interval of a growth relative to the margin of equivalence.
//!
//! The regions overlap, so that every growth is well inside one of them: the margin itself is in the middle of the
//! small changes. If the regions only touched, no number of passes would resolve a growth at an end of the margin.

use crate::{Estimate, Options};

/// The place of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Above 1 + δ.
    Above,
    /// Below 1 − δ.
    Below,
    /// A certain change of δ/2 to 3δ/2.
    Small,
    /// Within δ.
    Inside,
    /// Inside none of these.
    Open,
}

/// The half width of the interval of a growth between runs, in standard deviations: 90%.
const BETWEEN_RUNS: f64 = 1.645;

/// Returns the place of an interval. If all of it is within δ, a certain change takes precedence if the next run of the
/// machine would show it too.
pub(crate) fn place(growth: &Estimate, options: &Options) -> Place {
    let (least, most) = options.small_change();
    let other_run = (BETWEEN_RUNS * options.change_between_runs).exp();
    let is_inside = growth.low >= 1.0 - options.delta && growth.high <= 1.0 + options.delta;
    let recurs = growth.low / other_run > 1.0 + least || growth.high * other_run < 1.0 - least;
    match () {
        () if growth.low > 1.0 + options.delta => Place::Above,
        () if growth.high < 1.0 - options.delta => Place::Below,
        () if is_inside && !recurs => Place::Inside,
        () if growth.low > 1.0 + least && growth.high < 1.0 + most => Place::Small,
        () if growth.high < 1.0 - least && growth.low > 1.0 - most => Place::Small,
        () if is_inside => Place::Inside,
        () => Place::Open,
    }
}

/// Returns the half width, in logarithms, below which an interval around this growth is not open.
pub(crate) fn room(growth: f64, options: &Options) -> f64 {
    let (least, most) = options.small_change();
    // Distances to the ends of a region; negative outside it.
    let within = |low: f64, high: f64| (growth - (1.0 + low).ln()).min((1.0 + high).ln() - growth);
    let regions = [
        growth - options.delta.ln_1p(),
        (1.0 - options.delta).ln() - growth,
        within(least, most),
        within(-most, -least),
        within(-options.delta, options.delta),
    ];
    regions.into_iter().fold(f64::MIN, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(log: f64, half: f64) -> Estimate {
        Estimate { value: log, low: log - half, high: log + half }.map(f64::exp)
    }

    #[test]
    fn each_interval_has_its_place() {
        let of = |low, high| place(&Estimate { value: f64::midpoint(low, high), low, high }, &Options::default());
        assert_eq!([of(1.11, 1.5), of(0.5, 0.89)], [Place::Above, Place::Below]);
        assert_eq!([of(0.97, 1.03), of(0.91, 0.97), of(1.0, 1.1)], [Place::Inside; 3]);
        // Within δ, and on both sides of its end.
        assert_eq!([of(0.91, 0.94), of(0.88, 0.94), of(1.06, 1.14)], [Place::Small; 3]);
        assert_eq!([of(0.84, 0.94), of(0.88, 0.96), of(0.85, 1.2), of(1.04, 1.11)], [Place::Open; 4]);
    }

    /// Guards against a small change that one run reports as certain and the next does not.
    #[test]
    fn a_change_within_the_margin_must_exceed_the_differences_between_runs() {
        let of = |low, high, change_between_runs| {
            let options = Options { change_between_runs, ..Options::default() };
            place(&Estimate { value: f64::midpoint(low, high), low, high }, &options)
        };
        let between = [0.0, 0.01, 0.03];
        assert_eq!(between.map(|between| of(0.91, 0.93, between)), [Place::Small, Place::Small, Place::Inside]);
        assert_eq!(between.map(|between| of(1.06, 1.09, between)), [Place::Small, Place::Inside, Place::Inside]);
        // Beyond δ it is reported whatever other runs show, because no other outcome applies.
        assert_eq!(between.map(|between| of(0.88, 0.93, between)), [Place::Small; 3]);
        assert_eq!(between.map(|between| of(1.12, 1.2, between)), [Place::Above; 3]);
    }

    /// Guards against a growth that cannot be resolved by any number of passes.
    #[test]
    fn a_narrow_interval_is_resolved_wherever_it_lies() {
        let options = Options::default();
        for i in -400..400 {
            let log = 0.001 * f64::from(i);
            let room = room(log, &options);
            assert!(room > options.delta / 5.0, "{log}: {room}");
            assert_ne!(place(&around(log, 0.999 * room), &options), Place::Open, "{log}: {room}");
            assert_eq!(place(&around(log, 1.001 * room), &options), Place::Open, "{log}: {room}");
        }
    }

    /// Guards against an outcome that further passes retract: an interval inside another never contradicts it.
    #[test]
    fn narrower_intervals_take_nothing_back() {
        for between in [0.0, 0.02] {
            takes_nothing_back(&Options { change_between_runs: between, ..Options::default() });
        }
    }

    fn takes_nothing_back(options: &Options) {
        let ends: Vec<f64> = (0..60).map(|i| 0.7 + 0.01 * f64::from(i) + 0.003).collect();
        for (i, low) in ends.iter().enumerate() {
            for high in &ends[i..] {
                let of = |low: f64, high: f64| place(&Estimate { value: low, low, high }, options);
                let outer = of(*low, *high);
                for inner in ends[i..].iter().filter(|end| *end <= high).map(|end| of(*low, *end)) {
                    let may_follow: &[Place] = match outer {
                        Place::Above => &[Place::Above],
                        Place::Below => &[Place::Below],
                        // A narrower interval shows on which side of the margin the change is.
                        Place::Small if options.change_between_runs > 0.0 => {
                            &[Place::Small, Place::Inside, Place::Above, Place::Below]
                        }
                        Place::Small => &[Place::Small, Place::Above, Place::Below],
                        Place::Inside => &[Place::Inside, Place::Small],
                        Place::Open => continue,
                    };
                    assert!(may_follow.contains(&inner), "{low} to {high}: {outer:?}, then {inner:?}");
                }
            }
        }
    }
}
