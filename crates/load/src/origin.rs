//! The distinct servers of a load, and their requests.

use crate::error::{Error, Result};
use crate::plan::{Origin, Request, Tls};
use crate::replay::Replay;
use crate::spec::LoadSpec;
use crate::target::Url;
use std::path::Path;

/// Returns the servers and their requests; adds a note about an access log.
pub(crate) fn origins(spec: &LoadSpec, notes: &mut Vec<String>) -> Result<Vec<Origin>> {
    let urls = spec.urls.iter().map(|text| Url::parse(text)).collect::<Result<Vec<Url>>>()?;
    check_tls_options(spec, &urls)?;
    let replay = spec.replay.as_deref().map(|path| read_log(path, notes)).transpose()?;
    let mut origins: Vec<Origin> = Vec::new();
    for url in &urls {
        let endpoint = url.resolve(&spec.allowed_hosts)?;
        let tls = url.is_secure.then(|| Tls {
            name: url.host.clone(),
            insecure: spec.insecure,
            ca_file: spec.ca_file.clone(),
        });
        let request = |method: &str, target: &str| {
            let mut request = request(method, target, &url.authority(), &spec.headers);
            if spec.http2 {
                request.fields = fields(method, target, url, &spec.headers);
            }
            request
        };
        let (requests, order) = match &replay {
            None => (vec![request(&spec.method, &url.target)], Vec::new()),
            Some(replay) => {
                let requests = replay.requests.iter().map(|(method, target)| request(method, target));
                (requests.collect(), replay.order.clone())
            }
        };
        match origins.iter_mut().find(|one| one.endpoint == endpoint && one.tls == tls) {
            Some(origin) if replay.is_none() => origin.requests.extend(requests),
            _ => origins.push(Origin { endpoint, tls, requests, order }),
        }
    }
    Ok(origins)
}

/// Returns an error for options that have no effect without `https`.
fn check_tls_options(spec: &LoadSpec, urls: &[Url]) -> Result<()> {
    if urls.iter().any(|url| url.is_secure) {
        return Ok(());
    }
    let options = [("--ca", spec.ca_file.is_some()), ("--insecure", spec.insecure)];
    match options.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(Error::Plan(format!("{option} requires an https URL"))),
        None => Ok(()),
    }
}

fn read_log(path: &Path, notes: &mut Vec<String>) -> Result<Replay> {
    let unusable = |reason: String| Error::Plan(format!("--replay {}: {reason}", path.display()));
    let bytes = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
    let replay = Replay::parse(&String::from_utf8_lossy(&bytes));
    if replay.order.is_empty() {
        return Err(unusable("no GET or HEAD request in the common or combined log format".to_owned()));
    }
    notes.push(format!(
        "{}: {} requests, {} of them distinct; {} lines skipped",
        path.display(),
        replay.order.len(),
        replay.requests.len(),
        replay.skipped_lines
    ));
    Ok(replay)
}

/// Returns the bytes of a request in two forms: followed by others on its connection, and as the last one.
fn request(method: &str, target: &str, authority: &str, headers: &[String]) -> Request {
    let mut head = format!("{method} {target} HTTP/1.1\r\n");
    if !headers.iter().any(|header| header.to_ascii_lowercase().starts_with("host:")) {
        head.extend(["Host: ", authority, "\r\n"]);
    }
    for header in headers {
        head.extend([header.as_str(), "\r\n"]);
    }
    Request {
        method: method.to_owned(),
        bytes: format!("{head}\r\n"),
        last_bytes: format!("{head}Connection: close\r\n\r\n"),
        fields: Vec::new(),
    }
}

/// Returns the HTTP/2 fields of a request: the host is `:authority`, and names are in lower case.
fn fields(method: &str, target: &str, url: &Url, headers: &[String]) -> Vec<(String, String)> {
    let own = headers.iter().filter_map(|header| header.split_once(':'));
    let own: Vec<(String, String)> =
        own.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
    let host = own.iter().find(|(name, _)| name == "host").map_or_else(|| url.authority(), |(_, value)| value.clone());
    let scheme = if url.is_secure { "https" } else { "http" };
    let pseudo = [(":method", method), (":scheme", scheme), (":authority", &host), (":path", target)];
    let pseudo = pseudo.map(|(name, value)| (name.to_owned(), value.to_owned()));
    pseudo.into_iter().chain(own.into_iter().filter(|(name, _)| name != "host")).collect()
}
