//! A `[[rule]]` of a configuration file.

use super::document::{Entry, Problem, Table};
use super::proxy;
use crate::rules::{Auth, Change, Cors, ErrorPage, FieldChange, Networks, Pattern, Rate, Redirect, Rule, Users, field};
use landau_wire::http::{Status, target};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Reads a rule and records all its errors. `above` are the keys that a file has outside of rules.
pub(super) fn read(entry: &Entry<'_>, above: &[&str], problems: &mut Vec<Problem>) -> Option<Rule> {
    let before = problems.len();
    let mut table = entry.table().map_err(|problem| problems.push(problem)).ok()?;
    let mut rule = Rule::default();
    match table.read("path", problems, patterns) {
        Some(patterns) => rule.patterns = patterns,
        None if problems.len() == before => problems.push(table.problem("no path; path = \"/\" matches all paths")),
        None => {}
    }
    fields(&mut table, &mut rule, problems);
    files(&mut table, &mut rule, problems);
    redirects(&mut table, &mut rule, problems);
    rule.settings.proxy = proxy::read(&mut table, &rule.patterns, problems);
    rule.settings.cors = part(&mut table, "cors", problems, cors);
    access(&mut table, &mut rule, problems);
    table.finish_in_rule(above, problems);
    (problems.len() == before).then_some(rule)
}

