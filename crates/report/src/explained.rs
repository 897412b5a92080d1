//! Where a call's instructions go, in words and as a table: what `landau explain` prints and the page shows.

use crate::quantity::{count, percent};
use crate::table::Layout;
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table};
use landau_record::schema::{Case, Explanation, FunctionCost};

/// A function that carries less of the growth than this, and less of a call, is not shown by itself.
const SHOWN: f64 = 0.005;

/// Functions that are shown by themselves at the most.
const MOST: usize = 25;

/// How far the functions' growth may be from the measured one.
pub const TOLERANCE: f64 = 0.01;

/// The functions that are worth a row, and what the others come to.
pub(crate) struct Shown<'a> {
    pub(crate) functions: Vec<&'a FunctionCost>,
    /// The rest: how many, their instructions at each size, their share.
    pub(crate) rest: (usize, Vec<u64>, f64),
}

impl<'a> Shown<'a> {
    pub(crate) fn of(explanation: &'a Explanation) -> Self {
        let total = explanation.counted_instructions.last().copied().unwrap_or(0) as f64;
        let grows = explanation.growth() != 0;
        let last = |function: &FunctionCost| function.instructions.last().copied().unwrap_or(0) as f64;
        let weight =
            |function: &FunctionCost| if grows { function.share.abs() } else { last(function) / total.max(1.0) };
        let mut functions: Vec<&FunctionCost> =
            explanation.functions.iter().filter(|function| weight(function) >= SHOWN).collect();
        if !grows {
            functions.sort_by(|a, b| last(b).total_cmp(&last(a)));
        }
        functions.truncate(MOST);
        let is_shown = |name: &str| functions.iter().any(|function| function.name == name);
        let mut rest = (0, vec![0; explanation.at.len()], 0.0);
        for function in explanation.functions.iter().filter(|function| !is_shown(&function.name)) {
            rest.0 += 1;
            rest.2 += function.share;
            for (sum, own) in rest.1.iter_mut().zip(&function.instructions) {
                *sum += own;
            }
        }
        Self { functions, rest }
    }
}

