//! The tables of fields: the static one (RFC 7541 appendix A) and the dynamic one (section 2.3.2).

use std::collections::VecDeque;

/// All fields of the static table, from index 1 on.
pub(super) static STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// The size of an entry in addition to its name and value (RFC 7541 section 4.1).
const OVERHEAD: usize = 32;

/// Returns the index of the first field of the static table with this name, which must be in lower case.
#[inline]
pub(super) fn static_name(name: &[u8]) -> Option<usize> {
    // Few names have the same length.
    let group = STATIC_BY_LENGTH.get(name.len())?;
    let found = group
        .iter()
        .take_while(|&&index| index != 0)
        .find(|&&index| STATIC[usize::from(index) - 1].0.as_bytes() == name);
    found.map(|&index| usize::from(index))
}

/// The maximum number of different names of one length.
const GROUP: usize = 9;

/// For each length of a name, the indices of the first fields with a name of this length; 0 ends the list.
static STATIC_BY_LENGTH: [[u8; GROUP]; 28] = {
    let mut groups = [[0; GROUP]; 28];
    let mut counts = [0; 28];
    let mut at = 0;
    while at < STATIC.len() {
        let name = STATIC[at].0.as_bytes();
        let is_first = at == 0 || !is_same(name, STATIC[at - 1].0.as_bytes());
        if is_first {
            groups[name.len()][counts[name.len()]] = at as u8 + 1;
            counts[name.len()] += 1;
        }
        at += 1;
    }
    groups
};

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    one.len() == other.len()
}

/// An entry: a name, followed by a value.
#[derive(Debug)]
struct Entry {
    text: Box<[u8]>,
    name_len: usize,
}

/// The table of one direction of a connection: the most recently added fields.
#[derive(Debug)]
pub(super) struct Dynamic {
    /// The entries, the most recent first.
    entries: VecDeque<Entry>,
    size: usize,
    most: usize,
}

impl Dynamic {
    pub(super) fn new(most: usize) -> Self {
        Self { entries: VecDeque::new(), size: 0, most }
    }

    /// Returns its maximum size in bytes.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Sets its maximum size in bytes.
    pub(super) fn resize(&mut self, most: usize) {
        self.most = most;
        self.evict(most);
        if self.entries.is_empty() {
            self.entries = VecDeque::new();
        }
    }

    /// Returns the field at an index; the dynamic table follows the static one.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let at = index.checked_sub(1)?;
        if let Some((name, value)) = STATIC.get(at) {
            return Some((name.as_bytes(), value.as_bytes()));
        }
        let entry = self.entries.get(at - STATIC.len())?;
        Some(entry.text.split_at(entry.name_len))
    }

    /// Returns the index of an identical field, and that of a field with the same name.
    pub(super) fn find(&self, name: &[u8], value: &[u8]) -> (Option<usize>, Option<usize>) {
        let mut of_name = None;
        for (at, entry) in self.entries.iter().enumerate() {
            let (own, own_value) = entry.text.split_at(entry.name_len);
            if own == name {
                let index = STATIC.len() + 1 + at;
                if own_value == value {
                    return (Some(index), Some(index));
                }
                of_name = of_name.or(Some(index));
            }
        }
        (None, of_name)
    }

    /// Adds a field. A field that is larger than the whole table empties it.
    pub(super) fn insert(&mut self, text: Box<[u8]>, name_len: usize) {
        let size = text.len() + OVERHEAD;
        self.evict(self.most.saturating_sub(size));
        if size <= self.most {
            self.size += size;
            self.entries.push_front(Entry { text, name_len });
        }
    }

    fn evict(&mut self, most: usize) {
        while self.size > most
            && let Some(entry) = self.entries.pop_back()
        {
            self.size -= entry.text.len() + OVERHEAD;
        }
    }

    /// Returns its memory usage in bytes. Each entry adds 32 bytes to the size of the table, which is about what it
    /// uses in addition to its text.
    pub(super) fn memory_bytes(&self) -> usize {
        self.size + self.entries.capacity() * size_of::<Entry>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_names_are_found() {
        for (at, (name, _)) in STATIC.iter().enumerate() {
            let first = STATIC.iter().position(|(own, _)| own == name).unwrap();
            assert_eq!(static_name(name.as_bytes()), Some(first + 1), "{name} {at}");
        }
        for name in ["", "x", "dates", "Date", "an-unusually-long-name-of-a-field"] {
            assert_eq!(static_name(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn the_oldest_entries_are_evicted() {
        let mut table = Dynamic::new(100);
        for name in [b'a', b'b', b'c'] {
            table.insert(Box::new([name, b'1']), 1);
        }
        assert_eq!(table.get(62), Some((&b"c"[..], &b"1"[..])));
        assert_eq!(table.get(63), Some((&b"b"[..], &b"1"[..])));
        assert_eq!((table.get(64), table.get(0), table.size), (None, None, 68));
        assert_eq!(table.find(b"b", b"1"), (Some(63), Some(63)));
        assert_eq!(table.find(b"b", b"2"), (None, Some(63)));
        table.insert(vec![b'x'; 69].into(), 1);
        assert_eq!((table.size, table.get(62)), (0, None), "it is too large, and the table is empty");
        table.insert(vec![b'x'; 68].into(), 1);
        assert_eq!((table.size, table.get(62).is_some()), (100, true));
        table.resize(99);
        assert_eq!((table.size, table.memory_bytes()), (0, 0));
    }
}
