//! Finds the offsets of members in the kernel's structures, from the kernel's own type description (BTF).
//!
//! Source: Documentation/bpf/btf.rst of the Linux kernel.

/// Type kinds.
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const TYPEDEF: u32 = 8;
const VOLATILE: u32 = 9;
const CONST: u32 = 10;
const RESTRICT: u32 = 11;
const TYPE_TAG: u32 = 18;

/// The kernel's types.
#[derive(Debug)]
pub(super) struct Types {
    bytes: Vec<u8>,
    /// The offset of each type, by its number minus one.
    places: Vec<usize>,
    strings: usize,
}

impl Types {
    /// Parses the contents of `/sys/kernel/btf/vmlinux`; `None` if they have another format.
    pub(super) fn read(bytes: Vec<u8>) -> Option<Self> {
        let word = |at: usize| word(&bytes, at);
        (bytes.get(..2)? == 0xeb9f_u16.to_ne_bytes()).then_some(())?;
        let header = word(4)? as usize;
        let (first, length) = (header + word(8)? as usize, word(12)? as usize);
        let strings = header + word(16)? as usize;
        let mut places = Vec::new();
        let mut at = first;
        while at < first + length {
            places.push(at);
            let info = word(at + 4)?;
            at += 12 + tail(info)?;
        }
        Some(Self { bytes, places, strings })
    }

    /// Returns the byte offset of a member in a structure, such as `__sk_common.skc_num` in `sock`.
    pub(super) fn offset(&self, structure: &str, path: &str) -> Option<u32> {
        let is_it = |at: &usize| self.kind(*at) == Some(STRUCT) && self.name(*at) == Some(structure.as_bytes());
        let mut at = self.places.iter().copied().find(is_it)?;
        let mut offset = 0;
        for name in path.split('.') {
            let (bits, member) = self.member(at, name.as_bytes(), 0)?;
            offset += bits / 8;
            at = member;
        }
        Some(offset)
    }

    /// Finds a member, including those of anonymous structures. Returns its offset in bits and the offset of its type.
    fn member(&self, at: usize, name: &[u8], depth: u32) -> Option<(u32, usize)> {
        let info = word(&self.bytes, at + 4)?;
        let has_bitfields = info >> 31 == 1;
        for index in 0..(info & 0xffff) as usize {
            let here = at + 12 + 12 * index;
            let Some(of_type) = self.resolve(word(&self.bytes, here + 4)?) else { continue };
            let offset = word(&self.bytes, here + 8)?;
            let bits = if has_bitfields { offset & 0x00ff_ffff } else { offset };
            match self.name(here)? {
                [] if depth < 8 && matches!(self.kind(of_type)?, STRUCT | UNION) => {
                    if let Some((inner, found)) = self.member(of_type, name, depth + 1) {
                        return Some((bits + inner, found));
                    }
                }
                found if found == name => return Some((bits, of_type)),
                _ => {}
            }
        }
        None
    }

    /// Returns the offset of a type, after resolving typedefs and qualifiers.
    fn resolve(&self, mut number: u32) -> Option<usize> {
        for _ in 0..16 {
            let at = *self.places.get((number as usize).checked_sub(1)?)?;
            if !matches!(self.kind(at)?, TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG) {
                return Some(at);
            }
            number = word(&self.bytes, at + 8)?;
        }
        None
    }

    fn kind(&self, at: usize) -> Option<u32> {
        Some(word(&self.bytes, at + 4)? >> 24 & 0x1f)
    }

    fn name(&self, at: usize) -> Option<&[u8]> {
        let rest = self.bytes.get(self.strings + word(&self.bytes, at)? as usize..)?;
        rest.split(|byte| *byte == 0).next()
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Returns the number of bytes after the first 12 of a type; `None` for an unknown kind.
fn tail(info: u32) -> Option<usize> {
    let count = (info & 0xffff) as usize;
    Some(match info >> 24 & 0x1f {
        // Integer, variable, declaration tag.
        1 | 14 | 17 => 4,
        // Pointer, forward declaration, typedef and qualifiers, function, floating-point number, type tag.
        2 | 7..=12 | 16 | 18 => 0,
        ARRAY => 12,
        // Structure, union, section, 64-bit enumeration.
        STRUCT | UNION | 15 | 19 => 12 * count,
        // Enumeration, parameters of a function.
        6 | 13 => 8 * count,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes `struct outer { int first; struct { inner_t inner; }; }`; `inner_t` is `struct inner { int x, y; }`.
    fn planted() -> Vec<u8> {
        let strings = b"\0int\0inner\0x\0y\0inner_t\0outer\0first\0";
        let name = |name: &str| {
            let wanted = [name.as_bytes(), b"\0"].concat();
            (1..strings.len()).find(|&at| strings[at - 1] == 0 && strings[at..].starts_with(&wanted)).unwrap_or(0)
                as u32
        };
        let info = |kind: u32, count: u32| kind << 24 | count;
        let types: Vec<u32> = [
            vec![name("int"), info(1, 0), 4, 32],
            vec![name("inner"), info(STRUCT, 2), 8, name("x"), 1, 0, name("y"), 1, 32],
            vec![name("inner_t"), info(TYPEDEF, 0), 2],
            vec![0, info(STRUCT, 1), 8, name("inner"), 3, 0],
            vec![name("outer"), info(STRUCT, 2), 12, name("first"), 1, 0, 0, 4, 32],
        ]
        .concat();
        let length = 4 * types.len() as u32;
        let mut bytes = [&0xeb9f_u16.to_ne_bytes()[..], &[1, 0]].concat();
        for word in [24, 0, length, length, strings.len() as u32].into_iter().chain(types) {
            bytes.extend(word.to_ne_bytes());
        }
        [&bytes, &strings[..]].concat()
    }

    #[test]
    fn members_are_found_behind_names_and_in_structures_without_one() {
        let types = Types::read(planted()).unwrap();
        assert_eq!(types.offset("outer", "first"), Some(0));
        assert_eq!(types.offset("outer", "inner.y"), Some(8));
        assert_eq!(types.offset("outer", "absent"), None);
        assert_eq!(types.offset("absent", "x"), None);
        assert!(Types::read(b"something else".to_vec()).is_none());
        // A truncated file never causes a panic.
        (0..planted().len()).for_each(|end| drop(Types::read(planted()[..end].to_vec())));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_running_kernel_is_described() {
        let Ok(bytes) = std::fs::read("/sys/kernel/btf/vmlinux") else {
            eprintln!("skipped: this kernel does not describe its types");
            return;
        };
        let types = Types::read(bytes).unwrap();
        // In the kernel's socket structure, the local port follows the remote one, and the family follows both.
        let of = |path: &str| types.offset("sock", path).unwrap();
        assert_eq!(of("__sk_common.skc_num") + 2, of("__sk_common.skc_family"));
        assert!(types.offset("task_struct", "tgid").unwrap() > types.offset("task_struct", "pid").unwrap());
    }
}
