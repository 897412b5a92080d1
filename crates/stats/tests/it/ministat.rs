//! Comparisons with the answers of `ministat` (P.-H. Kamp, FreeBSD), which tests whether the means of two samples
//! differ: Student's t with the pooled variance, at 95%. Its arithmetic is implemented here.

use landau_stats::{Change, Curve, Options, Pass, compare};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Number of calls of a pass. All have the same cost, so that a pass is one value of a sample.
const CALLS: u32 = 60;

/// Returns whether ministat proves a difference.
fn ministat(a: &[f64], b: &[f64]) -> bool {
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    let squares = |x: &[f64]| x.iter().map(|value| (value - mean(x)).powi(2)).sum::<f64>();
    let freedom = (a.len() + b.len() - 2) as f64;
    let pooled = ((squares(a) + squares(b)) / freedom).sqrt();
    let error = pooled * (1.0 / a.len() as f64 + 1.0 / b.len() as f64).sqrt();
    let t = StudentsT::new(0.0, 1.0, freedom).expect("degrees of freedom above 0").inverse_cdf(0.975);
    (mean(b) - mean(a)).abs() > t * error
}

fn curve(sample: &[f64]) -> Curve {
    let pass = |value: &f64| Pass {
        n: (1..=CALLS).collect(),
        costs: vec![*value as u64; CALLS as usize],
        clean: vec![true; CALLS as usize],
    };
    Curve { passes: sample.iter().map(pass).collect(), ..Curve::default() }
}

fn landau(a: &[f64], b: &[f64], between_runs: f64) -> bool {
    let options = Options { between_runs, smallest_effect: 0.0, ..Options::default() };
    compare(&curve(a), &curve(b), &options).change != Change::NoDifferenceProven
}

/// A linear congruential generator (Knuth's MMIX) and the sum of twelve uniform numbers: good enough for samples.
struct Normal(u64);

impl Normal {
    fn next(&mut self) -> f64 {
        let mut uniform = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1_u64 << 53) as f64
        };
        (0..12).map(|_| uniform()).sum::<f64>() - 6.0
    }
}

/// Number of pairs of samples of each kind.
const PAIRS: usize = 50;

/// Compares 50 pairs of samples of `passes` values of about 1 ms, the second one more expensive by `shift`. Returns how
/// often both show a difference, neither does, only ministat, and only Landau.
fn answers(passes: usize, spreads: [f64; 2], shift: f64, between_runs: f64) -> [usize; 4] {
    let mut random = Normal(passes as u64 + (1e6 * (shift + 10.0 * spreads[0] + 100.0 * spreads[1])) as u64);
    let mut counts = [0; 4];
    for _ in 0..PAIRS {
        let mut sample = |spread: f64, factor: f64| -> Vec<f64> {
            (0..passes).map(|_| (1e6 * factor * (1.0 + spread * random.next())).round()).collect()
        };
        let (a, b) = (sample(spreads[0], 1.0), sample(spreads[1], 1.0 + shift));
        let theirs = ministat(&a, &b);
        counts[match (theirs, landau(&a, &b, between_runs)) {
            (true, true) => 0,
            (false, false) => 1,
            (true, false) => 2,
            (false, true) => 3,
        }] += 1;
    }
    counts
}

/// Checks the figures of METHODOLOGY.md. For the same question (one comparison, without an allowance for differences
/// between runs) five passes give nearly the same answers; Welch's test has fewer degrees of freedom. From eight passes
/// on the mean is trimmed, and with differences between runs a small difference is not shown.
#[test]
fn ministat_and_landau_agree_where_their_question_is_the_same() {
    let mut agreeing = [0, 0];
    for shift in [0.0, 0.03, 0.05, 0.10] {
        for (passes, spreads, between_runs) in
            [(5, [0.02, 0.02], 0.0), (9, [0.02, 0.02], 0.0), (5, [0.005, 0.05], 0.0), (5, [0.02, 0.02], 0.02)]
        {
            let counts = answers(passes, spreads, shift, between_runs);
            let [both, neither, theirs, ours] = counts;
            println!(
                "{passes} passes, spread {spreads:?}, +{}%, between runs {between_runs}: both {both}, \
                 neither {neither}, only ministat {theirs}, only Landau {ours}",
                100.0 * shift
            );
            if passes == 5 && between_runs < 1e-9 && (spreads[0] - spreads[1]).abs() < 1e-9 {
                agreeing[0] += both + neither;
                agreeing[1] += PAIRS;
            }
            // With samples of equal size, Welch's test has the error of the pooled variance, and at most its degrees of
            // freedom.
            assert!(ours == 0 || passes > 5, "a wider interval shows more");
        }
    }
    println!("the same question: {} of {} answers agree", agreeing[0], agreeing[1]);
    assert!(agreeing[0] * 100 >= 95 * agreeing[1], "{agreeing:?}");
}

/// By hand: the means of 1, 2, 3 and 4, 5, 6 differ by 3, the pooled deviation is 1, and t(0.975, 4) · √(2/3) = 2.27.
#[test]
fn the_arithmetic_is_ministats() {
    assert!(ministat(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]));
    assert!(!ministat(&[1.0, 2.0, 3.0], &[3.2, 4.2, 5.2]) && ministat(&[1.0, 2.0, 3.0], &[3.3, 4.3, 5.3]));
}
