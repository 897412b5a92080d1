//! The reactor's backends as values of a parameter, and its errors as reasons to stop a pass.

use landau_engine::{Settings, Stop, Support};
use landau_reactor::{Backend, Error};

/// The names of all backends, including those of other systems.
pub(crate) const NAMES: &[&str] = &names();

/// The names of the backends that wait for events: all but `null`, with which a server would never sleep.
pub(crate) const WAITING: &[&str] = &waiting();

const fn names() -> [&'static str; Backend::ALL.len()] {
    let mut names = [""; Backend::ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = Backend::ALL[index].name();
        index += 1;
    }
    names
}

const fn waiting() -> [&'static str; Backend::ALL.len() - 1] {
    let mut names = [""; Backend::ALL.len() - 1];
    let (mut index, mut count) = (0, 0);
    while index < Backend::ALL.len() {
        if !matches!(Backend::ALL[index], Backend::Null) {
            names[count] = Backend::ALL[index].name();
            count += 1;
        }
        index += 1;
    }
    names
}

/// Returns the backend that a parameter selects, or the system's default if the benchmark has no such parameter.
pub(crate) fn named(settings: &Settings, parameter: &str) -> Backend {
    settings.text(parameter).parse().unwrap_or_default()
}

/// Returns whether this system supports a backend, by making a reactor with it.
pub(crate) fn support(backend: Backend) -> Support {
    match landau_reactor::Reactor::new(backend) {
        Ok(_) => Support::Yes,
        Err(error) => Support::No(error.to_string()),
    }
}

/// Returns the reason to stop a pass. A full set of `select` counts as a failed system call.
pub(crate) fn stop(error: Error) -> Stop {
    match error {
        Error::System(error) => Stop::Refused(error),
        Error::Capacity { .. } => Stop::Refused(landau_sys::Error { call: "select", errno: libc::EINVAL }),
        other => Stop::Wrong(other.to_string()),
    }
}

/// Returns the error of a wait, which only the system can refuse.
pub(crate) fn refused(error: Error) -> landau_sys::Error {
    match stop(error) {
        Stop::Refused(error) => error,
        _ => landau_sys::Error { call: "wait", errno: libc::EIO },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_backend_has_a_name_that_selects_it() {
        assert_eq!(NAMES.len(), Backend::ALL.len());
        for name in NAMES {
            assert_eq!(name.parse::<Backend>().unwrap().name(), *name);
        }
        assert!(WAITING.iter().all(|name| NAMES.contains(name) && *name != Backend::Null.name()));
    }
}
