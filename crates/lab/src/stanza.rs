//! Parses Debian's control format, of packages, sources and indices: paragraphs of `Field: value`, in which a line that
//! begins with a space continues the value.

/// One paragraph.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stanza {
    fields: Vec<(String, String)>,
}

impl Stanza {
    /// Parses the paragraphs of a text. Comments and lines that belong to no field are ignored.
    pub fn all(text: &str) -> Vec<Self> {
        let mut stanzas = vec![Self::default()];
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let fields = match stanzas.last_mut() {
                Some(last) if line.trim().is_empty() => {
                    if !last.fields.is_empty() {
                        stanzas.push(Self::default());
                    }
                    continue;
                }
                Some(last) => &mut last.fields,
                None => continue,
            };
            if line.starts_with([' ', '\t']) {
                if let Some((_, value)) = fields.last_mut() {
                    value.push('\n');
                    value.push_str(line.trim_end());
                }
            } else if let Some((name, value)) = line.split_once(':') {
                fields.push((name.trim().to_owned(), value.trim().to_owned()));
            }
        }
        stanzas.retain(|stanza| !stanza.fields.is_empty());
        stanzas
    }

    /// Returns a field's value. Names are case-insensitive.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Returns the words of a field's value; none if there is no such field.
    pub fn words(&self, name: &str) -> impl Iterator<Item = &str> {
        self.get(name).unwrap_or_default().split_whitespace()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_comments_and_long_values_are_parsed() {
        let text =
            "# comment\nTypes: deb\n# inside\nSigned-By:\n -----BEGIN\n .\n abc\n\n\nTypes: deb-src\nURIs: a:b c\n";
        let all = Stanza::all(text);
        assert_eq!(all.len(), 2, "{all:?}");
        assert_eq!(all[0].get("signed-by"), Some("\n -----BEGIN\n .\n abc"));
        assert_eq!(all[1].words("URIs").collect::<Vec<_>>(), ["a:b", "c"]);
        assert_eq!(all[1].words("none").count(), 0);
        assert!(Stanza::all(" \n\n stray\n").is_empty());
    }
}
