//! A `[[rule]]` of a configuration file.

use super::document::{Entry, Problem, Table};
use crate::rules::{FieldChange, Pattern, Rule, field};

/// Reads a rule; notes all that is wrong with it.
pub(super) fn read(entry: &Entry<'_>, problems: &mut Vec<Problem>) -> Option<Rule> {
    let before = problems.len();
    let mut table = entry.table().map_err(|problem| problems.push(problem)).ok()?;
    let mut rule = Rule::default();
    match table.read("path", problems, |entry| entry.parse_each(Pattern::new)) {
        Some(patterns) => rule.patterns = patterns,
        None if problems.len() == before => problems.push(table.problem("no path; path = \"/\" is for all")),
        None => {}
    }
    fields(&mut table, &mut rule, problems);
    table.finish(problems);
    (problems.len() == before).then_some(rule)
}

/// Reads the changes of a response's fields.
fn fields(table: &mut Table<'_>, rule: &mut Rule, problems: &mut Vec<Problem>) {
    let removed = table.read("remove-headers", problems, |entry| entry.parse_each(field::removed));
    rule.fields.extend(removed.unwrap_or_default().into_iter().map(FieldChange::Remove));
    for (key, is_added) in [("set-headers", false), ("add-headers", true)] {
        let Some(entries) = table.read(key, problems, Entry::table) else { continue };
        for (name, entry) in entries.rest() {
            if let Err(reason) = field::check_name(name, is_added) {
                problems.push(entry.problem(reason));
                continue;
            }
            let mut is_first = true;
            for value in entry.elements() {
                let read = value.text().and_then(|text| field::check_value(text).map_err(|why| value.problem(why)));
                match read {
                    Ok(text) if is_first && !is_added => rule.fields.push(FieldChange::set(name, text)),
                    Ok(text) => rule.fields.push(FieldChange::add(name, text)),
                    Err(problem) => problems.push(problem),
                }
                is_first = false;
            }
        }
    }
}
