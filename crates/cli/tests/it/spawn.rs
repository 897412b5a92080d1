//! `landau run spawn`: a killed run leaves nothing behind, and the ladder is shown.

use crate::support::{LANDAU, Process, Ran, Room, eventually, processes_with};
use landau_record::schema::Outcome;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The number of sleepers of a killed run: as many as are created in a few hundred milliseconds.
const SLEEPERS: usize = 1_500;

/// Returns the number of kills in this test; `LANDAU_SPAWN_KILLS` sets another number.
fn kills() -> u32 {
    std::env::var("LANDAU_SPAWN_KILLS").ok().map_or(3, |text| text.parse().unwrap())
}

/// Returns whether this host lets this process hold chosen pids; if not, prints that the test is skipped. Any other
/// failure is a defect.
fn is_supported() -> bool {
    let is_allowed = landau_sys::sleepers::is_allowed().unwrap();
    if !is_allowed {
        eprintln!("skipped: this process may not hold chosen pids in a namespace here");
    }
    is_allowed
}

/// Returns the number of processes of a run, its sleepers and their parents. They are found by their working directory,
/// which only this test uses.
fn left(folder: &Path) -> usize {
    let is_here = |pid: &i32| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == folder);
    processes_with("landau-fork-helper").iter().filter(|pid| is_here(pid)).count()
}

/// Nothing is left behind, no matter when landau is killed, and whether or not its group is killed too. The sleepers
/// end with the first process of their namespace, and that process ends with its parent.
#[test]
fn no_sleeper_survives_a_kill() {
    if !is_supported() {
        return;
    }
    for kill in 0..kills() {
        let room = Room::new();
        let parent = ["timer", "helper", "reaper"][kill as usize % 3];
        let image = ["shared", "executed"][kill as usize / 3 % 2];
        let settings =
            [format!("spawn.n={SLEEPERS}"), format!("spawn.parent={parent}"), format!("spawn.image={image}")];
        // More passes than it can run before the kill. Among thousands of other processes, a scan takes so long that it
        // may miss the short time in a pass with enough sleepers.
        let mut command = room.command(&["run", "spawn", "--passes", "200", "--output", "r", "--no-report", "--quiet"]);
        for setting in &settings {
            command.args(["--set", setting]);
        }
        let mut landau = Process::spawn_group(command.stderr(Stdio::null())).unwrap();
        let wanted = SLEEPERS * (1 + kill as usize % 7) / 8;
        assert!(eventually(|| left(room.path()) >= wanted), "{parent}: no {wanted} sleepers were created");
        std::thread::sleep(Duration::from_millis(u64::from(kill) * 37 % 300));
        let whom = if kill % 2 == 0 { landau.id().to_string() } else { format!("-{}", landau.id()) };
        assert!(Command::new("kill").args(["-KILL", "--", &whom]).status().unwrap().success());
        landau.wait().unwrap();
        assert!(eventually(|| left(room.path()) == 0), "{} are left after kill {kill} of {whom}", left(room.path()));
    }
}

