//! `registry`: writes the lists that name every file of a directory, between their markers.
//!
//! A benchmark, law, command, platform, server, gate or allocator is one file; a handwritten list would be a second
//! place to edit. The lists are plain Rust, which editors understand. `--check` fails if one is out of date.

use crate::workspace;
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;

/// Arguments of `registry`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// Only report which lists are out of date
    #[arg(long)]
    check: bool,
}

const BEGIN: &str = "// registry:begin";
const END: &str = "// registry:end";

/// A file of the directory.
struct Module {
    name: String,
    text: String,
}

/// A generated list: its file, and the function that renders it.
struct List {
    file: &'static str,
    render: fn(&[Module]) -> Result<String>,
}

const LISTS: [List; 8] = [
    List { file: "crates/architectures/src/list/mod.rs", render: architectures },
    List { file: "crates/bench/src/list/mod.rs", render: benchmarks },
    List { file: "crates/bench/src/server/list/mod.rs", render: servers },
    List { file: "crates/cli/src/command/mod.rs", render: commands },
    List { file: "crates/lab/src/platform/mod.rs", render: platforms },
    List { file: "crates/load/src/gate/mod.rs", render: gates },
    List { file: "crates/pids/src/list/mod.rs", render: allocators },
    List { file: "crates/stats/src/law/registry.rs", render: laws },
];

/// Returns whether every list is up to date, as `registry --check` does.
pub(crate) fn check() -> Result<bool> {
    run(&Words { check: true })
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    let mut is_current = true;
    for list in &LISTS {
        let old = workspace::read(list.file)?;
        let modules = modules_beside(list.file)?;
        let new = between_markers(&old, &(list.render)(&modules)?).with_context(|| list.file)?;
        if old == new {
            continue;
        }
        if words.check {
            println!("{}: out of date; run `cargo xtask registry`", list.file);
            is_current = false;
        } else {
            std::fs::write(workspace::root().join(list.file), new).with_context(|| format!("write {}", list.file))?;
            println!("wrote {}", list.file);
        }
    }
    Ok(is_current)
}

/// Returns the other files of the list's directory, by name.
fn modules_beside(file: &str) -> Result<Vec<Module>> {
    let path = workspace::root().join(file);
    let folder = path.parent().context("a list is in a directory")?;
    let mut modules = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let found = entry?.path();
        let Some(name) = found.file_stem().and_then(|name| name.to_str()) else { continue };
        let is_module = found.extension().is_some_and(|ending| ending == "rs") && name != "mod" && found != path;
        if is_module {
            let text = std::fs::read_to_string(&found).with_context(|| format!("read {}", found.display()))?;
            modules.push(Module { name: name.to_owned(), text });
        }
    }
    modules.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(modules)
}

/// Returns `text` with `inner` between its markers.
fn between_markers(text: &str, inner: &str) -> Result<String> {
    let (head, rest) = text.split_once(BEGIN).with_context(|| format!("has no `{BEGIN}`"))?;
    let (_, tail) = rest.split_once(END).with_context(|| format!("has no `{END}`"))?;
    Ok(format!("{head}{BEGIN}\n{inner}{END}{tail}"))
}

/// Returns the type for which a file implements a trait.
fn implementer<'a>(module: &'a Module, of: &str) -> Result<&'a str> {
    let mark = format!("impl {of} for ");
    let line = module.text.lines().find_map(|line| line.strip_prefix(mark.as_str()));
    let name = line.and_then(|rest| rest.split(|c: char| !c.is_alphanumeric()).next());
    match name {
        Some(name) if !name.is_empty() => Ok(name),
        _ => bail!("{}.rs has no line that begins with `{mark}`", module.name),
    }
}

fn benchmarks(modules: &[Module]) -> Result<String> {
    let mut text = String::new();
    for module in modules {
        writeln!(text, "pub mod {};", module.name)?;
    }
    text.push_str("\n/// Every benchmark, by name.\npub static REGISTRY: &[Entry] = &[\n");
    for module in modules {
        writeln!(text, "    Entry::of::<{}::{}>(),", module.name, implementer(module, "Benchmark")?)?;
    }
    text.push_str("];\n");
    Ok(text)
}

