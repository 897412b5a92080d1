//! Which engine runs what was named, and why: as the user says, or as what is there allows.

use crate::engine::{Engine, probe};
use crate::error::Error;
use crate::image::Kind;
use crate::kernel::{self, Kernel, Source};
use std::path::{Path, PathBuf};

/// What will run, and how.
#[derive(Debug)]
pub struct Choice {
    /// The engine; a kernel at the other end of ssh has its own.
    pub engine: Engine,
    /// Why this one, in a sentence without its full stop.
    pub why: String,
    /// The kernels, in the order in which they were named.
    pub kernels: Vec<Kernel>,
    /// Those that the archive names but does not give.
    pub lost: Vec<Lost>,
}

/// A kernel that cannot be fetched.
#[derive(Debug)]
pub struct Lost {
    /// The user's word for it.
    pub word: String,
    /// Why.
    pub why: kernel::Error,
}

/// Where things are.
#[derive(Debug)]
pub struct Places<'a> {
    /// The folder for what is fetched and remembered.
    pub cache: &'a Path,
    /// The program that measures.
    pub program: &'a Path,
}

fn refuse<T>(reason: String) -> Result<T, Error> {
    Err(Error::Guest(reason))
}

/// Gets every kernel, and the engine for them: `wanted`, or without one whatever suits. `tell` hears what takes long.
pub fn choose(
    words: &[String],
    wanted: Option<Engine>,
    places: &Places,
    tell: &mut dyn FnMut(&str),
) -> Result<Choice, Error> {
    let sources: Vec<Source> = words.iter().map(|word| Source::parse(word)).collect();
    let are = |test: fn(&Source) -> bool| sources.iter().filter(|one| test(one)).count();
    let here = are(|one| *one == Source::Host);
    let there = are(|one| matches!(one, Source::Ssh(_)));
    let engine = match wanted {
        None if there == sources.len() => Some(Engine::Ssh),
        None if here + there == sources.len() => Some(Engine::Native),
        Some(Engine::Ssh) if there < sources.len() => {
            return refuse("--engine ssh wants --kernel ssh:user@host and no other".to_owned());
        }
        other => other,
    };
    if there > 0 && engine.is_none_or(|engine| engine.unit() != Engine::Ssh.unit() || engine.boots()) {
        return refuse(
            "a kernel at the other end of ssh is timed, and can stand beside --kernel host only; measure the others in \
             a run of their own"
                .to_owned(),
        );
    }
    if let Some(engine) = engine.filter(|engine| !engine.boots() && *engine != Engine::Ssh)
        && let Some(word) = words.iter().find(|word| !matches!(Source::parse(word), Source::Host | Source::Ssh(_)))
    {
        return refuse(format!(
            "the engine `{}` runs on the kernel that is there already: --kernel host and not {word}; --engine exact or \
             kvm boots it",
            engine.name()
        ));
    }
    let (kernels, lost) = obtain_all(words, engine, places.cache, tell)?;
    let (engine, why) = match (wanted, engine) {
        (Some(engine), _) => (engine, "it was asked for".to_owned()),
        (None, Some(Engine::Ssh)) => (Engine::Ssh, "the kernels are elsewhere".to_owned()),
        (None, Some(engine)) => (engine, "the kernel that runs already needs no machine".to_owned()),
        (None, None) => suited(&kernels, places, tell)?,
    };
    check_kinds(engine, &kernels)?;
    if wanted == Some(Engine::Kvm) {
        check_kvm(&kernels, places, tell)?;
    }
    Ok(Choice { engine, why, kernels, lost })
}

/// The kernels of all words. A word that means nothing ends it; what the archive lost does not, if others are left.
fn obtain_all(
    words: &[String],
    engine: Option<Engine>,
    cache: &Path,
    tell: &mut dyn FnMut(&str),
) -> Result<(Vec<Kernel>, Vec<Lost>), Error> {
    let (mut kernels, mut lost) = (Vec::new(), Vec::new());
    for word in words {
        match obtain(word, engine, cache, tell) {
            Ok(kernel) => kernels.push(kernel),
            Err(Error::Kernel(why @ kernel::Error::Fetch { .. })) => lost.push(Lost { word: word.clone(), why }),
            Err(error) => return Err(error),
        }
    }
    match lost.pop() {
        Some(last) if kernels.is_empty() => Err(last.why.into()),
        last => {
            lost.extend(last);
            Ok((kernels, lost))
        }
    }
}