/// What one object of an axis is called: "watched descriptors" are counted by the "watched descriptor". Only the first
/// plural is turned: "descriptors in use" by the "descriptor in use".
pub fn one_of(axis: &str) -> String {
    let mut is_turned = false;
    let words = axis.split(' ').map(|word| {
        let bare = word.trim_end_matches(',');
        let single = match bare {
            "children" => "child".to_owned(),
            "processes" | "addresses" => bare.trim_end_matches("es").to_owned(),
            _ if bare.ends_with("ies") => format!("{}y", &bare[..bare.len() - 3]),
            _ if bare.len() > 3 && bare.ends_with('s') && !bare.ends_with("ss") => bare[..bare.len() - 1].to_owned(),
            _ => return word.to_owned(),
        };
        if std::mem::replace(&mut is_turned, true) { word.to_owned() } else { single }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Where a reader finds a function's source: in the public cross-reference of the kernel, at that version.
pub fn source_of(function: &FunctionCost, version: &str) -> Option<String> {
    // `.constprop.0`, `.isra.0` and the like are the compiler's.
    let name = function.name.split('.').next().unwrap_or_default();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then(|| format!("https://elixir.bootlin.com/linux/{version}/A/ident/{name}"))
}

/// What a function does to the curve: "44.0 instructions of `pipe_poll` per watched descriptor".
pub fn words(function: &FunctionCost, axis: &str) -> String {
    let name = &function.name;
    let first = function.instructions.first().copied().unwrap_or(0) as f64;
    let last = function.instructions.last().copied().unwrap_or(0) as f64;
    if function.growth() == 0 {
        format!("{} instructions of {name} at any size", count(last))
    } else if function.is_linear() {
        format!("{:.1} instructions of {name} per {}", function.per_object_instructions, one_of(axis))
    } else {
        let half = count(function.half_at as f64);
        format!("{name} goes from {} to {} instructions, half of it by n = {half}", count(first), count(last))
    }
}

/// Whether the functions' growth adds up to the measured one, with the figures.
pub fn sum(explanation: &Explanation) -> String {
    let (growth, explained) = (explanation.growth(), explanation.explained());
    let part = if growth == 0 { String::new() } else { format!(", {}", percent(explained as f64 / growth as f64)) };
    let [least, most] = explanation.overhead_instructions;
    let beside = if least == most { least.to_string() } else { format!("{least} to {most}") };
    format!(
        "measured growth {growth} instructions; sum over {} functions {explained}{part}; in each call {beside} more \
         are counted than its sample has, for the marks stand around the readings of the clock",
        explanation.functions.len()
    )
}

/// The head of an explanation: what, and how it grows.
pub fn head(explanation: &Explanation, case: &Case) -> String {
    let at = |index: Option<usize>| index.map_or("?".to_owned(), |index| count(explanation.at[index] as f64));
    let cost = |value: Option<&u64>| value.map_or("?".to_owned(), |value| count(*value as f64));
    let samples = &explanation.sample_instructions;
    format!(
        "{}, {}, Linux {}: {} instructions at n = {} and {} at n = {} ({})",
        case.label,
        explanation.phase,
        explanation.source,
        cost(samples.first()),
        at((!explanation.at.is_empty()).then_some(0)),
        cost(samples.last()),
        at(explanation.at.len().checked_sub(1)),
        case.axis
    )
}

/// The whole as text for a terminal.
pub fn render(explanation: &Explanation, case: &Case, layout: Layout) -> String {
    let shown = Shown::of(explanation);
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(layout.width);
    if !layout.color {
        table.force_no_tty();
    }
    let number = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let bold = |text: &str| if layout.color { Cell::new(text).add_attribute(Attribute::Bold) } else { Cell::new(text) };
    let mut header = vec![bold("function"), bold("share")];
    header.extend(explanation.at.iter().map(|n| bold(&format!("n = {}", count(*n as f64)))));
    header.extend([bold("each"), bold("fixed")]);
    table.set_header(header);
    for function in &shown.functions {
        let mut row = vec![Cell::new(&function.name), number(percent(function.share))];
        row.extend(function.instructions.iter().map(|count| number(count.to_string())));
        let (each, fixed) = line(function);
        row.extend([number(each), number(fixed)]);
        table.add_row(row);
    }
    let (others, sums, share) = &shown.rest;
    let mut row = vec![Cell::new(format!("{others} others")), number(percent(*share))];
    row.extend(sums.iter().map(|sum| number(sum.to_string())));
    table.add_row(row);
    format!("{}\n{table}\n{}", head(explanation, case), sum(explanation))
}

/// Slope and fixed part as a table has them; dashes where the function is not on a line.
pub(crate) fn line(function: &FunctionCost) -> (String, String) {
    if function.is_linear() {
        (format!("{:.2}", function.per_object_instructions), format!("{:.1}", function.fixed_instructions))
    } else {
        ("not a line".to_owned(), "–".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(instructions: &[u64], off_line: f64) -> FunctionCost {
        FunctionCost {
            name: "pipe_poll.isra.0".to_owned(),
            instructions: instructions.to_vec(),
            share: 0.5,
            per_object_instructions: 44.0,
            max_residual_instructions: off_line,
            half_at: 700,
            ..FunctionCost::default()
        }
    }

    #[test]
    fn an_object_is_named_in_the_singular() {
        for (axis, one) in [
            ("watched descriptors", "watched descriptor"),
            ("descriptors in use", "descriptor in use"),
            ("live children", "live child"),
            ("processes", "process"),
            ("directory entries", "directory entry"),
            ("calls so far", "call so far"),
        ] {
            assert_eq!(one_of(axis), one);
        }
    }

    #[test]
    fn a_line_has_a_price_and_a_step_a_place() {
        let axis = "watched descriptors";
        assert_eq!(
            words(&function(&[440, 4_400], 0.0), axis),
            "44.0 instructions of pipe_poll.isra.0 per watched descriptor"
        );
        assert!(words(&function(&[440, 4_400], 900.0), axis).ends_with("half of it by n = 700"));
        assert!(words(&function(&[9, 9], 0.0), axis).contains("at any size"));
        let source = source_of(&function(&[1, 2], 0.0), "v6.1.192");
        assert_eq!(source.unwrap(), "https://elixir.bootlin.com/linux/v6.1.192/A/ident/pipe_poll");
    }
}
