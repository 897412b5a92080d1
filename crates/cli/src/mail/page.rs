//! `landau mail --report`: the page of a delivery.

use landau_mail::{DomainRow, Histogram, Outcome, Tally};
use landau_report::delivery::{Delivery, Domain, Phase, Sample};

/// Returns the page of a delivery.
pub(crate) fn page(outcome: &Outcome) -> String {
    let delivery = Delivery {
        success: outcome.mode.success().to_owned(),
        recipients: numbers(&outcome.recipients),
        done_now: outcome.done_now(),
        elapsed_ns: outcome.elapsed_ns,
        cpu_ns_each: outcome.cpu_ns_each(),
        connections: (outcome.connections, u64::from(outcome.most_open)),
        sent_bytes: outcome.sent_bytes,
        samples: samples(outcome),
        phases: outcome.phases.all().into_iter().map(phase).collect(),
        domains: outcome.domains.iter().map(domain).collect(),
        domain_count: outcome.domain_count,
        reasons: outcome.reasons.clone(),
        lost: outcome.lost.clone(),
        notes: outcome.notes.clone(),
    };
    delivery.page()
}

/// Returns the progress of this run over time, without the recipients that earlier runs had completed. The last sample
/// is the end of the run.
fn samples(outcome: &Outcome) -> Vec<Sample> {
    let timeline = &outcome.timeline;
    let points = timeline.done.iter().zip(&timeline.open).zip(1..);
    let mut samples: Vec<Sample> = points
        .map(|((done, open), number)| Sample {
            at_ns: number * timeline.interval_ns,
            done: done.saturating_sub(outcome.earlier.done),
            open: u64::from(*open),
        })
        .take_while(|sample| sample.at_ns < outcome.elapsed_ns)
        .collect();
    samples.push(Sample { at_ns: outcome.elapsed_ns, done: outcome.done_now(), open: 0 });
    samples
}

fn numbers(tally: &Tally) -> [u64; 4] {
    [tally.done, tally.deferred, tally.failed, tally.left]
}

fn phase((name, times): (&str, &Histogram)) -> Phase {
    Phase {
        name: name.to_owned(),
        count: times.count(),
        quantiles_ns: [times.quantile_ns(0.5), times.quantile_ns(0.9), times.quantile_ns(0.99), times.max_ns()],
    }
}

fn domain(row: &DomainRow) -> Domain {
    Domain { name: row.domain.clone(), recipients: numbers(&row.recipients), own_ns: row.own_ns() }
}
