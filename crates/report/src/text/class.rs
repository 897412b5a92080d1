//! The five classes of outcomes shown to a reader: name, meaning and sign.

use landau_stats::{Class, Judgement, Outcome, Verdict};

/// Every class, in the order of legends and of sorting.
pub(crate) const CLASSES: [Class; 5] = [Class::Limit, Class::Material, Class::Unresolved, Class::Small, Class::Flat];

/// Returns the name of a class.
pub fn class_name(class: Class) -> &'static str {
    match class {
        Class::Flat => "flat",
        Class::Small => "small change",
        Class::Material => "grows, falls or varies",
        Class::Limit => "cliff",
        Class::Unresolved => "not resolved",
    }
}

/// Returns a class's name in one word for scripts and style sheets.
pub(crate) fn class_word(class: Class) -> &'static str {
    match class {
        Class::Flat => "flat",
        Class::Small => "small",
        Class::Material => "material",
        Class::Limit => "limit",
        Class::Unresolved => "unresolved",
    }
}

/// Returns what a class requires, as a sentence without a full stop. Counted costs have no intervals.
pub(crate) fn class_about(class: Class, is_exact: bool) -> &'static str {
    match class {
        Class::Flat if is_exact => {
            "the cost at every n is within 10% of the middle between the lowest and the highest, and that at large n \
             within 10% of that at small n"
        }
        Class::Flat => {
            "the growth from small to large n is shown to be within 10% (its whole 90% interval is), and no eighth of \
             the range leaves the mean cost by more than 10%"
        }
        Class::Small => "the cost is shown to change with n by 5% to 15%; whether by more than 10% is not shown",
        Class::Material => "the cost is shown to change by more than 10%, by a named law or by no simple one",
        Class::Limit => {
            "the cost jumps abruptly to a multiple and stays there; × beside a cliff is the cost after it relative to \
             that at small n; the growth in the details is that before it"
        }
        Class::Unresolved => "these passes show none of the other outcomes; more passes may",
    }
}

/// Returns the sign of a verdict, which distinguishes the classes without colour.
pub(crate) fn glyph(verdict: &Verdict) -> &'static str {
    match (verdict.class(), &verdict.all.outcome) {
        (Class::Limit, _) => "⌈",
        (_, Outcome::Flat { .. }) => "→",
        (_, Outcome::Small) => "≈",
        (_, Outcome::Grows { .. }) => "↗",
        (_, Outcome::Falls) => "↘",
        (_, Outcome::Varies) => "∿",
        (_, Outcome::Unresolved { .. }) => "?",
    }
}

/// Returns the outcome of a judgement in one or two words: "grows", "cliff".
pub(crate) fn outcome_word(judged: &Judgement) -> &'static str {
    if !judged.cliffs.is_empty() {
        return "cliff";
    }
    word_of(&judged.outcome)
}

/// Returns an outcome in one or two words.
pub(crate) fn word_of(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Flat { .. } => "flat",
        Outcome::Small => "small change",
        Outcome::Grows { .. } => "grows",
        Outcome::Falls => "falls",
        Outcome::Varies => "varies",
        Outcome::Unresolved { .. } => "not resolved",
    }
}

/// The signs with their meaning, for legends.
pub(crate) const SIGNS: [(&str, &str); 7] = [
    ("⌈", "cliff"),
    ("↗", "grows"),
    ("↘", "falls"),
    ("∿", "varies"),
    ("?", "not resolved"),
    ("≈", "changes by 5% to 15%"),
    ("→", "flat"),
];
