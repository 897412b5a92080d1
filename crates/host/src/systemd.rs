//! The settings of systemd's manager: `system.conf` and its drop-in files, by the rules of systemd-system.conf(5) and
//! systemd.syntax(7).

use crate::root::Root;
use std::collections::BTreeMap;
use std::path::Path;

/// The directories of the manager's configuration, in descending order of precedence.
const FOLDERS: [&str; 4] = ["etc/systemd", "run/systemd", "usr/local/lib/systemd", "usr/lib/systemd"];

/// The section of these files that is read.
const SECTION: &str = "[Manager]";

/// Returns the value of a setting such as `DefaultLimitNOFILE` from the files of systemd's manager, as if the drop-in
/// file named `but` did not exist. `None` if no file sets it, or if the last line that does has an empty value: then
/// systemd's default applies.
pub fn manager_setting(root: &Root, key: &str, but: Option<&str>) -> Option<String> {
    let mut values = texts(root, but).into_iter().flat_map(|text| assigned(&text, key));
    values.next_back().filter(|value| !value.is_empty())
}

/// Returns the texts of the files in the order in which they apply: the first existing main file, and then the drop-in
/// files in the order of their names. A drop-in of an earlier directory hides those with the same name in later ones.
fn texts(root: &Root, but: Option<&str>) -> Vec<String> {
    let main = FOLDERS.iter().find_map(|folder| root.text(&format!("{folder}/system.conf")));
    let mut drop_ins = BTreeMap::new();
    for folder in FOLDERS.map(|folder| format!("{folder}/system.conf.d")) {
        for name in root.names(&folder).into_iter().filter(|name| is_drop_in(name) && Some(name.as_str()) != but) {
            let path = format!("{folder}/{name}");
            drop_ins.entry(name).or_insert(path);
        }
    }
    main.into_iter().chain(drop_ins.values().filter_map(|path| root.text(path))).collect()
}

fn is_drop_in(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|kind| kind == "conf") && !name.starts_with('.')
}

/// Returns the values that a text assigns to a key in the manager's section, in order.
fn assigned(text: &str, key: &str) -> Vec<String> {
    let mut values = Vec::new();
    let mut is_in_section = false;
    for line in joined_lines(text) {
        let line = line.trim();
        if line.starts_with('[') {
            is_in_section = line == SECTION;
        } else if let Some((_, value)) = line.split_once('=').filter(|(name, _)| is_in_section && name.trim() == key) {
            values.push(value.trim().to_owned());
        }
    }
    values
}

/// Returns the lines of a text without comments. A line that ends in a backslash continues in the next line that is not
/// a comment; a space replaces the backslash.
fn joined_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open = String::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with(['#', ';'])) {
        let backslashes = line.len() - line.trim_end_matches('\\').len();
        match line.strip_suffix('\\').filter(|_| backslashes % 2 == 1) {
            Some(start) => open.extend([start, " "]),
            None => lines.push(std::mem::take(&mut open) + line),
        }
    }
    lines.push(open);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "DefaultLimitNOFILE";

    /// Returns the value of the key from files below a root, without the file `90-own.conf`.
    fn set_by(files: &[(&str, &str)]) -> Option<String> {
        let room = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = room.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        manager_setting(&Root::planted(room.path()), KEY, Some("90-own.conf"))
    }

    fn set_in(text: &str) -> Option<String> {
        set_by(&[("etc/systemd/system.conf", text)])
    }

    #[test]
    fn the_last_assignment_counts_and_spaces_around_the_sign_are_allowed() {
        assert_eq!(set_in(""), None);
        assert_eq!(set_in("[Manager]\n#DefaultLimitNOFILE=9\n ; DefaultLimitNOFILE=9\n"), None);
        let text = "[Manager]\n# DefaultLimitNOFILE = 9\n DefaultLimitNOFILE = 1048576 \nDefaultLimitNOFILESoft=9\n";
        assert_eq!(set_in(text).as_deref(), Some("1048576"));
        assert_eq!(set_in("[Manager]\nDefaultLimitNOFILE=5\nDefaultLimitNOFILE=1:2\n").as_deref(), Some("1:2"));
        // An empty value restores the default, regardless of what was set before.
        assert_eq!(set_in("[Manager]\nDefaultLimitNOFILE=5\nDefaultLimitNOFILE=\n"), None);
    }

    #[test]
    fn other_sections_do_not_count() {
        assert_eq!(set_in("DefaultLimitNOFILE=5\n"), None);
        assert_eq!(set_in("[Manager]\n[Service]\nDefaultLimitNOFILE=5\n"), None);
        assert_eq!(set_in("[Service]\n[Manager]\nDefaultLimitNOFILE=5\n").as_deref(), Some("5"));
    }

    #[test]
    fn a_line_goes_on_after_a_backslash() {
        assert_eq!(set_in("[Manager]\nDefaultLimitNOFILE= \\\n# comment\n5\n").as_deref(), Some("5"));
        assert_eq!(set_in("[Manager]\nDefaultLimitNPROC=7 \\\nDefaultLimitNOFILE=5\n"), None);
        assert_eq!(set_in("[Manager]\nDefaultLimitNOFILE=5 \\").as_deref(), Some("5"));
    }

    #[test]
    fn drop_ins_count_by_their_name_and_hide_those_of_the_same_name() {
        let of = |files: &[(&'static str, u64)]| {
            let texts: Vec<String> =
                files.iter().map(|(_, value)| format!("[Manager]\nDefaultLimitNOFILE={value}\n")).collect();
            let files: Vec<(&str, &str)> =
                files.iter().zip(&texts).map(|((path, _), text)| (*path, text.as_str())).collect();
            set_by(&files).unwrap().parse::<u64>().unwrap()
        };
        let mut files = vec![("usr/lib/systemd/system.conf", 1_u64), ("etc/systemd/system.conf", 2)];
        assert_eq!(of(&files), 2, "there is one main file");
        files.extend([("usr/lib/systemd/system.conf.d/50-x.conf", 3), ("etc/systemd/system.conf.d/10-x.conf", 4)]);
        assert_eq!(of(&files), 3, "a name counts more than a folder");
        files.push(("usr/local/lib/systemd/system.conf.d/50-x.conf", 5));
        assert_eq!(of(&files), 5, "one of an earlier folder hides another");
        files.push(("run/systemd/system.conf.d/50-x.conf", 6));
        assert_eq!(of(&files), 6);
        files.extend([("etc/systemd/system.conf.d/50-x.conf", 7), ("etc/systemd/system.conf.d/90-own.conf", 8)]);
        assert_eq!(of(&files), 7);
        files.extend([("etc/systemd/system.conf.d/95-x.txt", 9), ("etc/systemd/system.conf.d/.95-x.conf", 10)]);
        assert_eq!(of(&files), 7);
    }

    /// An empty drop-in, such as a link to `/dev/null`, hides those with the same name.
    #[test]
    fn an_empty_drop_in_hides_another() {
        let files = [
            ("etc/systemd/system.conf.d/50-x.conf", ""),
            ("usr/lib/systemd/system.conf.d/50-x.conf", "[Manager]\nDefaultLimitNOFILE=3\n"),
        ];
        assert_eq!(set_by(&files), None);
    }
}
