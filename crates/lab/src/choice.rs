//! Selects the platform and obtains the kernels, as the user specifies or as this host allows.

use crate::error::Error;
use crate::kernel::{self, Kernel, Kind, Source};
use crate::obtain;
use crate::platform::{self, Platform};
use crate::probe::{self, Outcome};
use std::path::{Path, PathBuf};

/// The platform and the kernels of a run.
#[derive(Debug)]
pub struct Choice {
    /// The platform; a remote kernel always runs by ssh.
    pub platform: &'static dyn Platform,
    /// Why this platform was selected, if others were tried.
    pub why: Option<String>,
    /// The kernels, in the order given.
    pub kernels: Vec<Kernel>,
    /// The kernels that the archive lists but does not have.
    pub missing: Vec<Missing>,
}

/// A kernel that cannot be fetched.
#[derive(Debug)]
pub struct Missing {
    /// The value of `--kernel`.
    pub word: String,
    /// Why.
    pub why: kernel::Error,
}

/// The paths that a choice needs.
#[derive(Debug)]
pub struct Paths<'a> {
    /// The directory for fetched kernels and results of probes, if there is one. The running kernel needs none.
    pub cache: Option<&'a Path>,
    /// The program that measures.
    pub program: &'a Path,
}

fn refuse<T>(reason: String) -> Result<T, Error> {
    Err(Error::Guest(reason))
}

/// Obtains every kernel, and selects the platform for them: `wanted`, or otherwise the preferred one that works.
/// `report` is called before each slow operation.
pub fn choose(
    words: &[String],
    wanted: Option<&'static dyn Platform>,
    paths: &Paths,
    report: &mut dyn FnMut(&str),
) -> Result<Choice, Error> {
    let sources = words.iter().map(|word| Source::parse(word)).collect::<Result<Vec<_>, _>>()?;
    let has_kernel = |source: &Source| matches!(source, Source::Host | Source::Ssh(_));
    let boots = wanted.map_or_else(|| !sources.iter().all(has_kernel), <dyn Platform>::boots);
    check_sources(words, &sources, wanted, boots)?;
    let (kernels, missing) = obtain_all(words, &sources, boots, paths.cache, report)?;
    let (platform, why) = match wanted {
        Some(platform) => (platform, None),
        None => preferred(&kernels, paths, report)?,
    };
    check_kinds(platform, &kernels)?;
    if wanted.is_some() {
        check_works(platform, &kernels, paths, report)?;
    }
    Ok(Choice { platform, why, kernels, missing })
}

/// Refuses combinations that cannot work, before anything is fetched.
fn check_sources(
    words: &[String],
    sources: &[Source],
    wanted: Option<&'static dyn Platform>,
    boots: bool,
) -> Result<(), Error> {
    let has_remote = sources.iter().any(|one| matches!(one, Source::Ssh(_)));
    if has_remote && boots {
        return refuse(
            "a kernel reached by ssh is timed on its machine and can only be compared with --kernel host; measure the \
             other kernels in a separate run"
                .to_owned(),
        );
    }
    let Some(platform) = wanted.filter(|_| !boots) else { return Ok(()) };
    for (word, source) in words.iter().zip(sources) {
        let name = platform.name();
        match source {
            Source::Ssh(_) => {}
            Source::Host if platform.runs(&Kind::Running) => {}
            Source::Host => {
                return refuse(format!("the platform `{name}` needs --kernel ssh:USER@HOST, not {word}"));
            }
            _ if platform.runs(&Kind::Running) => {
                let names = platform::names_for(&Kind::BzImage);
                return refuse(format!(
                    "the platform `{name}` measures the running kernel: it needs --kernel host, not {word}; \
                     --platform {names} boots a kernel"
                ));
            }
            _ => return refuse(format!("the platform `{name}` needs --kernel ssh:USER@HOST, not {word}")),
        }
    }
    Ok(())
}

