//! `landau report`: writes a self-contained page about one record, or about several on common axes.

use crate::command::show;
use crate::status;
use anyhow::Context;
use landau_record::Record;
use landau_report::page::{Options, Page, Source};
use landau_report::{Analysis, svg};
use std::ffi::OsStr;
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau report run.landau.ndjson -o report.html
  landau report before.landau.ndjson after.landau.ndjson -o compared.html
  landau report run.landau.ndjson --svg charts         write each chart as a file")]
pub(crate) struct Args {
    /// Record to report; further records are compared with the first
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Write the report to this file [default: the name of the first record with .html]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write each chart of the first record as an SVG file to this directory, and no report unless -o is given
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    let (bytes, records) = read_all(&args.files)?;
    if let Some(why) = landau_report::unlike(&records) {
        anyhow::bail!(why);
    }
    if let Some(folder) = &args.svg {
        let count = write_charts(&Analysis::of(&records[0]), folder)?;
        status::tell(&format!("{count} charts written to {}", folder.display()));
    }
    if args.svg.is_none() || args.output.is_some() {
        let output = args.output.clone().unwrap_or_else(|| page_path(&args.files[0]));
        write_page(&args.files, &bytes, records.iter().map(Analysis::of).collect(), &output)?;
        status::tell(&format!("report: {}", output.display()));
    }
    for record in &records {
        show::warn_of(record);
    }
    Ok(status::DONE)
}

/// Reads records. Returns their bytes, as a page embeds them, and their parsed contents.
pub(crate) fn read_all(paths: &[PathBuf]) -> anyhow::Result<(Vec<Vec<u8>>, Vec<Record>)> {
    let read = |path: &PathBuf| {
        let bytes = landau_record::read_file(path)?;
        let record = Record::parse(&path.display().to_string(), &bytes)?;
        Ok((bytes, record))
    };
    paths.iter().map(read).collect()
}

/// Returns the default path of a record's page: the path of the record, with .html.
pub(crate) fn page_path(record: &Path) -> PathBuf {
    record.with_file_name(OsStr::from_bytes(&[show::stem(record), b".html"].concat()))
}

/// Writes the page of one record. A record that is too large for a page is copied next to it, as `file_name`.
pub(crate) fn write_named(path: &Path, file_name: String, output: &Path) -> anyhow::Result<()> {
    let paths = [path.to_owned()];
    let (bytes, records) = read_all(&paths)?;
    let analysis = records.first().map(Analysis::of).context("one path gives one record")?;
    let name = show::names(&paths).remove(0);
    put_sources(&[Source { name, file_name, bytes: &bytes[0], analysis }], output)
}

/// Writes the page of the records with these bytes and analyses.
pub(crate) fn write_page(
    paths: &[PathBuf],
    bytes: &[Vec<u8>],
    analyses: Vec<Analysis<'_>>,
    output: &Path,
) -> anyhow::Result<()> {
    let folder = output.parent().unwrap_or(Path::new(""));
    let named = show::names(paths).into_iter().zip(file_names(paths, bytes, folder));
    let source = |((name, file_name), (bytes, analysis))| Source { name, file_name, bytes, analysis };
    let sources: Vec<Source> = named.zip(bytes.iter().map(Vec::as_slice).zip(analyses)).map(source).collect();
    put_sources(&sources, output)
}

/// Returns a distinct file name for each record, because all of them may be written to the page's directory. If records
/// with different content share a name, one keeps it, preferably the one that is already there; the others are
/// numbered.
fn file_names(paths: &[PathBuf], bytes: &[Vec<u8>], folder: &Path) -> Vec<String> {
    let own: Vec<String> = paths.iter().map(|path| show::file_name(path)).collect();
    let mut names: Vec<String> = Vec::new();
    for (index, name) in own.iter().enumerate() {
        let namesakes: Vec<usize> = (0..own.len()).filter(|at| own[*at] == *name).collect();
        let keeper = if namesakes.len() > 1 { keeper(&namesakes, bytes, &folder.join(name)) } else { index };
        let (stem, rest) = name.split_at(name.find('.').unwrap_or(name.len()));
        let is_free = |name: &String| !names.contains(name) && !own.contains(name);
        let numbered =
            || (2..=2 * own.len() + 1).map(|number| format!("{stem}-{number}{rest}")).find(is_free).unwrap_or_default();
        let same = namesakes.iter().take_while(|at| **at < index).find(|at| bytes[**at] == bytes[index]);
        let own_name = match same {
            Some(at) => names[*at].clone(),
            None if bytes[keeper] == bytes[index] => name.clone(),
            None => numbered(),
        };
        names.push(own_name);
    }
    names
}

