//! The names of the kernel's functions by address, and their table for the plugin of the lab's emulator.

use std::collections::BTreeMap;
use std::collections::HashMap;

/// The function number of the measured program.
pub const USER: u32 = 0;

/// The function number of code without a name.
const UNKNOWN: u32 = 1;

/// Traits, as the plugin defines them (`crates/lab/plugin/tree.rs`).
const ENTRY: u32 = 1;
const FAULT: u32 = 2;
const THUNK: u32 = 4;

/// The kernel's functions.
#[derive(Debug, Clone)]
pub struct Symbols {
    names: Vec<String>,
    /// Address, function, traits.
    rows: Vec<(u64, u32, u32)>,
}

impl Symbols {
    /// Parses the text of `/proc/kallsyms`. Returns `None` if it contains no addresses.
    pub fn of(kallsyms: &str) -> Option<Self> {
        let mut best: BTreeMap<u64, (Rank<'_>, &str)> = BTreeMap::new();
        for line in kallsyms.lines() {
            let mut words = line.split_whitespace();
            let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else { continue };
            let Some(address) = u64::from_str_radix(address, 16).ok().filter(|address| *address >= 1 << 63) else {
                continue;
            };
            // Padding before a function, never executed.
            if name.starts_with("__pfx_") || name.starts_with("__cfi_") {
                continue;
            }
            let rank = rank(kind, name);
            let entry = best.entry(address).or_insert((rank, name));
            if rank < entry.0 {
                *entry = (rank, name);
            }
        }
        if best.is_empty() {
            return None;
        }
        let (mut names, mut rows) = (vec!["[user]".to_owned(), "[unknown]".to_owned()], Vec::with_capacity(best.len()));
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        for (address, (_, name)) in best {
            // Code that the compiler moved out of the hot path still belongs to its function.
            let own = name.split(".cold").next().unwrap_or(name);
            let number = *numbers.entry(own).or_insert_with(|| {
                names.push(own.to_owned());
                names.len() as u32 - 1
            });
            rows.push((address, number, traits(own)));
        }
        Some(Self { names, rows })
    }

    /// Returns the function that contains an address; `[unknown]` below the first function.
    pub fn lookup(&self, address: u64) -> u32 {
        let after = self.rows.partition_point(|row| row.0 <= address);
        after.checked_sub(1).map_or(UNKNOWN, |place| self.rows[place].1)
    }

    /// Returns the function that begins at an address.
    pub(crate) fn starting_at(&self, address: u64) -> Option<u32> {
        let place = self.rows.binary_search_by_key(&address, |row| row.0).ok()?;
        Some(self.rows[place].1)
    }

    /// Returns whether a function is an entry of the kernel (of a system call, a fault or an interrupt), or a part of
    /// the way back.
    pub(crate) fn is_entry_or_exit(&self, function: u32) -> bool {
        let name = self.name(function);
        // Of 64-bit Arm, and of Linux before 5.8 on x86.
        let others = ["el0_", "el0t_", "el1_", "el1h_", "ret_from_intr"];
        traits(name) & ENTRY != 0 || is_exit(name) || others.iter().any(|start| name.starts_with(start))
    }

    /// Returns whether a function only forwards a call or a return.
    pub(crate) fn is_thunk(&self, function: u32) -> bool {
        is_thunk(self.name(function))
    }

    /// Returns the first address of each function.
    pub(crate) fn starts(&self) -> impl Iterator<Item = u64> {
        self.rows.iter().map(|row| row.0)
    }

    /// Returns the table that the plugin reads.
    pub fn table(&self) -> Vec<u8> {
        let row = |&(address, function, traits): &(u64, u32, u32)| {
            let mut bytes = address.to_le_bytes().to_vec();
            bytes.extend(function.to_le_bytes());
            bytes.extend(traits.to_le_bytes());
            bytes
        };
        self.rows.iter().flat_map(row).collect()
    }

    /// Returns the name of a function.
    pub fn name(&self, function: u32) -> &str {
        self.names.get(function as usize).map_or("[unknown]", String::as_str)
    }

    /// Returns whether a function is the entry of an interrupt, whose work belongs to no call.
    pub fn is_interrupt(&self, function: u32) -> bool {
        let name = self.name(function);
        let starts = ["asm_sysvec_", "asm_common_interrupt", "asm_spurious", "irq_entries_start", "spurious_entries"];
        starts.iter().any(|start| name.starts_with(start)) || name == "apic_timer_interrupt"
    }
}

/// The rank of a name among those of one address; the name with the lowest rank is shown.
type Rank<'a> = (bool, bool, bool, &'a str);

fn rank<'a>(kind: &str, name: &'a str) -> Rank<'a> {
    // Entry points of 32-bit programs for the same code, and section markers, rank last.
    let is_foreign = name.starts_with("__ia32_") || name.starts_with("__x32_");
    let is_mark = ["_start", "_end", "_begin", "text"].iter().any(|end| name.ends_with(end));
    (is_foreign, is_mark, kind != "T", name)
}

