//! The requested sum of calls: `accept + 2*read + write + close`.

/// A term of a sum.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// The number of times that the call is made; positive.
    pub times: f64,
    /// A call of a server (`accept`), or the phase of a benchmark (`open.close`).
    pub name: String,
}

/// Parses terms that are joined by `+`, each with an optional factor and `*`.
///
/// # Errors
///
/// Returns a sentence that names the term.
pub fn parse(text: &str) -> Result<Vec<Term>, String> {
    if text.trim().is_empty() {
        return Err("the sum has no calls: write, for example, accept+read+write+close".to_owned());
    }
    text.split('+').map(term).collect()
}

fn term(text: &str) -> Result<Term, String> {
    let (times, name) = match text.split_once('*') {
        Some((times, name)) => (factor(times)?, name.trim()),
        None => (1.0, text.trim()),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._=-:/".contains(c);
    if name.is_empty() || !name.chars().all(is_name) || !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err(format!("`{}` is not a call: write CALL, BENCHMARK.PHASE or TIMES*CALL", text.trim()));
    }
    Ok(Term { times, name: name.to_owned() })
}

fn factor(text: &str) -> Result<f64, String> {
    let times = text.trim().parse::<f64>().ok().filter(|times| times.is_finite() && *times > 0.0 && *times <= 1e9);
    times.ok_or_else(|| format!("`{}` is not a factor: write a positive number", text.trim()))
}
