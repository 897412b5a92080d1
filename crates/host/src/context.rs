//! The input of the rules of all limits: the host, the process, the demands.

use crate::census::{Census, FIRST_PID_NAMESPACE};
use crate::cgroups::{Group, service};
use crate::demand::{Demand, Needs};
use crate::limit::PortsInUse;
use crate::report::Worker;
use crate::root::Root;
use crate::row::{Bound, Effect};
use crate::subject::{FIRST_USER_NAMESPACE, Subject};

/// The directory for files that would be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// Its path.
    pub path: String,
    /// Free bytes for this user.
    pub free_bytes: u64,
    /// The block size in bytes.
    pub block_bytes: u64,
    /// Free inodes for this user; `None` if the file system does not limit them.
    pub free_inodes: Option<u64>,
}

/// The scope of a per-process limit.
pub(crate) const A_PROCESS: &str = " a process";

/// The input of every rule.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) root: &'a Root,
    pub(crate) subject: Subject,
    pub(crate) ports: PortsInUse,
    pub(crate) demands: &'a [Demand],
    pub(crate) census: Census,
    pub(crate) folder: Option<&'a Folder>,
    /// The kernel's memory for one end of a connection in bytes, as measured on this host.
    pub(crate) connection_bytes: Option<u64>,
    /// The memory of the benchmarks' workers in addition to their objects.
    pub(crate) workers: &'a [Worker],
    /// The profile of a `landau tune` trial that was killed and left its settings in place.
    pub(crate) killed_trial: Option<&'a str>,
    pub(crate) page_bytes: u64,
}

impl Context<'_> {
    /// Returns the bound of each demand for which `of` returns one. `scope` follows the unit, such as " a process".
    pub(crate) fn bounds(&self, effect: Effect, scope: &str, of: impl Fn(&Needs) -> Option<u64>) -> Vec<Bound> {
        self.bounds_of_demands(effect, scope, |demand| of(&demand.kind.needs))
    }

    /// Like [`Context::bounds`], for a limit that depends on more than the kind of load.
    pub(crate) fn bounds_of_demands(
        &self,
        effect: Effect,
        scope: &str,
        of: impl Fn(&Demand) -> Option<u64>,
    ) -> Vec<Bound> {
        let bound = |demand: &Demand| {
            let at_most = of(demand)?;
            // What a running program already has is in use, so the bound counts further objects.
            let more = if self.subject.is_other && scope == A_PROCESS { "more " } else { "" };
            let unit = format!("{more}{}{scope}", demand.kind.unit);
            Some(Bound { kind: demand.kind.name, at_most, unit, effect })
        };
        self.demands.iter().filter_map(bound).collect()
    }

    /// Returns the limit that fits every requested size, or twice the limit if no size was requested or all fit. `of`
    /// returns the limit that a size needs.
    pub(crate) fn raised(&self, limit: u64, of: impl Fn(&Needs, u64) -> Option<u64>) -> u64 {
        self.raised_for_demands(limit, |demand, size| of(&demand.kind.needs, size))
    }

    /// Like [`Context::raised`], for a limit that depends on more than the kind of load.
    pub(crate) fn raised_for_demands(&self, limit: u64, of: impl Fn(&Demand, u64) -> Option<u64>) -> u64 {
        let needed = |demand: &Demand| of(demand, demand.size?);
        let most = self.demands.iter().filter_map(needed).max().filter(|&most| most > limit);
        most.unwrap_or(limit.saturating_mul(2))
    }

    /// Returns the address space that the program of a demand takes in addition to its own and that of `n` objects.
    pub(crate) fn worker_bytes(&self, demand: &Demand, n: u64) -> u64 {
        let worker = self.workers.iter().find(|worker| worker.benchmark == demand.kind.name);
        worker.map_or(0, |worker| (worker.bytes)(n))
    }

    /// Returns the calls that `of` names for the demands' programs, as "`accept()` and `socket()`".
    pub(crate) fn calls(&self, of: impl Fn(&Needs) -> &'static str) -> String {
        let mut names: Vec<String> = Vec::new();
        for name in self.demands.iter().map(|demand| of(&demand.kind.needs)).filter(|name| !name.is_empty()) {
            let name = format!("{name}()");
            if !names.contains(&name) {
                names.push(name);
            }
        }
        match names.split_last() {
            Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
            _ => names.concat(),
        }
    }

    /// Returns "fails" or "fail", depending on the number of calls.
    pub(crate) fn fail(calls: &str) -> &'static str {
        if calls.contains(" and ") { "fail" } else { "fails" }
    }

    /// Returns the command that edits the systemd service whose limits apply to the program. Any service may start a
    /// program that does not run yet, so the command then has a placeholder.
    pub(crate) fn edit_service_command(&self) -> String {
        self.own_service().as_ref().map_or_else(|| Group::default().edit_command(), Group::edit_command)
    }

    fn own_service(&self) -> Option<Group> {
        if self.subject.is_other { service(self.root, &self.subject.name) } else { None }
    }

    /// Returns how to set a resource limit of the service. A user manager cannot grant more than it has itself
    /// (systemd.exec(5)), so the manager's own service needs the limit first.
    pub(crate) fn limit_service(&self, directive: &str) -> String {
        let manager = self.own_service().as_ref().and_then(Group::manager);
        let first = manager.map(|manager| format!(", of its manager first by `systemctl edit {manager}`"));
        format!("{directive} by `{}`{}", self.edit_service_command(), first.unwrap_or_default())
    }

    /// Returns the path of a file of the subject's network namespace, such as `tcp`.
    pub(crate) fn net(&self, file: &str) -> String {
        self.subject.file(&format!("net/{file}"))
    }

    /// Returns whether the subject is in the initial namespace of a kind (`pid`, `user`, `cgroup`), whose number the
    /// kernel fixes.
    pub(crate) fn is_in_first(&self, kind: &str) -> Option<bool> {
        self.is_first(&self.subject.file(&format!("ns/{kind}")), kind)
    }

    /// Returns whether this process, even if another one is examined, is known to see only part of the host's processes
    /// or control groups.
    pub(crate) fn is_contained(&self) -> bool {
        ["pid", "cgroup"].iter().any(|kind| self.is_first(&format!("proc/self/ns/{kind}"), kind) == Some(false))
    }

    fn is_first(&self, path: &str, kind: &str) -> Option<bool> {
        let first = match kind {
            "pid" => FIRST_PID_NAMESPACE,
            "user" => FIRST_USER_NAMESPACE,
            "cgroup" => "cgroup:[4026531835]",
            _ => return None,
        };
        self.root.link(path).map(|link| link == first)
    }
}
