//! The kernel functions that a call's instructions are in, as sentences and as a table, for `landau explain` and the
//! page.

use crate::divided::{self, NAMED};
use crate::quantity::{count, percent};
use crate::table::Layout;
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table};
use landau_record::schema::{Case, Explanation, FunctionCost};

/// Functions with a smaller share of the growth, or of a call that does not grow, are summed as "others".
const SHOWN: f64 = 0.005;

/// Maximum number of functions that are listed individually.
const MOST: usize = 25;

/// The largest relative difference between the functions' growth and the measured growth.
pub const TOLERANCE: f64 = 0.01;

/// The functions that have a row, and the sum of the others.
pub(crate) struct Shown<'a> {
    pub(crate) functions: Vec<&'a FunctionCost>,
    /// The others: their number, their instructions at each n, and their share.
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

/// Returns the singular of an axis: "watched descriptor" for "watched descriptors". Only the first plural changes:
/// "descriptor in use" for "descriptors in use".
pub fn one_of(axis: &str) -> String {
    let mut is_turned = false;
    let words = axis.split(' ').map(|word| {
        let bare = word.trim_end_matches(',');
        let single = match bare {
            "children" => "child".to_owned(),
            "processes" | "addresses" => bare.trim_end_matches("es").to_owned(),
            _ if bare.ends_with("ies") => format!("{}y", &bare[..bare.len() - 3]),
            // "simultaneous" and "previous" are not plurals.
            _ if bare.len() > 3 && bare.ends_with('s') && !["ss", "us"].iter().any(|end| bare.ends_with(end)) => {
                bare[..bare.len() - 1].to_owned()
            }
            _ => return word.to_owned(),
        };
        if std::mem::replace(&mut is_turned, true) { word.to_owned() } else { single }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Returns a link to a function's source in the public cross-reference of the kernel, for that version.
pub fn source_of(function: &FunctionCost, version: &str) -> Option<String> {
    link(&function.name, version)
}

/// Returns a link to the source of the function with this symbol, if it can have one.
pub fn link(symbol: &str, version: &str) -> Option<String> {
    // The compiler appends suffixes such as `.constprop.0` and `.isra.0`.
    let name = symbol.split('.').next().unwrap_or_default();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then(|| format!("https://elixir.bootlin.com/linux/{version}/A/ident/{name}"))
}

/// Describes a function's growth: "44.0 instructions per watched descriptor".
pub fn words(function: &FunctionCost, axis: &str) -> String {
    let first = function.instructions.first().copied().unwrap_or(0) as f64;
    let last = function.instructions.last().copied().unwrap_or(0) as f64;
    if function.growth() == 0 {
        format!("constant, {} instructions", count(last))
    } else if function.is_linear() {
        format!("{:.1} instructions per {}", function.per_object_instructions, one_of(axis))
    } else {
        let half = count(function.half_at as f64);
        format!("{} to {} instructions, half of the change by n = {half}", count(first), count(last))
    }
}

/// Returns where the growth is, one sentence each: how it divides where it branches, and the functions with the largest
/// shares without their callees. Empty if the call does not grow.
pub fn lead(explanation: &Explanation) -> Vec<String> {
    if explanation.growth() <= 0 {
        return Vec::new();
    }
    let mut told: Vec<String> = explanation.branching.iter().filter_map(divided::divided).collect();
    let named = explanation.functions.iter().take(NAMED).filter(|function| function.share >= SHOWN);
    let named: Vec<String> = named.map(|one| format!("{} {}", one.name, percent(one.share))).collect();
    if !named.is_empty() {
        told.push(format!("Without callees, the largest shares are {}.", divided::listed(&named)));
    }
    told
}

/// Returns a function's share of the growth with its callees.
pub(crate) fn inclusive_share(function: &FunctionCost) -> String {
    function.inclusive_share.map_or("–".to_owned(), percent)
}

/// Compares the sum of the functions' growth with the measured growth.
pub fn sum(explanation: &Explanation) -> String {
    let (growth, explained) = (explanation.growth(), explanation.explained());
    let part = if growth == 0 { String::new() } else { format!(", {}", percent(explained as f64 / growth as f64)) };
    let [least, most] = explanation.overhead_instructions;
    let beside = if least == most { least.to_string() } else { format!("{least} to {most}") };
    format!(
        "Measured growth: {growth} instructions; sum over {} functions: {explained}{part}. The count of each call \
         exceeds its sample by {beside}, because the markers are outside the clock readings",
        explanation.functions.len()
    )
}

/// Returns a heading: the call, the kernel, and how the cost grows.
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

/// Renders the explanation as text for a terminal.
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
    let mut header = vec![bold("function"), bold("share of growth"), bold("with callees")];
    header.extend(explanation.at.iter().map(|n| bold(&format!("n = {}", count(*n as f64)))));
    header.extend([bold("per object"), bold("fixed")]);
    table.set_header(header);
    for function in &shown.functions {
        let mut row =
            vec![Cell::new(&function.name), number(percent(function.share)), number(inclusive_share(function))];
        row.extend(function.instructions.iter().map(|count| number(count.to_string())));
        let (each, fixed) = line(function);
        row.extend([number(each), number(fixed)]);
        table.add_row(row);
    }
    let (others, sums, share) = &shown.rest;
    let mut row = vec![Cell::new(format!("{others} others")), number(percent(*share)), Cell::new("")];
    row.extend(sums.iter().map(|sum| number(sum.to_string())));
    table.add_row(row);
    let lead: String = lead(explanation).into_iter().map(|sentence| sentence + "\n").collect();
    format!("{}\n{lead}{table}\n{}", head(explanation, case), sum(explanation))
}

/// Formats slope and fixed part for a table; "not linear" and a dash if the function is not linear in n.
pub(crate) fn line(function: &FunctionCost) -> (String, String) {
    if function.is_linear() {
        (format!("{:.2}", function.per_object_instructions), format!("{:.1}", function.fixed_instructions))
    } else {
        ("not linear".to_owned(), "–".to_owned())
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
            ("simultaneous connections", "simultaneous connection"),
        ] {
            assert_eq!(one_of(axis), one);
        }
    }

    #[test]
    fn a_linear_function_has_a_slope_and_a_step_its_n() {
        let axis = "watched descriptors";
        assert_eq!(words(&function(&[440, 4_400], 0.0), axis), "44.0 instructions per watched descriptor");
        assert!(words(&function(&[440, 4_400], 900.0), axis).ends_with("half of the change by n = 700"));
        assert!(words(&function(&[9, 9], 0.0), axis).contains("constant"));
        let source = source_of(&function(&[1, 2], 0.0), "v6.1.192");
        assert_eq!(source.unwrap(), "https://elixir.bootlin.com/linux/v6.1.192/A/ident/pipe_poll");
    }
}
