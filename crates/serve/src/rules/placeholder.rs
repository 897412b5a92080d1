//! The one placeholder of redirects and of paths for upstream servers.

/// The placeholder for the path below the rule's directory.
pub(super) const REST: &str = "{rest}";

/// Refuses text that looks like another placeholder, such as nginx's variables, because it would be sent literally.
pub(super) fn check(text: &str) -> Result<(), String> {
    let others = text.replace(REST, " ");
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let found = others.char_indices().find_map(|(at, character)| {
        let behind = &others[at + 1..];
        match character {
            '{' => Some(&others[at..behind.find('}').map_or(at + 1, |end| at + end + 2)]),
            '}' => Some("}"),
            '$' if behind.starts_with(|next: char| is_name(next) && !next.is_ascii_digit()) => {
                let end = behind.find(|next: char| !is_name(next)).unwrap_or(behind.len());
                Some(&others[at..=at + end])
            }
            _ => None,
        }
    });
    match found {
        None => Ok(()),
        Some(found) => Err(format!(
            "{found} is not a placeholder; the only one is {REST}, the path below the rule's directory. The query of \
             the request is always kept. Write %7B, %7D or %24 for the character itself"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_rest_is_a_placeholder() {
        for fine in ["/a", "/{rest}", "/{rest}/b", "/$", "/a$", "/$1", "/%7Ba%7D", "https://a.example/?b={rest}"] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
        for (wrong, named) in [
            ("https://x.example{path}", "{path} "),
            ("https://x.example/$request_uri", "$request_uri "),
            ("https://$host/{rest}", "$host "),
            ("https://{host}/x", "{host} "),
            ("/a/${name}", "{name} "),
            ("/{", "{ "),
            ("/{rest}}", "} "),
            ("/{{rest}}", "{ } "),
            ("/$arg_a.html", "$arg_a "),
        ] {
            assert!(check(wrong).is_err_and(|why| why.starts_with(&format!("{named}is not"))), "{wrong}");
        }
    }
}
