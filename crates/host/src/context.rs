//! What the rules of all limits see: the host, the process, the demands.

use crate::census::{Census, FIRST_PID_NAMESPACE};
use crate::cgroups::{Group, service};
use crate::demand::{Demand, Needs};
use crate::limit::PortsInUse;
use crate::report::Worker;
use crate::root::Root;
use crate::row::{Bound, Effect};
use crate::subject::{FIRST_USER_NAMESPACE, Subject};

/// The folder in which files would be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// Its path.
    pub path: String,
    /// Bytes that are free for this user.
    pub free_bytes: u64,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Inodes that are free for this user; none if the file system does not limit them.
    pub free_inodes: Option<u64>,
}

/// The scope of a limit of each process.
pub(crate) const A_PROCESS: &str = " a process";

/// What every rule sees.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) root: &'a Root,
    pub(crate) subject: Subject,
    pub(crate) ports: PortsInUse,
    pub(crate) demands: &'a [Demand],
    pub(crate) census: Census,
    pub(crate) folder: Option<&'a Folder>,
    /// The kernel's memory for one end of a connection in bytes, as measured here.
    pub(crate) connection_bytes: Option<u64>,
    /// What the workers of benchmarks take beside their objects.
    pub(crate) workers: &'a [Worker],
    /// The profile of a trial of `landau tune` that was killed and has left its settings.
    pub(crate) killed_trial: Option<&'a str>,
    pub(crate) page_bytes: u64,
}

impl Context<'_> {
    /// Returns the bound of each demand for which `of` returns one; `scope` follows the unit: " a process".
    pub(crate) fn bounds(&self, effect: Effect, scope: &str, of: impl Fn(&Needs) -> Option<u64>) -> Vec<Bound> {
        self.bounds_of_demands(effect, scope, |demand| of(&demand.kind.needs))
    }

    /// As [`Context::bounds`], for a limit of which more than the kind of load decides.
    pub(crate) fn bounds_of_demands(
        &self,
        effect: Effect,
        scope: &str,
        of: impl Fn(&Demand) -> Option<u64>,
    ) -> Vec<Bound> {
        let bound = |demand: &Demand| {
            let at_most = of(demand)?;
            // What a running program has already is in use.
            let more = if self.subject.is_other && scope == A_PROCESS { "more " } else { "" };
            let unit = format!("{more}{}{scope}", demand.kind.unit);
            Some(Bound { kind: demand.kind.name, at_most, unit, effect })
        };
        self.demands.iter().filter_map(bound).collect()
    }

    /// Returns the limit at which every size that is asked for fits, or twice the limit if none is asked for or all
    /// fit: `of` returns the limit that a size needs.
    pub(crate) fn raised(&self, limit: u64, of: impl Fn(&Needs, u64) -> Option<u64>) -> u64 {
        self.raised_for_demands(limit, |demand, size| of(&demand.kind.needs, size))
    }

    /// As [`Context::raised`], for a limit of which more than the kind of load decides.
    pub(crate) fn raised_for_demands(&self, limit: u64, of: impl Fn(&Demand, u64) -> Option<u64>) -> u64 {
        let needed = |demand: &Demand| of(demand, demand.size?);
        let most = self.demands.iter().filter_map(needed).max().filter(|&most| most > limit);
        most.unwrap_or(limit.saturating_mul(2))
    }

    /// Returns the address space that the program of a demand takes beside its own and that of `n` objects.
    pub(crate) fn worker_bytes(&self, demand: &Demand, n: u64) -> u64 {
        let worker = self.workers.iter().find(|worker| worker.benchmark == demand.kind.name);
        worker.map_or(0, |worker| (worker.bytes)(n))
    }

    /// Returns the calls of the demands' programs that `of` names, as "`accept()` and `socket()`".
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

    /// Returns "fails" or "fail", as the number of calls asks for.
    pub(crate) fn fail(calls: &str) -> &'static str {
        if calls.contains(" and ") { "fail" } else { "fails" }
    }

    /// Returns the command that edits the service of systemd whose limits the program has. A program that does not run
    /// yet may be started by any.
    pub(crate) fn edit_service_command(&self) -> String {
        self.own_service().as_ref().map_or_else(|| Group::default().edit_command(), Group::edit_command)
    }

    fn own_service(&self) -> Option<Group> {
        if self.subject.is_other { service(self.root, &self.subject.name) } else { None }
    }

    /// Returns how the service gets a resource limit. The manager of a user cannot give more than it has itself
    /// (systemd.exec(5)), so its service needs the limit first.
    pub(crate) fn limit_service(&self, directive: &str) -> String {
        let manager = self.own_service().as_ref().and_then(Group::manager);
        let first = manager.map(|manager| format!(", of its manager first by `systemctl edit {manager}`"));
        format!("{directive} by `{}`{}", self.edit_service_command(), first.unwrap_or_default())
    }

    /// Returns the path of a file of the subject's network namespace, such as `tcp`.
    pub(crate) fn net(&self, file: &str) -> String {
        self.subject.file(&format!("net/{file}"))
    }

    /// Returns whether the subject is in the first namespace of a kind (`pid`, `user`, `cgroup`), whose numbers the
    /// kernel fixes.
    pub(crate) fn is_in_first(&self, kind: &str) -> Option<bool> {
        self.is_first(&self.subject.file(&format!("ns/{kind}")), kind)
    }

    /// Returns whether this process, whichever one is examined, is known to see only a part of the host's processes or
    /// control groups.
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