fn traits(name: &str) -> u32 {
    let entries =
        ["asm_", "entry_SYSCALL_64", "entry_SYSENTER", "entry_INT80", "irq_entries_start", "spurious_entries"];
    // Before Linux 5.8 the entries had no prefix.
    let is_entry = entries.iter().any(|start| name.starts_with(start))
        || ["page_fault", "async_page_fault", "apic_timer_interrupt", "common_interrupt"].contains(&name);
    let is_fault = ["asm_exc_page_fault", "page_fault", "async_page_fault"].contains(&name);
    let is_passing = is_thunk(name) || is_exit(name);
    u32::from(is_entry) * ENTRY + u32::from(is_fault) * FAULT + u32::from(is_passing) * THUNK
}

/// Returns whether a symbol only forwards a call or a return: mitigations of speculation (retpolines, and returns that
/// train no predictor), and calls that the kernel patches.
fn is_thunk(name: &str) -> bool {
    let calls = ["__x86_indirect_", "__SCT__"];
    let returns = ["__x86_return_thunk", "srso_return_", "srso_alias_return_", "retbleed_return_", "its_return_"];
    let name = name.strip_prefix("__pi_").unwrap_or(name);
    calls.iter().chain(&returns).any(|start| name.starts_with(start))
}

/// Returns whether a symbol is a part of the way back from an interrupt or a system call.
fn is_exit(name: &str) -> bool {
    let interrupts = ["error_return", "common_interrupt_return", "native_irq_return_", "restore_regs_and_return_"];
    let calls = ["swapgs_restore_regs_and_return_", "syscall_return_via_sysret", "entry_SYSRET"];
    interrupts.iter().chain(&calls).any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
0000000000001000 A cpu_debug_store
ffffffff81000000 T startup_64
ffffffff81000000 T _text
ffffffff81000100 t __pfx_do_sys_poll
ffffffff81000110 t do_sys_poll
ffffffff81000900 t __ia32_sys_getppid
ffffffff81000900 T __x64_sys_getppid
ffffffff81000a00 T asm_exc_page_fault
ffffffff81000b00 t do_sys_poll.cold
ffffffffc0000000 t of_a_module\t[pipe]
";

    #[test]
    fn each_address_has_one_name_and_cold_parts_their_function() {
        let symbols = Symbols::of(TEXT).unwrap();
        assert_eq!(
            symbols.names,
            [
                "[user]",
                "[unknown]",
                "startup_64",
                "do_sys_poll",
                "__x64_sys_getppid",
                "asm_exc_page_fault",
                "of_a_module"
            ]
        );
        let functions: Vec<u32> = symbols.rows.iter().map(|row| row.1).collect();
        assert_eq!(functions, [2, 3, 4, 5, 3, 6]);
        assert_eq!(symbols.rows[3].2, ENTRY + FAULT);
        assert_eq!(symbols.table().len(), 6 * 16);
    }

    #[test]
    fn an_address_is_in_the_function_that_begins_at_or_before_it() {
        let symbols = Symbols::of(TEXT).unwrap();
        let name = |address: u64| symbols.name(symbols.lookup(address));
        assert_eq!(name(0xffff_ffff_8100_0110), "do_sys_poll");
        assert_eq!(name(0xffff_ffff_8100_08ff), "do_sys_poll");
        assert_eq!(name(0xffff_ffff_8100_0b10), "do_sys_poll");
        assert_eq!((name(0x1000), name(u64::MAX)), ("[unknown]", "of_a_module"));
    }

    #[test]
    fn thunks_and_entries_are_known_by_name() {
        let is = |name: &str| traits(name);
        let thunks =
            ["__pi___x86_indirect_thunk_rax", "srso_alias_return_thunk", "__SCT__cond_resched", "error_return"];
        assert_eq!(thunks.map(is), [THUNK; 4]);
        assert_eq!((is("asm_exc_page_fault"), is("entry_SYSCALL_64")), (ENTRY + FAULT, ENTRY));
        assert_eq!((is("poll_freewait"), is("__x64_sys_poll")), (0, 0));
    }

    #[test]
    fn only_the_first_address_of_a_function_starts_it() {
        let symbols = Symbols::of(TEXT).unwrap();
        assert_eq!(symbols.starting_at(0xffff_ffff_8100_0110), Some(symbols.lookup(0xffff_ffff_8100_0110)));
        assert_eq!(symbols.starting_at(0xffff_ffff_8100_0111), None);
    }

    #[test]
    fn hidden_addresses_are_an_error() {
        let hidden: Vec<String> = TEXT.lines().map(|line| format!("{:016}{}", 0, &line[16..])).collect();
        let hidden = hidden.join("\n");
        assert!(Symbols::of(&hidden).is_none());
    }
}