fn servers(modules: &[Module]) -> Result<String> {
    let mut text = String::new();
    for module in modules {
        writeln!(text, "mod {};", module.name)?;
    }
    text.push_str("\n/// Every server by name, in the order of the file names.\n");
    text.push_str("pub(super) const SERVERS: &[(&str, &dyn WebServer)] = &[\n");
    for module in modules {
        writeln!(text, "    (\"{0}\", &{0}::{1}),", module.name, implementer(module, "WebServer")?)?;
    }
    text.push_str("];\n");
    Ok(text)
}

fn commands(modules: &[Module]) -> Result<String> {
    let mut text = String::new();
    for module in modules {
        writeln!(text, "mod {};", module.name)?;
    }
    Ok(text)
}

fn architectures(modules: &[Module]) -> Result<String> {
    let list = "/// Every architecture, by name.\npub const ALL: &[&Architecture]";
    constants(modules, list, "ARCHITECTURE: Architecture", "&")
}

fn allocators(modules: &[Module]) -> Result<String> {
    constants(modules, "/// Every allocator, by name.\npub const ALL: &[&Model]", "MODEL: Model", "&")
}

fn gates(modules: &[Module]) -> Result<String> {
    constants(modules, "/// Every gate, by name.\nstatic REGISTRY: &[Gate]", "GATE: Gate", "")
}

/// Declares the modules, and lists the constant that each of them defines, with `prefix` before its path.
fn constants(modules: &[Module], list: &str, constant: &str, prefix: &str) -> Result<String> {
    let mut text = commands(modules)?;
    let name = constant.split(':').next().unwrap_or_default();
    writeln!(text, "\n{list} = &[")?;
    for module in modules {
        if !module.text.contains(&format!("const {constant}")) {
            bail!("{}.rs does not define `const {constant}`", module.name);
        }
        writeln!(text, "    {prefix}{}::{name},", module.name)?;
    }
    text.push_str("];\n");
    Ok(text)
}

fn laws(modules: &[Module]) -> Result<String> {
    let mut text = String::new();
    for module in modules {
        writeln!(text, "#[path = \"{0}.rs\"]\nmod {0};", module.name)?;
    }
    text.push_str("\n/// Every law, in the order of the file names.\npub(crate) static LAWS: &[&dyn Law] = &[\n");
    for module in modules {
        implementer(module, "Law")?;
        writeln!(text, "    {}::LAW,", module.name)?;
    }
    text.push_str("];\n");
    Ok(text)
}

fn platforms(modules: &[Module]) -> Result<String> {
    let mut text = String::new();
    for module in modules {
        writeln!(text, "mod {};", module.name)?;
    }
    text.push_str("\n/// Every platform, by name.\npub static REGISTRY: &[&dyn Platform] = &[\n");
    for module in modules {
        writeln!(text, "    &{}::{},", module.name, implementer(module, "Platform")?)?;
    }
    text.push_str("];\n");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(name: &str, text: &str) -> Module {
        Module { name: name.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_list_names_every_file_and_its_type() {
        let modules =
            [module("epoll_ctl", "//! x\nimpl Benchmark for EpollCtl {\n"), module("nop", "impl Benchmark for Nop {}")];
        let text = benchmarks(&modules).unwrap();
        assert!(text.starts_with("pub mod epoll_ctl;\npub mod nop;\n\n///"), "{text}");
        assert!(text.contains("    Entry::of::<epoll_ctl::EpollCtl>(),\n    Entry::of::<nop::Nop>(),\n];\n"), "{text}");
    }

    #[test]
    fn a_file_without_a_benchmark_is_an_error() {
        let error = benchmarks(&[module("helper", "fn help() {}")]).unwrap_err().to_string();
        assert!(error.contains("helper.rs"), "{error}");
    }

    #[test]
    fn only_the_text_between_the_markers_changes() {
        let old = format!("a\n{BEGIN}\nold\n{END}\nz\n");
        assert_eq!(between_markers(&old, "new\n").unwrap(), format!("a\n{BEGIN}\nnew\n{END}\nz\n"));
        assert!(between_markers("no markers", "new").is_err());
    }
}
