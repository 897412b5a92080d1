//! Parses claims.

use crate::cursor::Cursor;
use crate::{Assertion, Claim, Law, ParseError, Placed, Reference, Relation, Subject, Unit, WITHIN};

/// Parses the claim on one line; `line` is the number of the line, for the error.
pub fn parse(text: &str, line: usize) -> Result<Claim, ParseError> {
    let mut at = Cursor::new(text, line);
    let mut subject = subject(&mut at)?;
    let assertion = if at.takes(":") {
        assertion(&mut at, &mut subject)?
    } else if subject.unit.is_some() && at.takes("@") {
        cost_at(&mut at)?
    } else if subject.unit.is_some() {
        return Err(at.error("`:`, or `@` and a number of objects"));
    } else {
        return Err(at.error("`:` and an assertion"));
    };
    if at.is_at_end() { Ok(Claim { subject, assertion }) } else { Err(at.error("the end of the claim")) }
}

/// Parses claims, one per line. A `#` at the start of a line or after a space begins a comment. Returns every error.
pub fn parse_lines(text: &str) -> Result<Vec<Placed>, Vec<ParseError>> {
    let (mut claims, mut errors) = (Vec::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let text = without_comment(line);
        if text.trim().is_empty() {
            continue;
        }
        match parse(text, index + 1) {
            Ok(claim) => claims.push(Placed { line: index + 1, text: text.trim().to_owned(), claim }),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(claims) } else { Err(errors) }
}

fn without_comment(line: &str) -> &str {
    let mut before = ' ';
    for (place, letter) in line.char_indices() {
        if letter == '#' && before.is_whitespace() {
            return &line[..place];
        }
        before = letter;
    }
    line
}

/// Whether a character may be part of the name or value of a benchmark, phase or setting.
fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || "_-+=/,*".contains(letter)
}

fn subject(at: &mut Cursor<'_>) -> Result<Subject, ParseError> {
    let benchmark = at.run(|c| c.is_ascii_alphanumeric() || c == '_').to_owned();
    if benchmark.is_empty() {
        return Err(at.error("the name of a benchmark"));
    }
    let (mut words, mut unit) = (Vec::new(), None);
    // A unit ends the subject.
    while unit.is_none() && at.joins(".") {
        let before = at.place();
        match at.run(is_name) {
            "" => return Err(at.error("a phase, a setting or a unit")),
            "ns" => unit = Some(Unit::Ns),
            "instructions" => unit = Some(Unit::Instructions),
            word if word.starts_with('=') || word.ends_with('=') => {
                at.go_back(before);
                return Err(at.error("SETTING=VALUE"));
            }
            word => words.push(word.to_owned()),
        }
    }
    at.end_word();
    Ok(Subject { benchmark, words, unit })
}

/// Parses the part of `@900 < 2000` after the `@`.
fn cost_at(at: &mut Cursor<'_>) -> Result<Assertion, ParseError> {
    let n = at.n()?;
    let relation = relation(at).ok_or_else(|| at.error("`<`, `<=`, `>` or `>=`"))?;
    Ok(Assertion::Cost { relation, bound: at.number("a number")?, n })
}

fn assertion(at: &mut Cursor<'_>, subject: &mut Subject) -> Result<Assertion, ParseError> {
    if at.takes_word("no") {
        return nothing(at);
    }
    if at.takes_word("grows") {
        return growth(at);
    }
    if at.place().starts_with("O(") {
        return match law(at)? {
            Law::Constant => Ok(Assertion::Constant { within: within(at)?, to: range(at, "to")? }),
            law => Ok(Assertion::Follows { law, to: range(at, "to")? }),
        };
    }
    match relation(at) {
        Some(relation) => bound(at, relation, subject),
        None => Err(at.error("a law such as O(n), `grows`, `no`, or `<`, `<=`, `>` or `>=`")),
    }
}

/// Parses the part after `no`.
fn nothing(at: &mut Cursor<'_>) -> Result<Assertion, ParseError> {
    if at.takes_word("cliff") {
        return Ok(Assertion::NoCliff { below: range(at, "below")? });
    }
    if at.takes_word("limit") {
        return Ok(Assertion::NoLimit { below: range(at, "below")? });
    }
    if at.takes_word("recurring") {
        if !at.takes_word("outliers") {
            at.word("outlier")?;
        }
        return Ok(Assertion::NoRecurringOutlier { below: range(at, "below")? });
    }
    Err(at.error("`cliff`, `limit` or `recurring outlier`"))
}

/// Parses the part after `grows`.
fn growth(at: &mut Cursor<'_>) -> Result<Assertion, ParseError> {
    if at.takes_word("at") {
        at.word("most")?;
        return Ok(Assertion::AtMost { law: law(at)?, to: range(at, "to")? });
    }
    let relation =
        relation(at).ok_or_else(|| at.error("`at most` and a law, or `<`, `<=`, `>` or `>=` and a factor"))?;
    let factor = positive(at, "a factor such as 2x")?;
    if !times(at) {
        return Err(at.error("`x`"));
    }
    Ok(Assertion::Growth { relation, factor, to: range(at, "to")? })
}