/// Obtains all kernels. Any error aborts this, except that a kernel missing from the archive is skipped if there are
/// others.
fn obtain_all(
    words: &[String],
    sources: &[Source],
    boots: bool,
    cache: Option<&Path>,
    report: &mut dyn FnMut(&str),
) -> Result<(Vec<Kernel>, Vec<Missing>), Error> {
    let (mut kernels, mut missing) = (Vec::new(), Vec::new());
    for (word, source) in words.iter().zip(sources) {
        match obtain_one(word, source, boots, cache, report) {
            Ok(kernel) => kernels.push(kernel),
            Err(Error::Kernel(why @ kernel::Error::Fetch { .. })) => missing.push(Missing { word: word.clone(), why }),
            Err(error) => return Err(error),
        }
    }
    match missing.pop() {
        Some(last) if kernels.is_empty() => Err(last.why.into()),
        last => {
            missing.extend(last);
            Ok((kernels, missing))
        }
    }
}

/// Obtains one kernel. With `boots`, the running kernel is read from its file.
fn obtain_one(
    word: &str,
    source: &Source,
    boots: bool,
    cache: Option<&Path>,
    report: &mut dyn FnMut(&str),
) -> Result<Kernel, Error> {
    let needed = || cache.ok_or(Error::NoCache);
    match source {
        Source::Ssh(target) => Ok(Kernel::remote(target)),
        Source::Host if !boots => Ok(Kernel::running()),
        Source::Host => Ok(obtain::obtain(&running_image()?.to_string_lossy(), needed()?, report)?),
        Source::Image(path) => Ok(obtain::on_disk(path, report)?),
        _ => Ok(obtain::obtain(word, needed()?, report)?),
    }
}

/// Returns the running kernel's file.
fn running_image() -> Result<PathBuf, Error> {
    let release = landau_sys::system::kernel()?.release;
    let paths = [format!("/boot/vmlinuz-{release}"), format!("/lib/modules/{release}/vmlinuz")];
    let mut errors = Vec::new();
    for path in paths.iter().map(PathBuf::from) {
        match std::fs::File::open(&path) {
            Ok(_) => return Ok(path),
            Err(error) => errors.push(format!("{}: {error}", path.display())),
        }
    }
    let errors = errors.join("; ");
    refuse(format!(
        "cannot boot --kernel host: the running kernel's file cannot be read ({errors}); give its bzImage as --kernel \
         FILE, or measure the running kernel in a separate run with --platform native"
    ))
}

/// Returns the preferred platform that can run these kernels and works, and why the ones with a higher preference do
/// not.
fn preferred(
    kernels: &[Kernel],
    paths: &Paths,
    report: &mut dyn FnMut(&str),
) -> Result<(&'static dyn Platform, Option<String>), Error> {
    let fits = |one: &&dyn Platform| one.preference() > 0 && check_kinds(*one, kernels).is_ok();
    let mut candidates: Vec<&'static dyn Platform> = platform::REGISTRY.iter().copied().filter(fits).collect();
    // A platform that does not run the remote kernels itself comes last: they are only measured beside the running one.
    let runs_all = |one: &&dyn Platform| kernels.iter().all(|kernel| one.runs(&kernel.kind));
    candidates.sort_by_key(|one| std::cmp::Reverse((runs_all(one), one.preference())));
    let mut reasons = Vec::new();
    for candidate in candidates {
        let name = candidate.name();
        if candidate.unproven_device().is_none() {
            return Ok((candidate, (!reasons.is_empty()).then(|| reasons.join("; "))));
        }
        let outcome = match kernels.iter().find(|kernel| kernel.kind.is_bootable()) {
            Some(kernel) => Some(probe::probe(candidate, kernel, paths.program, paths.cache, report)?),
            None => probe::known(candidate, paths.program, paths.cache),
        };
        match outcome {
            Some(outcome) if outcome.works => return Ok((candidate, Some(format!("{name} works: {}", outcome.why)))),
            Some(outcome) => reasons.push(format!("{name} does not work: {}", outcome.why)),
            None => reasons.push(format!("{name} has not been tested on this host")),
        }
    }
    let kinds: Vec<String> = kernels.iter().map(|kernel| platform::names_for(&kernel.kind)).collect();
    refuse(format!("no platform can run all of these kernels: they need {}; use separate runs", kinds.join(", ")))
}

