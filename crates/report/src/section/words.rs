//! The terms of the page with their meanings, folded; each term is explained once.

use crate::page::View;
use crate::text::{self, CLASSES};
use landau_record::schema::Unit;
use maud::{Markup, html};

/// Terms that are not outcomes.
const TERMS: [(&str, &str); 11] = [
    ("n", "the number of objects that exist when a call is timed"),
    ("pass", "one execution in a fresh process; passes are the replicates"),
    ("phase", "one timed call of a benchmark; ↓ marks a phase of the destruction, where n falls"),
    (
        "cost at small n, at large n",
        "the median of the calls around the first and the last point; first calls of a process are not judged",
    ),
    (
        "growth",
        "the cost at the largest judged n over that at the smallest, by the fitted law; with a cliff: before it",
    ),
    (
        "law",
        "how the cost grows with n: O(1), O(log n), O(n) …; in O(1/(1 − n/C)), C is the n at which it would be \
         infinite",
    ),
    ("CI", "confidence interval: of the growth at 90%, of a cost at 95%"),
    ("recurring outlier", "a single expensive call at the same n in most passes, such as a table that doubles"),
    (
        "small outliers",
        "recurring outliers that mostly cost less than ten times as much as the other calls, such as those that need a \
         new page of a slab",
    ),
    (
        "n + 3 = 256",
        "a table of 256 descriptors is full or enlarged; the 3 depends on the descriptors that are open besides the \
         objects, and objects of two descriptors fill the table at n = 128",
    ),
    ("bimodal", "the cost has two separate values"),
];

/// Renders the list of terms, closed at first.
pub(crate) fn render(view: &View<'_>) -> Markup {
    let is_exact = view.unit() == crate::quantity::Unit::Instructions;
    // Counted costs have no intervals.
    let terms = TERMS.iter().filter(|(term, _)| !(is_exact && *term == "CI"));
    html! {
        details #words.words {
            summary { "Glossary" }
            dl {
                @for class in CLASSES {
                    dt { span.dot.(text::class_word(class)) aria-hidden="true" {} (text::class_name(class)) }
                    dd { (text::class_about(class, is_exact)) "." }
                }
                @for (term, meaning) in terms { dt { (term) } dd { (meaning) "." } }
            }
        } "\n"
        (unit_note(view))
    }
}

/// Renders a note about the unit of costs that are not times.
fn unit_note(view: &View<'_>) -> Markup {
    match view.base().map(|base| base.record.unit()) {
        Some(Unit::Instructions) => html! {
            p.note.unit {
                b { "Every cost is a number of instructions, counted exactly by an emulator, not time. " }
                "It shows how long the path through the kernel is and how it grows, identically on every host. It does \
                 not include cache misses, page walks, contention or a second processor. Fewer instructions do not \
                 imply a faster call."
            }
        },
        Some(Unit::EmulatedNs) => html! {
            p.note.unit {
                b { "No timing. " }
                "An emulator measured this with its own clock. The values show that calls work and where limits are, \
                 not what anything costs. Do not compare them."
            }
        },
        _ => html! {},
    }
}
