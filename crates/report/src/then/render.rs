//! The replayed studies as text, for a terminal and for a document.

use super::{Article, Test, published};
use crate::table::grid::bold;
use crate::table::{Layout, wrapped};

/// Lays out the studies for a terminal: what was asked and published, both methods, and the conclusions.
pub fn render(articles: &[Article], layout: Layout) -> String {
    articles.iter().map(|article| one(article, layout)).collect::<Vec<_>>().join("\n\n")
}

fn one(article: &Article, layout: Layout) -> String {
    let mut parts = vec![
        headed(&format!("The study of {}, replayed: {}", article.year, article.asked), layout),
        wrapped(&format!("Source: {}", article.citation), layout),
        wrapped(&format!("Its method: {}", article.method), layout),
    ];
    parts.extend(article.tests.iter().map(|test| of_test(test, layout)));
    if !article.contradictions.is_empty() {
        let mut lines = vec![headed("Published figures that say the same thing twice", layout)];
        lines.extend(article.contradictions.iter().map(|one| indented(&one.sentence(), layout)));
        lines.push(indented(&published::implied_linux(), layout));
        parts.push(lines.join("\n"));
    }
    parts.join("\n\n")
}

fn of_test(test: &Test, layout: Layout) -> String {
    let mut lines = vec![headed(&format!("{}: {}", test.name, test.asked), layout)];
    let mut add = |head: &str, sentences: &[String]| {
        for sentence in sentences {
            lines.push(indented(&format!("{head}: {sentence}"), layout));
        }
    };
    let published = |one: &super::Published| format!("{}: {}", one.what, one.value);
    add("Published", &test.published.iter().map(published).collect::<Vec<_>>());
    add("Then", &test.then);
    add("Now", &test.now);
    add("Conclusion", std::slice::from_ref(&test.conclusion));
    add("Why", &test.why);
    lines.join("\n")
}

/// Returns a heading of one or more lines.
fn headed(text: &str, layout: Layout) -> String {
    wrapped(text, layout).lines().map(|line| bold(line, layout)).collect::<Vec<_>>().join("\n")
}

/// Returns a paragraph that is indented by two columns, and its further lines by four.
fn indented(text: &str, layout: Layout) -> String {
    let narrow = Layout { width: layout.width.saturating_sub(4), ..layout };
    format!("  {}", wrapped(text, narrow).replace('\n', "\n    "))
}
