//! Development: `calibrate FILTER TRIALS [--again] [--wrong]`.
use landau_stats::confusion::{Plan, Score, Tally, calibrate};
fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let filter = words.first().cloned().unwrap_or_default();
    let trials = words.get(1).and_then(|x| x.parse().ok()).unwrap_or(20);
    let has = |w: &str| words.iter().any(|x| x == w);
    let plan = Plan { trials, seed: if has("--seed2") { 777 } else { 2026 }, passes: 5, more_passes: if has("--again") { 4 } else { 0 } };
    let start = std::time::Instant::now();
    let rows = calibrate(&plan, &filter);
    let head = "                                        | right named alike open wrong | flat small mat lim unres | cover fcliff fchg | turned promised kept";
    println!("{head}");
    let show = |name: &str, t: &Tally| {
        let p = |x: f64| format!("{:5.1}", x * 100.0);
        let c = |i: usize| format!("{:4.0}", t.classes[i] as f64 * 100.0 / t.trials as f64);
        println!(
            "{name:39} | {} {} {} {} {} | {} {} {} {} {} | {} {} {} | {}/{} {} {}",
            p(t.share(Score::Right)), p(t.share(Score::Named)), p(t.share(Score::Alike)), p(t.share(Score::Open)), p(t.share(Score::Wrong)),
            c(0), c(1), c(2), c(3), c(4), p(t.coverage()), t.false_cliffs, t.false_changes, t.turned, t.again, t.promised, t.kept
        );
    };
    let mut groups: std::collections::BTreeMap<&str, Tally> = Default::default();
    let mut all = Tally::default();
    for row in &rows {
        groups.entry(row.group).or_default().add(&row.tally);
        all.add(&row.tally);
        if !has("--groups") || row.tally.share(Score::Wrong) > 0.03 || row.tally.good() < 0.5 {
            show(&format!("{} {} {} {}", row.group, row.detail, row.calls, row.noise), &row.tally);
            if has("--wrong") {
                for (text, count) in &row.tally.wrong { println!("        {count} {text}"); }
            }
        }
    }
    println!("{head}");
    for (name, tally) in &groups { show(name, tally); }
    show("all", &all);
    println!("{:.1} s", start.elapsed().as_secs_f64());
}
