//! Redacts the secrets in a command line: records and pages contain the command, and both are published.

/// The replacement for a secret.
const HIDDEN: &str = "…";

/// A header whose name contains one of these, in lower case, carries a secret.
const HEADERS: &[&str] = &["authorization", "cookie", "token", "secret", "password", "api-key", "apikey"];

/// Returns the words of a command line without the password of `--login`, the values of headers that authorize a
/// client, and the passwords of URLs.
pub(crate) fn hidden(words: &[String]) -> Vec<String> {
    let mut previous = "";
    let mut shown = Vec::with_capacity(words.len());
    for word in words {
        shown.push(match word.strip_prefix("--login=") {
            Some(login) => format!("--login={}", without_password(login)),
            None if previous == "--login" => without_password(word),
            None => without_value(word).unwrap_or_else(|| without_credentials(word)),
        });
        previous = word;
    }
    shown
}

/// Returns `USER:PASSWORD` without the password.
fn without_password(login: &str) -> String {
    login.split_once(':').map_or_else(|| login.to_owned(), |(user, _)| format!("{user}:{HIDDEN}"))
}

/// Returns a word without the value of its header, if it is a secret. The word may be the header alone or begin with
/// the flag: `Cookie: a=b`, `-HCookie: a=b`, `--header=Cookie: a=b`.
fn without_value(word: &str) -> Option<String> {
    let (before, _) = word.split_once(':')?;
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-_=".contains(letter);
    let name = before.trim().to_ascii_lowercase();
    (name.chars().all(is_name) && HEADERS.iter().any(|one| name.contains(one))).then(|| format!("{before}: {HIDDEN}"))
}

/// Returns a text without the passwords of the URLs in it: `http://user:password@host/`.
fn without_credentials(text: &str) -> String {
    let mut parts = text.split("://");
    let scheme = parts.next().unwrap_or_default().to_owned();
    let shown = parts.map(|rest| {
        let end = rest.find(['/', '?', '#', ' ']).unwrap_or(rest.len());
        let found = rest[..end].rsplit_once('@').and_then(|(user, host)| Some((user.split_once(':')?.0, host)));
        found.map_or_else(|| rest.to_owned(), |(user, host)| format!("{user}:{HIDDEN}@{host}{}", &rest[end..]))
    });
    std::iter::once(scheme).chain(shown).collect::<Vec<_>>().join("://")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(words: &[&str]) -> String {
        hidden(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>()).join(" ")
    }

    #[test]
    fn secrets_are_hidden_however_they_are_written() {
        let cases: &[(&[&str], &str)] = &[
            (&["--login", "root:SECRET"], "--login root:…"),
            (&["--login=root:SEC:RET"], "--login=root:…"),
            (&["-H", "Authorization: Bearer SECRET"], "-H Authorization: …"),
            (&["-HCookie:a=SECRET"], "-HCookie: …"),
            (&["-qH", "proxy-authorization: Basic SECRET"], "-qH proxy-authorization: …"),
            (&["--header=X-Auth-Token: SECRET"], "--header=X-Auth-Token: …"),
            (&["--header", "X-API-Key:SECRET"], "--header X-API-Key: …"),
            (&["http://me:SEC@RET@127.0.0.1:80/a@b"], "http://me:…@127.0.0.1:80/a@b"),
            (&["HTTP_PROXY=http://me:SECRET@proxy"], "HTTP_PROXY=http://me:…@proxy"),
            (&["http://a/,http://me:SECRET@b/ ftp://you:SECRET@c"], "http://a/,http://me:…@b/ ftp://you:…@c"),
        ];
        for (words, expected) in cases {
            assert_eq!(&shown(words), expected);
        }
    }

    #[test]
    fn other_words_stay() {
        let words = [
            "landau",
            "--login",
            "root",
            "-H",
            "Accept: */*",
            "http://127.0.0.1:80/cookie:1",
            "http://me@host/",
            "--kernel",
            "ssh:me@host:22",
            "bind.family=v6",
            "http://[::1]:80/token?a:b@c",
        ];
        assert_eq!(shown(&words), words.join(" "));
    }
}
