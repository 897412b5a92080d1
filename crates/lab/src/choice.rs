//! Which platform runs what was named, and why: as the user says, or as what is there allows.

use crate::error::Error;
use crate::image::Kind;
use crate::kernel::{self, Kernel, Source};
use crate::platform::{Platform, probe};
use std::path::{Path, PathBuf};

/// What will run, and how.
#[derive(Debug)]
pub struct Choice {
    /// The platform; a kernel at the other end of ssh has its own.
    pub platform: Platform,
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

/// Gets every kernel, and the platform for them: `wanted`, or without one whatever suits. `tell` hears what takes long.
pub fn choose(
    words: &[String],
    wanted: Option<Platform>,
    places: &Places,
    tell: &mut dyn FnMut(&str),
) -> Result<Choice, Error> {
    let sources: Vec<Source> = words.iter().map(|word| Source::parse(word)).collect();
    let are = |test: fn(&Source) -> bool| sources.iter().filter(|one| test(one)).count();
    let here = are(|one| *one == Source::Host);
    let there = are(|one| matches!(one, Source::Ssh(_)));
    let platform = match wanted {
        None if there == sources.len() => Some(Platform::Ssh),
        None if here + there == sources.len() => Some(Platform::Native),
        Some(Platform::Ssh) if there < sources.len() => {
            return refuse("--platform ssh wants --kernel ssh:user@host and no other".to_owned());
        }
        other => other,
    };
    if there > 0 && platform.is_none_or(|platform| platform.unit() != Platform::Ssh.unit() || platform.boots()) {
        return refuse(
            "a kernel at the other end of ssh is timed, and can stand beside --kernel host only; measure the others in \
             a run of their own"
                .to_owned(),
        );
    }
    if let Some(platform) = platform.filter(|platform| !platform.boots() && *platform != Platform::Ssh)
        && let Some(word) = words.iter().find(|word| !matches!(Source::parse(word), Source::Host | Source::Ssh(_)))
    {
        return refuse(format!(
            "the platform `{}` runs on the kernel that is there already: --kernel host and not {word}; --platform exact or \
             kvm boots it",
            platform.name()
        ));
    }
    let (kernels, lost) = obtain_all(words, platform, places.cache, tell)?;
    let (platform, why) = match (wanted, platform) {
        (Some(platform), _) => (platform, "it was asked for".to_owned()),
        (None, Some(Platform::Ssh)) => (Platform::Ssh, "the kernels are elsewhere".to_owned()),
        (None, Some(platform)) => (platform, "the kernel that runs already needs no machine".to_owned()),
        (None, None) => suited(&kernels, places, tell)?,
    };
    check_kinds(platform, &kernels)?;
    if wanted == Some(Platform::Kvm) {
        check_kvm(&kernels, places, tell)?;
    }
    Ok(Choice { platform, why, kernels, lost })
}

/// The kernels of all words. A word that means nothing ends it; what the archive lost does not, if others are left.
fn obtain_all(
    words: &[String],
    platform: Option<Platform>,
    cache: &Path,
    tell: &mut dyn FnMut(&str),
) -> Result<(Vec<Kernel>, Vec<Lost>), Error> {
    let (mut kernels, mut lost) = (Vec::new(), Vec::new());
    for word in words {
        match obtain(word, platform, cache, tell) {
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

/// The kernel of a word, as the platform wants it.
fn obtain(word: &str, platform: Option<Platform>, cache: &Path, tell: &mut dyn FnMut(&str)) -> Result<Kernel, Error> {
    match Source::parse(word) {
        Source::Ssh(target) => Ok(Kernel::remote(&target)),
        Source::Host if platform.is_some_and(|platform| !platform.boots()) => Ok(Kernel::running()),
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
         --kernel FILE, or measure it where it runs, alone, with --platform native"
    ))
}

/// The platform for kernels in files: the hypervisor where it works, else the emulator that counts.
fn suited(kernels: &[Kernel], places: &Places, tell: &mut dyn FnMut(&str)) -> Result<(Platform, String), Error> {
    if kernels.iter().all(|kernel| kernel.kind == Kind::Uml) {
        return Ok((Platform::Uml, "these kernels are programs".to_owned()));
    }
    let Some(kernel) = kernels.iter().find(|kernel| can_be_booted(kernel)) else {
        let answer = probe::known(places.cache).filter(|answer| answer.works);
        return Ok(match answer {
            Some(answer) => (Platform::Kvm, format!("kvm works here: {}", answer.why)),
            None => (Platform::Exact, "it is not known that kvm works here".to_owned()),
        });
    };
    let answer = probe::ask(kernel, places.program, places.cache, tell)?;
    Ok(if answer.works {
        (Platform::Kvm, format!("kvm works here: {}", answer.why))
    } else {
        (Platform::Exact, format!("kvm does not work here: {}", answer.why))
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
    let reason = format!("{}; --platform exact needs no hypervisor; {again}", answer.why);
    Err(Error::Platform { platform: Platform::Kvm.name().to_owned(), reason })
}

fn can_be_booted(kernel: &Kernel) -> bool {
    matches!(kernel.kind, Kind::BzImage | Kind::Vmlinux { .. })
}

/// Whether the platform can do anything with these.
fn check_kinds(platform: Platform, kernels: &[Kernel]) -> Result<(), Error> {
    for kernel in kernels {
        let fits = match (platform, &kernel.kind) {
            (_, Kind::Remote) => !platform.boots(),
            (Platform::Uml, kind) => *kind == Kind::Uml,
            (Platform::Kvm | Platform::Exact | Platform::Tcg, Kind::DiskImage(_)) => true,
            (Platform::Kvm | Platform::Exact | Platform::Tcg | Platform::Vng, _) => can_be_booted(kernel),
            (Platform::Native | Platform::Netns | Platform::Gvisor, kind) => *kind == Kind::Running,
            (Platform::Ssh, _) => false,
        };
        if !fits {
            let is = match kernel.kind {
                Kind::Uml => "user-mode Linux, which --platform uml runs",
                Kind::DiskImage(_) => "a whole system on a disk, which --platform exact, kvm or tcg boots",
                _ => "a kernel for a machine, which --platform exact, kvm or tcg boots",
            };
            let name = platform.name();
            return refuse(format!("the platform `{name}` cannot run {}: it is {is}", kernel.origin));
        }
    }
    Ok(())
}