/// The kernel of a word, as the engine wants it.
fn obtain(word: &str, engine: Option<Engine>, cache: &Path, tell: &mut dyn FnMut(&str)) -> Result<Kernel, Error> {
    match Source::parse(word) {
        Source::Ssh(target) => Ok(Kernel::remote(&target)),
        Source::Host if engine.is_some_and(|engine| !engine.boots()) => Ok(Kernel::running()),
        Source::Host => Ok(kernel::obtain(&own_image()?.to_string_lossy(), cache, tell)?),
        Source::Image(path) => Ok(Kernel::on_disk(&path)?),
        _ => Ok(kernel::obtain(word, cache, tell)?),
    }
}

/// The file of the kernel that runs now.
pub fn own_image() -> Result<PathBuf, Error> {
    let release = landau_sys::system::kernel()?.release;
    let places = [format!("/boot/vmlinuz-{release}"), format!("/lib/modules/{release}/vmlinuz")];
    let mut refused = Vec::new();
    for place in places.iter().map(PathBuf::from) {
        match std::fs::File::open(&place) {
            Ok(_) => return Ok(place),
            Err(error) => refused.push(format!("{}: {error}", place.display())),
        }
    }
    let refused = refused.join("; ");
    refuse(format!(
        "--kernel host is to be booted, but the running kernel's file cannot be read ({refused}); give its bzImage as \
         --kernel FILE, or measure it where it runs, alone, with --engine native"
    ))
}

/// The engine for kernels in files: the hypervisor where it works, else the emulator that counts.
fn suited(kernels: &[Kernel], places: &Places, tell: &mut dyn FnMut(&str)) -> Result<(Engine, String), Error> {
    if kernels.iter().all(|kernel| kernel.kind == Kind::Uml) {
        return Ok((Engine::Uml, "these kernels are programs".to_owned()));
    }
    let Some(kernel) = kernels.iter().find(|kernel| can_be_booted(kernel)) else {
        let answer = probe::known(places.cache).filter(|answer| answer.works);
        return Ok(match answer {
            Some(answer) => (Engine::Kvm, format!("kvm works here: {}", answer.why)),
            None => (Engine::Exact, "it is not known that kvm works here".to_owned()),
        });
    };
    let answer = probe::ask(kernel, places.program, places.cache, tell)?;
    Ok(if answer.works {
        (Engine::Kvm, format!("kvm works here: {}", answer.why))
    } else {
        (Engine::Exact, format!("kvm does not work here: {}", answer.why))
    })
}

/// Whether the hypervisor that was asked for works: else each kernel would be waited for in vain.
fn check_kvm(kernels: &[Kernel], places: &Places, tell: &mut dyn FnMut(&str)) -> Result<(), Error> {
    let Some(kernel) = kernels.iter().find(|kernel| can_be_booted(kernel)) else {
        return Ok(());
    };
    let answer = probe::ask(kernel, places.program, places.cache, tell)?;
    if answer.works {
        return Ok(());
    }
    let again = format!("remove {} to try it anew", probe::file(places.cache).display());
    let reason = format!("{}; --engine exact needs no hypervisor; {again}", answer.why);
    Err(Error::Engine { engine: Engine::Kvm.name().to_owned(), reason })
}

fn can_be_booted(kernel: &Kernel) -> bool {
    matches!(kernel.kind, Kind::BzImage | Kind::Vmlinux { .. })
}

/// Whether the engine can do anything with these.
fn check_kinds(engine: Engine, kernels: &[Kernel]) -> Result<(), Error> {
    for kernel in kernels {
        let fits = match (engine, &kernel.kind) {
            (_, Kind::Remote) => !engine.boots(),
            (Engine::Uml, kind) => *kind == Kind::Uml,
            (Engine::Kvm | Engine::Exact | Engine::Tcg, Kind::DiskImage(_)) => true,
            (Engine::Kvm | Engine::Exact | Engine::Tcg | Engine::Vng, _) => can_be_booted(kernel),
            (Engine::Native | Engine::Netns | Engine::Gvisor, kind) => *kind == Kind::Running,
            (Engine::Ssh, _) => false,
        };
        if !fits {
            let is = match kernel.kind {
                Kind::Uml => "user-mode Linux, which --engine uml runs",
                Kind::DiskImage(_) => "a whole system on a disk, which --engine exact, kvm or tcg boots",
                _ => "a kernel for a machine, which --engine exact, kvm or tcg boots",
            };
            let name = engine.name();
            return refuse(format!("the engine `{name}` cannot run {}: it is {is}", kernel.origin));
        }
    }
    Ok(())
}