/// Returns which of the records with the same name keeps it: the one that is at `path`, otherwise the first.
fn keeper(namesakes: &[usize], bytes: &[Vec<u8>], path: &Path) -> usize {
    let there = std::fs::read(path).ok();
    namesakes.iter().copied().find(|at| there.as_ref() == Some(&bytes[*at])).unwrap_or(namesakes[0])
}

/// Writes the page of records, and next to it the records that are too large for it.
fn put_sources(sources: &[Source<'_>], output: &Path) -> anyhow::Result<()> {
    // Every path is checked before anything is written, so that an error leaves no partial output.
    check_place(output)?;
    let page = Page::render(sources, &Options::default());
    let folder = output.parent().unwrap_or(Path::new(""));
    let mut missing = Vec::new();
    for beside in page.beside {
        let path = folder.join(&beside.file_name);
        match std::fs::metadata(&path) {
            // Often this is the record itself, which is never overwritten.
            Ok(there) if there.is_file() && std::fs::read(&path).is_ok_and(|there| there == beside.bytes) => {}
            Ok(_) => anyhow::bail!(
                "write {} next to the report: a different file has this name; write the report to another directory",
                path.display()
            ),
            Err(_) if path.is_symlink() => {
                anyhow::bail!("write {} next to the report: it is a dangling symbolic link; remove it", path.display())
            }
            // The same record may be given twice.
            Err(_) if missing.iter().any(|(other, _)| *other == path) => {}
            Err(_) => missing.push((path, beside.bytes)),
        }
    }
    for (path, bytes) in missing {
        write_new(&path, &bytes)?;
    }
    put_page(output, &page.html)
}

/// Writes a page atomically. Only an existing page is replaced, so that a typing error cannot destroy a record.
pub(crate) fn put_page(output: &Path, html: &str) -> anyhow::Result<()> {
    check_place(output)?;
    // The target of a symbolic link is replaced, not the link. A dangling link is written through.
    let place = output.canonicalize().unwrap_or_else(|_| output.to_owned());
    if place.is_symlink() {
        return std::fs::write(&place, html).with_context(|| format!("write {}", output.display()));
    }
    let beside = place.with_extension(format!("{}.html.part", std::process::id()));
    let write = || {
        std::fs::File::create_new(&beside)?.write_all(html.as_bytes())?;
        std::fs::rename(&beside, &place)
    };
    let written = write();
    if written.is_err() {
        // A partial page would only use disk space. It may not exist, so a failure is ignored.
        let _ = std::fs::remove_file(&beside);
    }
    written.with_context(|| format!("write {}", output.display()))
}

/// Returns an error if the path is anything other than a page, or if no page can be written there.
pub(crate) fn check_place(output: &Path) -> anyhow::Result<()> {
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        anyhow::bail!(
            "write {}: directory {} does not exist; create it or choose another",
            output.display(),
            folder.display()
        );
    }
    // `metadata` follows symbolic links. Reading a device or a pipe may never end, and a page would replace it.
    match std::fs::metadata(output) {
        Ok(there) if there.is_dir() => {
            let inside = output.join("report.html");
            anyhow::bail!(
                "write {}: it is a directory; specify a file, such as {}",
                output.display(),
                inside.display()
            );
        }
        Ok(there) if !there.is_file() => {
            anyhow::bail!("write {}: it is a device, a pipe or a socket; specify a file", output.display())
        }
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("write {}", output.display()));
        }
        _ => {}
    }
    let mut first = [0_u8; 1];
    let read = std::fs::File::open(output).and_then(|mut file| std::io::Read::read(&mut file, &mut first));
    match read {
        Ok(len) if len > 0 && first != *b"<" => {
            anyhow::bail!("{} is not a page and will not be overwritten; choose another name", output.display())
        }
        // A file that cannot be read might not be a page.
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("read {}, which will not be overwritten", output.display()))
        }
        _ => Ok(()),
    }
}

/// Checks that a page can be written, and that it does not overwrite a file of the same command, such as a record or a
/// ledger. `names` are the two options: "-o and --record".
pub(crate) fn check_page(
    output: &Path,
    names: &str,
    files: impl IntoIterator<Item = impl AsRef<Path>>,
) -> anyhow::Result<()> {
    if files.into_iter().any(|file| is_same_file(file.as_ref(), output)) {
        anyhow::bail!("{names} name the same file: {}", output.display());
    }
    check_place(output)
}