/// Parses the part after a relation: a cost, or a factor of another curve.
fn bound(at: &mut Cursor<'_>, relation: Relation, subject: &mut Subject) -> Result<Assertion, ParseError> {
    let before = at.place();
    let number = at.number("a cost such as 2us, or a factor such as 1.1x")?;
    if times(at) {
        if number <= 0.0 {
            at.go_back(before);
            return Err(at.error("a factor above 0"));
        }
        let of = if at.takes_word("base") { Reference::Base } else { Reference::Subject(other(at)?) };
        at.word("at")?;
        return Ok(Assertion::Ratio { relation, factor: number, of, n: at.n()? });
    }
    let before = at.place();
    let (unit, factor) = match at.run(char::is_alphabetic) {
        "ns" => (Unit::Ns, 1.0),
        "us" | "µs" | "μs" => (Unit::Ns, 1e3),
        "ms" => (Unit::Ns, 1e6),
        "s" => (Unit::Ns, 1e9),
        "instruction" | "instructions" => (Unit::Instructions, 1.0),
        _ => {
            at.go_back(before);
            // The unit of the subject applies.
            if subject.unit.is_some() && at.takes_word("at") {
                return Ok(Assertion::Cost { relation, bound: number, n: at.n()? });
            }
            return Err(at.error("`ns`, `us`, `ms`, `s`, `instructions`, or `x` and a curve"));
        }
    };
    at.end_word();
    if subject.unit.is_some_and(|own| own != unit) {
        at.go_back(before);
        return Err(at.error("the unit of the subject"));
    }
    subject.unit = Some(unit);
    at.word("at")?;
    Ok(Assertion::Cost { relation, bound: number * factor, n: at.n()? })
}

/// Parses the denominator of a ratio.
fn other(at: &mut Cursor<'_>) -> Result<Subject, ParseError> {
    let before = at.place();
    match subject(at) {
        Ok(found) if found.unit.is_none() && found.benchmark != "at" => Ok(found),
        _ => {
            at.go_back(before);
            Err(at.error("`base` or another curve, such as fork.static"))
        }
    }
}

fn times(at: &mut Cursor<'_>) -> bool {
    at.takes_word("x") || at.takes("×")
}

fn relation(at: &mut Cursor<'_>) -> Option<Relation> {
    // Longer signs come first.
    let signs = [("<=", Relation::AtMost), (">=", Relation::AtLeast), ("<", Relation::Below), (">", Relation::Above)];
    signs.into_iter().find(|(sign, _)| at.takes(sign)).map(|(_, relation)| relation)
}

fn positive(at: &mut Cursor<'_>, expected: &str) -> Result<f64, ParseError> {
    let before = at.place();
    let number = at.number(expected)?;
    if number > 0.0 {
        return Ok(number);
    }
    at.go_back(before);
    Err(at.error(&format!("{expected}, above 0")))
}

/// Parses `within 10%`, or returns the default.
fn within(at: &mut Cursor<'_>) -> Result<f64, ParseError> {
    const EXPECTED: &str = "a percentage above 0% and below 100%";
    if !at.takes_word("within") {
        return Ok(WITHIN);
    }
    let before = at.place();
    let percent = at.number(EXPECTED)?;
    if at.takes("%") && percent > 0.0 && percent < 100.0 {
        return Ok(percent / 100.0);
    }
    at.go_back(before);
    Err(at.error(EXPECTED))
}

/// Parses `to 10000` or `below 10000`, if it is here.
fn range(at: &mut Cursor<'_>, word: &str) -> Result<Option<u64>, ParseError> {
    if at.takes_word(word) { at.n().map(Some) } else { Ok(None) }
}

/// The spellings of the laws, without spaces.
const LAWS: [(&str, Law); 16] = [
    ("1", Law::Constant),
    ("logn", Law::Logarithmic),
    ("log(n)", Law::Logarithmic),
    ("√n", Law::Root),
    ("sqrtn", Law::Root),
    ("sqrt(n)", Law::Root),
    ("n", Law::Linear),
    ("nlogn", Law::Linearithmic),
    ("nlog(n)", Law::Linearithmic),
    ("n*logn", Law::Linearithmic),
    ("n√n", Law::Power),
    ("nsqrtn", Law::Power),
    ("nsqrt(n)", Law::Power),
    ("n^1.5", Law::Power),
    ("n²", Law::Quadratic),
    ("n^2", Law::Quadratic),
];

fn law(at: &mut Cursor<'_>) -> Result<Law, ParseError> {
    const EXPECTED: &str = "O(1), O(log n), O(sqrt n), O(n), O(n log n), O(n sqrt n) or O(n^2)";
    let before = at.place();
    if at.takes("O(") {
        let mut depth = 1_usize;
        let (mut inside, mut is_closed) = (String::new(), false);
        // The longest spelling has eight characters; there may be spaces between them.
        for letter in at.place().chars().take(32) {
            match letter {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            is_closed = depth == 0;
            if is_closed {
                break;
            }
            inside.push(letter);
        }
        let plain: String = inside.chars().filter(|c| !c.is_whitespace()).collect();
        if let Some((_, law)) = LAWS.iter().find(|(spelling, _)| is_closed && *spelling == plain) {
            at.takes(&format!("{inside})"));
            return Ok(*law);
        }
        at.go_back(before);
    }
    Err(at.error(EXPECTED))
}