/// Reads the changes to a response's fields.
fn fields(table: &mut Table<'_>, rule: &mut Rule, problems: &mut Vec<Problem>) {
    let removed = table.read("remove-headers", problems, |entry| entry.parse_each(field::removed));
    rule.fields.extend(removed.unwrap_or_default().into_iter().map(FieldChange::Remove));
    for (key, is_added) in [("set-headers", false), ("add-headers", true)] {
        let Some(entries) = table.read(key, problems, Entry::table) else { continue };
        let mut names = FieldNames::default();
        for (name, entry) in entries.rest() {
            let checked = field::check_name(name, is_added).map_err(|reason| entry.problem(reason));
            if let Err(problem) = checked.and_then(|()| names.add(name, &entry)) {
                problems.push(problem);
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

/// The names in a table of fields, which are unique regardless of case.
#[derive(Debug, Default)]
pub(super) struct FieldNames(BTreeSet<String>);

impl FieldNames {
    /// Adds a name; fails if it is already present in another case.
    pub(super) fn add(&mut self, name: &str, entry: &Entry<'_>) -> Result<(), Problem> {
        let is_new = self.0.insert(name.to_ascii_lowercase());
        let problem = || entry.problem("duplicate field: names are case-insensitive");
        is_new.then_some(()).ok_or_else(problem)
    }
}

/// Reads the settings that determine which files are sent, and their media types.
fn files(table: &mut Table<'_>, rule: &mut Rule, problems: &mut Vec<Problem>) {
    let settings = &mut rule.settings;
    settings.listings = table.read("listings", problems, Entry::flag);
    settings.compress = table.read("compress", problems, Entry::flag);
    settings.dotfiles = table.read("dotfiles", problems, Entry::flag);
    settings.clean_urls = table.read("clean-urls", problems, Entry::flag);
    settings.try_files = table.read("try-files", problems, |entry| entry.parse_each(fallback)).map(Into::into);
    settings.default_type = table.read("default-type", problems, |entry| entry.parse(media_type));
    let types = pairs(table, "types", problems, ending_of, media_type);
    settings.types = types.into_iter().map(|(ending, (_, media_type))| (ending, media_type)).collect();
    let pages = pairs(table, "error-pages", problems, error_status, page);
    for (status, (entry, page)) in pages {
        let path = entry.text().unwrap_or_default().to_owned();
        rule.pages.push(ErrorPage { path, line: entry.item.line, key: entry.key });
        settings.error_pages.insert(status, page);
    }
}

fn redirects(table: &mut Table<'_>, rule: &mut Rule, problems: &mut Vec<Problem>) {
    let status = table.read("redirect-status", problems, |entry| {
        let number = entry.number(301..=308)?;
        let is_known = [301, 302, 307, 308].contains(&number);
        is_known.then_some(Status(number as u16)).ok_or_else(|| entry.problem("expected 301, 302, 307 or 308"))
    });
    let (patterns, before) = (&rule.patterns, problems.len());
    rule.settings.redirect = table
        .read("redirect", problems, |entry| {
            let status = status.unwrap_or(Status::FOUND);
            let read = |entry: &Entry<'_>| entry.parse(|to| Redirect::new(to, status, patterns));
            unless_false(entry, |entry| read(entry).map(|redirect| Arc::new(redirect.at(entry.item.line))))
        })
        .unwrap_or_default();
    if status.is_some() && !matches!(rule.settings.redirect, Change::Set(_)) && problems.len() == before {
        problems.push(table.problem("redirect-status requires redirect, which this rule does not set"));
    }
    rule.settings.https = table
        .read("https", problems, |entry| match entry.flag() {
            Ok(true) => Ok(Change::Set(443)),
            Ok(false) => Ok(Change::Lift),
            Err(_) => entry.number(1..=65_535).map(|port| Change::Set(port as u16)),
        })
        .unwrap_or_default();
}

/// Reads the access control of a rule: addresses, users, request rate and bandwidth.
fn access(table: &mut Table<'_>, rule: &mut Rule, problems: &mut Vec<Problem>) {
    let settings = &mut rule.settings;
    settings.allow = table.read("allow", problems, |entry| unless_false(entry, networks)).unwrap_or_default();
    settings.deny = table.read("deny", problems, |entry| unless_false(entry, networks)).unwrap_or_default();
    settings.auth = part(table, "auth", problems, auth);
    let burst = table.read("burst", problems, |entry| entry.number(0..=1_000_000));
    let before = problems.len();
    settings.rate = table
        .read("rate", problems, |entry| {
            unless_false(entry, |entry| entry.parse(|text| Rate::new(text, burst)).map(Arc::new))
        })
        .unwrap_or_default();
    if burst.is_some() && !matches!(settings.rate, Change::Set(_)) && problems.len() == before {
        problems.push(table.problem("burst requires rate, which this rule does not set"));
    }
    settings.bandwidth = table
        .read("bandwidth", problems, |entry| {
            unless_false(entry, |entry| entry.parse(landau_units::size_in(1 << 10..=1 << 40)))
        })
        .unwrap_or_default();
}

/// Reads the patterns of a rule with the line of each.
fn patterns(entry: &Entry<'_>) -> Result<Vec<Pattern>, Problem> {
    let patterns = listed(entry, Pattern::new)?.into_iter();
    let lines = entry.elements().into_iter().map(|element| element.item.line);
    Ok(patterns.zip(lines).map(|(pattern, line)| Pattern { line, ..pattern }).collect())
}

/// Reads a list that must not be empty: a rule that matches nothing protects nothing.
fn listed<T>(entry: &Entry<'_>, parse: impl FnMut(&str) -> Result<T, String>) -> Result<Vec<T>, Problem> {
    let read = entry.parse_each(parse)?;
    if read.is_empty() { Err(entry.problem("the list is empty")) } else { Ok(read) }
}

fn networks(entry: &Entry<'_>) -> Result<Arc<Networks>, Problem> {
    let mut networks = Networks::default();
    listed(entry, |text| networks.add(text))?;
    Ok(Arc::new(networks))
}

fn auth(table: &mut Table<'_>, problems: &mut Vec<Problem>) -> Option<Auth> {
    let path = table.read("users", problems, Entry::text);
    let realm = table.read("realm", problems, |entry| entry.parse(realm)).unwrap_or_else(|| "files".to_owned());
    if path.is_none() {
        problems.push(table.problem("no users; set users = \"FILE\", a file written by htpasswd -B"));
    }
    Some(Auth { realm, path: path?.into(), line: table.line, users: Users::default() })
}

/// Checks a realm, which is sent as a quoted string.
fn realm(text: &str) -> Result<String, String> {
    if text.contains(['"', '\\']) {
        return Err("a realm cannot contain quotes or backslashes".to_owned());
    }
    field::check_value(text).map(str::to_owned)
}

fn cors(table: &mut Table<'_>, problems: &mut Vec<Problem>) -> Option<Cors> {
    let origins = table.read("origins", problems, |entry| entry.parse_each(Cors::origin)).unwrap_or_default();
    let mut words = |key, problems: &mut Vec<Problem>| {
        table.read(key, problems, |entry| entry.parse_each(Cors::token)).unwrap_or_default()
    };
    let methods = words("methods", problems);
    let (headers, expose) = (words("headers", problems), words("expose", problems));
    let credentials = table.read("credentials", problems, Entry::flag).unwrap_or_default();
    let max_age = table.read("max-age", problems, |entry| entry.parse(landau_units::duration));
    let is_for_all = origins.iter().any(|origin| origin == "*");
    let has_origins = !origins.is_empty();
    if !has_origins {
        problems.push(table.problem("no origins; origins = \"*\" permits all sites"));
    }
    if is_for_all && credentials {
        problems.push(
            table.problem(
                "credentials require a list of origins: with *, any site could read the data of logged-in users",
            ),
        );
    }
    let origins = if is_for_all { Vec::new() } else { origins };
    has_origins.then_some(Cors { origins, credentials, methods, headers, expose, max_age })
}

/// Reads a table of related settings; `false` in its place removes the setting of an earlier rule.
fn part<T>(
    table: &mut Table<'_>,
    key: &'static str,
    problems: &mut Vec<Problem>,
    read: impl FnOnce(&mut Table<'_>, &mut Vec<Problem>) -> Option<T>,
) -> Change<Arc<T>> {
    match table.read(key, problems, |entry| unless_false(entry, Entry::table)) {
        Some(Change::Set(mut own)) => {
            let value = read(&mut own, problems);
            own.finish(problems);
            value.map_or(Change::Keep, |value| Change::Set(Arc::new(value)))
        }
        Some(Change::Lift) => Change::Lift,
        Some(Change::Keep) | None => Change::Keep,
    }
}

/// Reads a table whose keys are not known in advance, with one parser for keys and one for values.
fn pairs<'a, K: Ord, V>(
    table: &mut Table<'a>,
    key: &'static str,
    problems: &mut Vec<Problem>,
    parse_key: impl Fn(&str) -> Result<K, String>,
    parse: impl Fn(&str) -> Result<V, String>,
) -> BTreeMap<K, (Entry<'a>, V)> {
    let mut pairs = BTreeMap::new();
    for (name, entry) in table.read(key, problems, Entry::table).into_iter().flat_map(Table::rest) {
        let own = parse_key(name).map_err(|why| entry.problem(why));
        match own.and_then(|own| Ok((own, entry.parse(&parse)?))) {
            Ok((own, _)) if pairs.contains_key(&own) => {
                problems.push(entry.problem("duplicate key, in another form"));
            }
            Ok((own, value)) => drop(pairs.insert(own, (entry, value))),
            Err(problem) => problems.push(problem),
        }
    }
    pairs
}

/// Reads a value; `false` removes the setting of an earlier rule.
fn unless_false<'a, T>(
    entry: &Entry<'a>,
    read: impl FnOnce(&Entry<'a>) -> Result<T, Problem>,
) -> Result<Change<T>, Problem> {
    if entry.flag() == Ok(false) { Ok(Change::Lift) } else { read(entry).map(Change::Set) }
}

/// Checks a path that is tried if the requested one does not exist.
fn fallback(text: &str) -> Result<String, String> {
    if !(text.starts_with('/') || text.starts_with("{path}")) || text.contains('\0') {
        return Err("expected a path that begins with a slash or with {path}".to_owned());
    }
    if text.split('/').any(|part| part == "." || part == "..") {
        return Err("this path cannot contain the segments . and ..".to_owned());
    }
    Ok(text.to_owned())
}

/// Checks and encodes the path of an error page.
fn page(text: &str) -> Result<Arc<[u8]>, String> {
    if !text.starts_with('/') || text.contains('\0') || text.split('/').any(|part| part == "..") {
        return Err("expected a file below the served directory, as a path that begins with a slash".to_owned());
    }
    let mut encoded = Vec::new();
    target::encode(text.as_bytes(), &mut encoded);
    Ok(encoded.into())
}

fn error_status(text: &str) -> Result<Status, String> {
    let number = text.parse().ok().filter(|number| (400..600).contains(number));
    number.map(Status).ok_or_else(|| "expected an error status, from 400 to 599, as the key".to_owned())
}

fn ending_of(text: &str) -> Result<String, String> {
    let ending = text.strip_prefix('.').unwrap_or(text);
    if ending.is_empty() || ending.contains(['.', '/']) {
        return Err("expected a file name extension, such as html, as the key".to_owned());
    }
    Ok(ending.to_ascii_lowercase())
}

fn media_type(text: &str) -> Result<Arc<str>, String> {
    let (kind, rest) = text.split_once('/').ok_or("expected a media type, such as text/plain")?;
    let below = rest.split(';').next().unwrap_or_default().trim_end();
    field::check_token(kind).and_then(|()| field::check_token(below)).map_err(|_| "not a media type".to_owned())?;
    field::check_value(text).map(Into::into)
}