/// Checks that the platform that the user chose works. Otherwise each kernel would time out.
fn check_works(
    platform: &'static dyn Platform,
    kernels: &[Kernel],
    paths: &Paths,
    report: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let bootable = kernels.iter().find(|kernel| kernel.kind.is_bootable());
    let Some(kernel) = bootable.filter(|_| platform.unproven_device().is_some()) else { return Ok(()) };
    let outcome = probe::probe(platform, kernel, paths.program, paths.cache, report)?;
    refuse_broken(platform, &outcome, paths, "use --platform exact")
}

/// Checks that no earlier probe showed that the platform does not work. Nothing is booted: in a bisection, a kernel
/// that does not boot is nothing unusual, and is not evidence about the platform.
pub fn check_known(platform: &dyn Platform, paths: &Paths, instead: &str) -> Result<(), Error> {
    if platform.unproven_device().is_none() {
        return Ok(());
    }
    match probe::known(platform, paths.program, paths.cache) {
        Some(outcome) => refuse_broken(platform, &outcome, paths, instead),
        None => Ok(()),
    }
}

/// Returns an error if a platform does not work. `instead` is what the user can do.
fn refuse_broken(platform: &dyn Platform, outcome: &Outcome, paths: &Paths, instead: &str) -> Result<(), Error> {
    if outcome.works {
        return Ok(());
    }
    // Without a file, the platform is tried each time.
    let file = paths.cache.map(|cache| probe::file(platform, cache)).filter(|file| file.exists());
    let again = file.map_or(String::new(), |file| format!(", or remove {} to try again", file.display()));
    let reason = format!("{}; {instead}{again}", outcome.why);
    Err(Error::unusable(platform.name(), reason))
}

/// Checks that the platform can run these kernels; a remote kernel may be measured beside the running one.
fn check_kinds(platform: &dyn Platform, kernels: &[Kernel]) -> Result<(), Error> {
    let is_beside = |kernel: &Kernel| kernel.kind == Kind::Remote && platform.runs(&Kind::Running);
    kernels.iter().filter(|kernel| !is_beside(kernel)).try_for_each(|kernel| platform.check_kind(kernel))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

    use super::*;
    use crate::job::Job;
    use crate::launch::Launch;
    use crate::machine::Machine;
    use landau_record::schema::{Lab, Unit};

    /// A platform whose device may open although the platform does not work.
    #[derive(Debug)]
    struct Broken;

    impl Platform for Broken {
        fn name(&self) -> &'static str {
            "broken"
        }

        fn about(&self) -> &'static str {
            "a stand-in"
        }

        fn unit(&self) -> Unit {
            Unit::Ns
        }

        fn runs(&self, kind: &Kind) -> bool {
            kind.is_bootable()
        }

        fn unproven_device(&self) -> Option<&'static str> {
            Some("/dev/null")
        }

        fn check(&self, _program: &Path) -> Result<String, Error> {
            Ok("1".to_owned())
        }

        fn launch(&self, _machine: &Machine, _job: &Job) -> Result<Launch, Error> {
            refuse("it must not be started".to_owned())
        }

        fn describe(&self, _machine: &Machine) -> Result<Lab, Error> {
            refuse("it must not be started".to_owned())
        }
    }

    /// Guards against kernels that are all untestable because the platform is known not to work, and against a probe
    /// that mistakes a kernel that does not boot for a platform that does not work.
    #[test]
    fn a_platform_that_is_known_not_to_work_is_refused_with_what_to_do() {
        let cache = tempfile::tempdir().unwrap();
        let paths = Paths { cache: Some(cache.path()), program: Path::new("/proc/self/exe") };
        let check = || check_known(&Broken, &paths, "claim instructions").map_err(|error| error.to_string());
        assert_eq!(check(), Ok(()));
        let keep = |works: bool, why: &str| {
            let outcome = Outcome::of(&Broken, "1".to_owned(), works, why.to_owned());
            std::fs::write(probe::file(&Broken, cache.path()), serde_json::to_string(&outcome).unwrap()).unwrap();
        };
        keep(false, "no guest comes up");
        let said = check().unwrap_err();
        assert!(said.contains("no guest comes up; claim instructions, or remove "), "{said}");
        keep(true, "a guest came up");
        assert_eq!(check(), Ok(()));
    }
}
