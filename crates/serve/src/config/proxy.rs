//! The key `proxy` of a `[[rule]]`: an upstream server, or a table with more settings.

use super::document::{Entry, Problem, Table};
use super::rule::FieldNames;
use crate::rules::{Change, PathTemplate, Pattern, Proxy, Upstream, field};
use landau_wire::http::Field;
use std::sync::Arc;
use std::time::Duration;

/// How long a connection may take to be established: long enough for two repetitions of a lost SYN, which the kernel
/// sends after 1 s and, at the latest, after 3 s.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an upstream server may send nothing, as in nginx.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long an idle connection is kept, as in nginx.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The number of idle connections that each worker keeps.
const IDLE_CONNECTIONS: usize = 32;

/// The range of the times that can be set.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Fields of the request that the server writes itself, because they determine where it ends.
const OWN: [&str; 7] = ["Connection", "Content-Length", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade"];

/// Reads the key; `false` removes the setting of an earlier rule.
pub(super) fn read(table: &mut Table<'_>, patterns: &[Pattern], problems: &mut Vec<Problem>) -> Change<Arc<Proxy>> {
    let Some(entry) = table.take("proxy") else { return Change::Keep };
    if entry.flag() == Ok(false) {
        return Change::Lift;
    }
    let line = entry.item.line;
    let read = match entry.table() {
        Ok(mut own) => {
            let proxy = read_table(&mut own, line, patterns, problems);
            own.finish(problems);
            proxy
        }
        Err(_) => entry
            .parse(Upstream::new)
            .map_err(|problem| problems.push(problem))
            .ok()
            .map(|upstream| with_defaults(upstream, line)),
    };
    read.map_or(Change::Keep, |proxy| Change::Set(Arc::new(proxy)))
}

fn with_defaults(upstream: Upstream, line: usize) -> Proxy {
    Proxy {
        upstream: Arc::new(upstream),
        line,
        path: None,
        connect_timeout: CONNECT_TIMEOUT,
        response_timeout: RESPONSE_TIMEOUT,
        idle_timeout: IDLE_TIMEOUT,
        idle_connections: IDLE_CONNECTIONS,
        encoded_slash: false,
        lines: Vec::new(),
        removed: Vec::new(),
    }
}

fn read_table(table: &mut Table<'_>, line: usize, patterns: &[Pattern], problems: &mut Vec<Problem>) -> Option<Proxy> {
    let before = problems.len();
    let upstream = table.read("to", problems, |entry| entry.parse(Upstream::new));
    if upstream.is_none() && problems.len() == before {
        problems.push(table.problem("no upstream server; set to = \"http://HOST:PORT\" or to = \"unix:PATH\""));
    }
    let path = table.read("path", problems, |entry| entry.parse(|text| PathTemplate::new(text, patterns)));
    let mut time = |key, default, problems: &mut Vec<Problem>| {
        table.read(key, problems, |entry| entry.parse(landau_units::duration_in(SHORTEST..=LONGEST))).unwrap_or(default)
    };
    let connect_timeout = time("connect-timeout", CONNECT_TIMEOUT, problems);
    let response_timeout = time("response-timeout", RESPONSE_TIMEOUT, problems);
    let idle_timeout = time("idle-timeout", IDLE_TIMEOUT, problems);
    let idle_connections = table.read("idle-connections", problems, |entry| entry.number(0..=65_535));
    let encoded_slash = table.read("encoded-slash", problems, Entry::flag).unwrap_or(false);
    let (mut lines, mut removed) = (Vec::new(), Vec::new());
    removed.extend(table.read("remove-headers", problems, |entry| entry.parse_each(removed_name)).unwrap_or_default());
    let fields = table.read("set-headers", problems, Entry::table);
    let mut names = FieldNames::default();
    for (field_name, entry) in fields.into_iter().flat_map(Table::rest) {
        match line_of(field_name, &entry).and_then(|line| names.add(field_name, &entry).map(|()| line)) {
            Ok(line) => {
                lines.extend(line);
                removed.push(field_name.to_owned());
            }
            Err(problem) => problems.push(problem),
        }
    }
    let idle_connections = idle_connections.map_or(IDLE_CONNECTIONS, |count| count as usize);
    Some(Proxy {
        path,
        connect_timeout,
        response_timeout,
        idle_timeout,
        idle_connections,
        encoded_slash,
        lines,
        removed,
        ..with_defaults(upstream?, line)
    })
}

/// Checks the name of a field that the operator may set or remove.
fn name(text: &str) -> Result<String, String> {
    field::check_token(text)?;
    if text.eq_ignore_ascii_case(Field::Expect.name()) || OWN.iter().any(|own| own.eq_ignore_ascii_case(text)) {
        return Err("the server writes this field".to_owned());
    }
    Ok(text.to_owned())
}

/// Checks the name of a field to remove, like `name`. `Host` is refused, because a request must have it.
fn removed_name(text: &str) -> Result<String, String> {
    let name = name(text)?;
    if name.eq_ignore_ascii_case(Field::Host.name()) {
        return Err("every request has this field; change it with set-headers".to_owned());
    }
    Ok(name)
}

fn line_of(field_name: &str, entry: &Entry<'_>) -> Result<Vec<u8>, Problem> {
    let name = name(field_name).map_err(|why| entry.problem(why))?;
    let value = entry.text().and_then(|text| field::check_value(text).map_err(|why| entry.problem(why)))?;
    Ok(format!("{name}: {value}\r\n").into_bytes())
}

#[cfg(test)]
mod tests {
    use crate::config::ConfigFile;
    use std::time::Duration;

    #[test]
    fn proxies_are_read() {
        let text = "[[rule]]\npath = '/a/'\nproxy = 'unix:/run/a.sock'\n\
             [[rule]]\npath = '/b/'\nproxy = { to = 'http://[::1]:81', path = '/{rest}', response-timeout = '5s', \
             idle-connections = 0, set-headers = { Host = 'b', X-A = ' 1 ' }, remove-headers = 'Cookie' }\n\
             [[rule]]\npath = '/b/c/'\nproxy = false\n";
        let rules = ConfigFile::parse(text, &[]).unwrap().rules;
        let proxy = |path: &str| rules.policy(path.as_bytes()).unwrap().proxy.clone();
        assert_eq!(proxy("/a/x").unwrap().upstream.text, "unix:/run/a.sock");
        let of_b = proxy("/b/x").unwrap();
        assert_eq!((of_b.response_timeout, of_b.idle_connections), (Duration::from_secs(5), 0));
        assert_eq!(of_b.lines, b"Host: b\r\nX-A: 1\r\n");
        assert!(of_b.removes(b"cookie") && of_b.removes(b"X_A") && !of_b.removes(b"X-B"));
        assert!(proxy("/b/c/d").is_none());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let problem = |proxy: &str| {
            let problems = ConfigFile::parse(&format!("[[rule]]\npath = '*.php'\nproxy = {proxy}\n"), &[]);
            problems.unwrap_err()[0].to_string()
        };
        for (proxy, expected) in [
            ("true", "3: rule.proxy: expected a string, got true or false"),
            ("'http://a/b'", "3: rule.proxy: \"http://a/b\": put the path into the key `path`"),
            ("{ connect-timeout = '1s' }", "no upstream server; set to ="),
            ("{ to = 'https://a' }", "3: rule.proxy.to: \"https://a\": TLS to upstream servers is not supported"),
            ("{ to = 'http://a', path = '/{rest}' }", "{rest} needs a rule for directories"),
            ("{ to = 'http://a', connect-timeout = '0s' }", "3: rule.proxy.connect-timeout: "),
            ("{ to = 'http://a', set-headers = { Connection = 'x' } }", "the server writes this field"),
            ("{ to = 'http://a', set-headers = { X = \"a\\nb\" } }", "control characters"),
            ("{ to = 'http://a', remove-headers = 'host' }", "every request has this field"),
            ("{ to = 'http://a', tos = 1 }", "3: rule.proxy.tos: unknown key; did you mean to?"),
        ] {
            assert!(problem(proxy).contains(expected), "{proxy}: {}", problem(proxy));
        }
    }
}
