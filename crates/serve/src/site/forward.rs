//! Requests that are forwarded to an upstream server: how they are selected, and how they are answered if forwarding
//! fails.

use super::entry::{Entry, Ruled};
use super::{Client, Site};
use crate::answer::value_of;
use crate::log::Asked;
use crate::proxy::{self, Asking, Forward};
use crate::rules::Policy;
use crate::send_buffers::SendBuffers;
use landau_wire::http::target::{self, Target};
use landau_wire::http::{Form, Limits, Method, Reject, Request, Status, date};

impl Site {
    /// Returns whether the rules forward a request, whatever its method. A preflight is answered here if the rules name
    /// the sites that may read.
    #[cold]
    pub(crate) fn is_forwarded(&mut self, request: &Request<'_>) -> bool {
        // Nobody else may see the fields of a request (RFC 9110 section 9.3.8), or open a tunnel.
        if matches!(request.method(), Method::Trace | Method::Connect) || request.form() == Form::Asterisk {
            return false;
        }
        let Some(rules) = self.folder.rules().filter(|rules| rules.forwards()) else { return false };
        if request.fields().any(|(name, value)| proxy::forwards_left(name, value, request) == Some(0)) {
            return false;
        }
        let Ok(target) = clean(request.path(), &mut self.buffer) else { return false };
        let policy = if target::has_encoded_slash(request.path()) {
            rules.policy_of_forwarded(target.path)
        } else {
            rules.policy(target.path)
        };
        policy.is_some_and(|policy| policy.forwards() && !is_preflight(request, &policy))
    }

    /// Returns whether the rules redirect the path of a request, whatever its method. A preflight is answered here,
    /// because browsers do not follow a redirect of it.
    #[cold]
    pub(super) fn is_redirected(&mut self, request: &Request<'_>) -> bool {
        let Some(rules) = self.folder.rules().filter(|_| has_path(request)) else { return false };
        let Ok(target) = target::clean(request.path(), &mut self.buffer) else { return false };
        rules.policy(target.path).is_some_and(|policy| policy.redirect.is_some() && !is_preflight(request, &policy))
    }

    /// Rewrites a request for the upstream server; the worker takes it from `self.forward`.
    #[cold]
    pub(super) fn forward(&mut self, ruled: &Ruled, request: &Request<'_>, client: Client) {
        self.forward = None;
        let Some(proxy) = &ruled.policy.proxy else { return };
        let Ok(target) = clean(request.path(), &mut self.buffer) else { return };
        let asking = Asking { peer: self.client, client, trusted: self.forwarded_from.as_ref() };
        let close = !request.keep_alive();
        let mut forward = Forward::new(request, target.path, (&ruled.policy, proxy), asking, close);
        forward.user = self.log.as_mut().and_then(|log| log.user.take());
        self.forward = Some(Box::new(forward));
    }

    /// Returns the date of a response.
    pub(crate) fn date(&self) -> [u8; date::DATE_BYTES] {
        self.date
    }

    /// Answers a request that could not be forwarded, or whose response cannot be passed on. The content is the error
    /// page, if there is one. `head` is the client's head.
    #[cold]
    pub(crate) fn fail_forward(
        &mut self,
        forward: &Forward,
        (head, limits): (&[u8], &Limits),
        (status, close): (Status, bool),
        send_buffers: &mut SendBuffers,
    ) {
        let Some(request) = forward.parse(head, limits) else { return };
        let close = close || forward.close || self.closing;
        self.fail_by_rules(status.into(), &forward.policy, &request, (forward.client, close), send_buffers);
        self.finish_forward(forward, (head, limits), status, send_buffers.content);
    }

    /// Counts and logs the response to a forwarded request; `content` is the number of content bytes sent.
    pub(crate) fn finish_forward(
        &mut self,
        forward: &Forward,
        (head, limits): (&[u8], &Limits),
        status: Status,
        content: u64,
    ) {
        self.count(status);
        if let Some(log) = &mut self.log
            && let Some(request) = forward.parse(head, limits)
        {
            log.peer = forward.client.peer;
            log.user.clone_from(&forward.user);
            log.line(Asked::Request(&request), status, content);
        }
    }
}

/// Normalises a path; an encoded slash stays `%2F`.
fn clean<'a>(raw: &'a [u8], buffer: &'a mut [u8]) -> Result<Target<'a>, Reject> {
    if target::has_encoded_slash(raw) { target::clean_encoded(raw, buffer) } else { target::clean(raw, buffer) }
}

/// Returns whether a request is about a path, and not about the server or another one.
pub(super) fn has_path(request: &Request<'_>) -> bool {
    request.method() != Method::Connect && request.form() != Form::Asterisk
}

/// Returns whether a request is a preflight and the rules answer it.
pub(super) fn is_preflight(request: &Request<'_>, policy: &Policy) -> bool {
    policy.cors.is_some()
        && request.method() == Method::Options
        && value_of(request, "Access-Control-Request-Method").is_some()
}

impl Entry {
    /// Returns whether requests for the path are forwarded.
    pub(crate) fn is_forward(&self) -> bool {
        matches!(self.without_rules(), Self::Forward)
    }

    /// Returns whether the rules redirect the path.
    pub(super) fn is_redirect_by_rules(&self) -> bool {
        matches!(self, Self::Ruled(ruled) if ruled.policy.redirect.is_some())
    }
}