/// The smoke study includes the steps, so `landau show` and the page contain the ladder. Each step without sleepers is
/// recorded as a fact.
#[test]
fn the_ladder_is_shown_and_drawn() {
    if !is_supported() {
        return;
    }
    let room = Room::new();
    let ran = room.landau(&["run", "spawn", "--study", "smoke", "--output", "r", "--report", "page.html", "--quiet"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let shown = room.landau(&["show", "r"]);
    assert!(shown.out.contains("Confounder ladder") && shown.out.contains("Without sleepers all steps"), "{shown:?}");
    let page = std::fs::read_to_string(room.file("page.html")).unwrap();
    assert!(page.contains("Confounder ladder") && page.contains("redrawn"), "the page lacks the ladder");
}

/// In a user namespace in which no pid namespace can be created: the reason names the call and the setting.
#[test]
fn without_pid_namespaces_every_case_is_skipped_with_the_setting() {
    let room = Room::new();
    let nested = |script: &str| Ran::of(room.other("unshare", &["-Ur", "sh", "-c", script, LANDAU]).output().unwrap());
    if !is_supported() {
        return;
    }
    let ran = nested("echo 0 > /proc/sys/user/max_pid_namespaces");
    if ran.status != Some(0) {
        eprintln!("skipped: the pid namespaces of a user namespace cannot be limited here: {}", ran.err.trim());
        return;
    }
    let ran = nested(
        "echo 0 > /proc/sys/user/max_pid_namespaces; exec \"$0\" run spawn --study smoke --no-report --output r",
    );
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert_eq!(ran.err.matches("unshare: No space left on device").count(), 5, "{}", ran.err);
    assert!(ran.err.contains("user.max_pid_namespaces"), "{}", ran.err);
}

/// A control group with a limit on processes, if this user may create one.
struct ControlGroup(PathBuf);

impl ControlGroup {
    fn new(pids_max: u32) -> Option<Self> {
        let name = format!("landau-test-{}", std::process::id());
        let create = |root: &str| {
            let folder = Path::new(root).join(&name);
            std::fs::create_dir(&folder).ok()?;
            // From here on the group is removed on drop. For a directory that was not created, drop would only wait.
            let group = Self(folder);
            // In version 1 the directory above those of the controllers is an ordinary one.
            group.0.join("cgroup.procs").exists().then_some(())?;
            std::fs::write(group.0.join("pids.max"), pids_max.to_string()).ok()?;
            Some(group)
        };
        ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"].into_iter().find_map(create)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // The group can be removed as soon as the kernel has released its last process.
        eventually(|| std::fs::remove_dir(&self.0).is_ok());
    }
}

/// The timed child reaches the limit, after the sleeper of its step. The curve ends there, and the pass succeeds.
#[test]
fn the_limit_of_a_control_group_is_a_result() {
    if !is_supported() {
        return;
    }
    let Some(group) = ControlGroup::new(22) else {
        eprintln!("skipped: no control group with a limit of pids can be made here");
        return;
    };
    let room = Room::new();
    let script = format!(
        "echo $$ > {}/cgroup.procs; exec \"$0\" run spawn --study smoke --passes 1 --set spawn.wait=pid \
         --set spawn.parent=helper --set spawn.image=shared --no-report --quiet --output r",
        group.0.display()
    );
    let ran = Ran::of(room.other("sh", &["-c", &script, LANDAU]).output().unwrap());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let record = room.record("r");
    let end = record.passes[0].end.as_ref().unwrap();
    let limit = end.limit.as_ref().unwrap();
    assert_eq!((end.outcome, limit.error.as_str()), (Outcome::Limit, "EAGAIN"), "{end:?}");
    assert!(limit.meaning.contains("pids.max of the control group"), "{limit:?}");
    assert!(limit.raise.starts_with("raise pids.max"), "{limit:?}");
}

/// The instructions were counted under four kernels. Until Linux 5.12, waiting for one child walks the list of all
/// children, so a different step removes most of the cost there.
#[test]
fn the_ladders_of_four_kernels_are_side_by_side() {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records/linux-kernels");
    let names = ["spawn-5.10", "spawn-6.1", "spawn-6.12", "spawn-7.2"];
    let files = names.map(|name| records.join(format!("{name}.landau.ndjson")).to_string_lossy().into_owned());
    let room = Room::new();
    let shown = room.landau(&[&["show"], &files.each_ref().map(String::as_str)[..]].concat());
    assert_eq!(shown.status, Some(0), "{shown:?}");
    let text = shown.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("The step that removes most is not the same in all records."), "{text}");
    for (name, step) in names.iter().zip(["sleepers of a helper", "wait for", "wait for", "wait for"]) {
        assert!(text.contains(&format!("{name}: the step \"{step}")), "{name}: {text}");
    }
    // The figures of docs/studies/linux-kernels.md.
    for figure in
        ["17,046 instructions (1,816–32,275)", "63,612 instructions (45,214–82,009)", "of 83,974 instructions"]
    {
        assert!(text.contains(figure) || text.contains(&figure.replace(" instructions", "")), "{figure}: {text}");
    }
    let json = room.landau(&[&["show", "--json"], &files.each_ref().map(String::as_str)[..]].concat());
    let ladders = &serde_json::from_str::<serde_json::Value>(&json.out).unwrap()["ladders"];
    assert_eq!((ladders["sleepers"].as_u64(), ladders["records"].as_array().map(Vec::len)), (Some(600), Some(4)));
    let page = room.file("page.html");
    let drawn =
        room.landau(&[&["report", "--output", "page.html"], &files.each_ref().map(String::as_str)[..]].concat());
    assert_eq!(drawn.status, Some(0), "{drawn:?}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("Confounder ladders side by side"), "the page lacks the ladders");
    assert!(page.contains("Confounder ladder of spawn-5.10"), "the first record's own ladder has no name");
}