/// Returns whether two paths name the same file, which need not exist: `r` and `./r`.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some((folder.canonicalize().ok()?, path.file_name()?.to_owned()))
    };
    one == other || place(one).is_some_and(|one| place(other) == Some(one))
}

/// Writes a file that must not exist: records are never overwritten. The file appears under its name only when it is
/// complete; a partial record would block the page permanently.
fn write_new(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    let linked = create_whole(Path::new(&beside), bytes).and_then(|()| {
        // Unlike rename(2), link(2) does not replace an existing file.
        let linked = std::fs::hard_link(&beside, path);
        let _ = std::fs::remove_file(&beside);
        linked
    });
    let written = match linked {
        // The file system does not support hard links.
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported) => {
            create_whole(path, bytes)
        }
        linked => linked,
    };
    written.with_context(|| format!("write {} next to the report", path.display()))
}

/// Creates a file, and removes it if it cannot be written completely.
fn create_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = std::fs::File::create_new(path)?;
    let written = file.write_all(bytes);
    if written.is_err() {
        let _ = std::fs::remove_file(path);
    }
    written
}

fn write_charts(analysis: &Analysis, folder: &Path) -> anyhow::Result<usize> {
    let name = folder.display();
    std::fs::create_dir_all(folder)
        .with_context(|| format!("--svg {name}: cannot create this directory; choose another"))?;
    let charts = svg::charts(analysis);
    for (name, chart) in &charts {
        let path = folder.join(name);
        std::fs::write(&path, chart).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(charts.len())
}

#[cfg(test)]
mod tests {
    use super::{check_page, file_names, page_path};
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Path, PathBuf};

    /// Guards against a page that replaces the page of another record.
    #[test]
    fn records_whose_names_are_not_utf_8_have_pages_of_their_own() {
        let page = |name: &[u8]| page_path(&Path::new("a").join(OsStr::from_bytes(name)));
        assert_eq!(page(b"\xff.landau.ndjson"), Path::new("a").join(OsStr::from_bytes(b"\xff.html")));
        assert_ne!(page(b"\xff.landau.ndjson"), page(b"\xfe.landau.ndjson"));
        assert_eq!(page(b"r.landau.ndjson.gz"), Path::new("a/r.html"));
        assert_eq!((page(b"r"), page(b"r.ndjson")), (PathBuf::from("a/r.html"), PathBuf::from("a/r.html")));
    }

    /// Guards against a page that overwrites the record or ledger of its command.
    #[test]
    fn a_page_is_not_written_over_a_file_of_its_command() {
        let folder = tempfile::tempdir().unwrap();
        let (record, page) = (folder.path().join("r"), folder.path().join("p.html"));
        let wrong = check_page(&folder.path().join("./r"), "-o and --record", [&record]).unwrap_err().to_string();
        assert!(wrong.starts_with("-o and --record name the same file: "), "{wrong}");
        check_page(&page, "-o and --record", [&record]).unwrap();
        let wrong = check_page(folder.path(), "-o and --record", [&record]).unwrap_err().to_string();
        assert!(wrong.contains("it is a directory"), "{wrong}");
    }

    /// Guards against two records that are copied to the same file next to their page.
    #[test]
    fn records_with_equal_names_have_files_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let of = |files: &[(&str, &str)]| {
            let (paths, bytes): (Vec<_>, Vec<_>) =
                files.iter().map(|(path, text)| (PathBuf::from(path), text.as_bytes().to_vec())).unzip();
            file_names(&paths, &bytes, folder.path())
        };
        let names = of(&[("a/r.landau.ndjson", "1"), ("b/r.landau.ndjson.gz", "2"), ("r-2.landau.ndjson", "3")]);
        assert_eq!(names, ["r.landau.ndjson", "r-3.landau.ndjson", "r-2.landau.ndjson"]);
        let twice = of(&[("r", "1"), ("a/r", "2"), ("./r", "1"), ("b/r", "2"), ("c/r", "3")]);
        assert_eq!(twice, ["r", "r-2", "r", "r-2", "r-3"]);
        // The second is already in the directory of the page.
        std::fs::write(folder.path().join("r"), "2").unwrap();
        assert_eq!(of(&[("old/r", "1"), ("r", "2")]), ["r-2", "r"]);
    }
}
