//! A collection as text: the list of its records, charts of its trends, and one line for each trend.

use super::{Kind, LeftOut, Line, Over, Row, Scale, Trend, date, day, shared_changes};
use crate::table::grid::{self, bold, colored, line, needed, rule};
use crate::table::{Layout, plain, wrapped};
use landau_stats::Estimate;

/// The height of a chart, in rows.
const ROWS: usize = 8;
/// The width of the axis labels next to a chart, in columns.
const VALUES: usize = 20;
/// Minimum width of a chart, in columns: two times fit below it. Layouts are at least 60 columns wide.
const WIDTH_MIN: usize = 36;
/// The levels of a sparkline.
const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Maximum width of a sparkline, in columns.
const SPARK: usize = 32;

/// Lays out the records of a collection, the hosts below them, and what was left out.
pub fn list(rows: &[Row], left_out: &[LeftOut], layout: Layout) -> String {
    let head = ["Started", "Study", "Host", "Kernel", "Curves", "Record"].map(str::to_owned).to_vec();
    let mut hosts: Vec<&str> = rows.iter().map(|row| row.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let number = |row: &Row| hosts.binary_search(&row.host.as_str()).map_or(0, |index| index + 1);
    let cells = |row: &Row| {
        [
            day(&row.started),
            row.study.clone(),
            number(row).to_string(),
            row.kernel.clone(),
            row.curve_count.to_string(),
            row.path.clone(),
        ]
        .map(|cell| plain(&cell))
        .to_vec()
    };
    let body: Vec<Vec<String>> = rows.iter().map(cells).collect();
    let mut parts = Vec::new();
    if !body.is_empty() {
        let names = hosts.iter().enumerate().map(|(index, host)| format!("  {}  {}", index + 1, plain(host)));
        parts.push(table(&head, &body, layout));
        parts.push(format!("Hosts:\n{}", names.collect::<Vec<_>>().join("\n")));
    }
    if !left_out.is_empty() {
        parts.push(excluded("Left out:", left_out, layout));
    }
    parts.join("\n\n")
}

/// Lays out groups of records: the name, the number of records, the first and the last start.
pub fn grouped(groups: &[(String, usize, [String; 2])], layout: Layout) -> String {
    let head = ["", "Records", "First", "Last"].map(str::to_owned).to_vec();
    let cells = |(name, count, started): &(String, usize, [String; 2])| {
        vec![plain(name), count.to_string(), plain(&day(&started[0])), plain(&day(&started[1]))]
    };
    table(&head, &groups.iter().map(cells).collect::<Vec<_>>(), layout)
}

/// Lays out a table whose widest column is narrowed until the table fits.
fn table(head: &[String], body: &[Vec<String>], layout: Layout) -> String {
    let mut widths = needed(std::iter::once(head).chain(body.iter().map(Vec::as_slice)));
    while grid::used(&widths) > usize::from(layout.width) {
        let Some(widest) = widths.iter_mut().max_by_key(|width| **width).filter(|width| **width > 8) else { break };
        *widest -= 1;
    }
    let body = body.iter().map(|cells| line(cells, &widths));
    let head = [bold(&line(head, &widths), layout), rule(&widths, layout)];
    head.into_iter().chain(body).collect::<Vec<_>>().join("\n")
}

/// Lists what was left out; files with the same reason share a line.
fn excluded(title: &str, left_out: &[LeftOut], layout: Layout) -> String {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in left_out {
        match reasons.iter_mut().find(|(reason, _)| *reason == one.reason) {
            Some((_, paths)) => paths.push(&one.path),
            None => reasons.push((&one.reason, vec![&one.path])),
        }
    }
    let told = |(reason, paths): &(&str, Vec<&str>)| match paths.as_slice() {
        [a, b, c, rest @ ..] if rest.len() > 1 => format!("{a}, {b}, {c} and {} more: {reason}", rest.len()),
        paths => format!("{}: {reason}", paths.join(", ")),
    };
    let lines = reasons.iter().map(|one| format!("  {}", indented(&told(one), layout)));
    std::iter::once(title.to_owned()).chain(lines).collect::<Vec<_>>().join("\n")
}

/// Wraps a text from a record; all lines but the first are indented by four columns.
fn indented(text: &str, layout: Layout) -> String {
    let narrower = Layout { width: layout.width.saturating_sub(4), ..layout };
    wrapped(text, narrower).replace('\n', "\n    ")
}

/// Draws a trend.
pub fn trend(one: &Trend, layout: Layout) -> String {
    let mut parts = vec![bold(&plain(&format!("{}: {}", one.subject(), one.title())), layout)];
    match one.over {
        Over::Dates => parts.extend(one.lines.iter().map(|line| chart(line, one.kind, layout))),
        Over::Hosts | Over::Kernels => parts.extend(one.lines.iter().map(|line| values(line, one.kind, layout))),
    }
    if one.lines.is_empty() {
        parts.push("  no record has this value".to_owned());
    }
    if !one.refused.is_empty() {
        parts.push(excluded("  Not comparable with the others:", &one.refused, layout));
    }
    parts.join("\n")
}

/// Draws a chart over the records in order of time, equally spaced, with its changes below.
fn chart(one: &Line, kind: Kind, layout: Layout) -> String {
    let width = (usize::from(layout.width) - VALUES - 4).min(one.points.len().saturating_mul(4).max(WIDTH_MIN));
    let scale = Scale::of(std::slice::from_ref(one), kind);
    let column = |index: usize| place_of(index, one.points.len(), width);
    let mut rows = vec![vec![' '; width]; ROWS];
    for change in &one.changes {
        let at = column(change.index);
        for row in &mut rows {
            row[at] = '┊';
        }
    }
    for (index, point) in one.points.iter().enumerate() {
        let row = ROWS - 1 - (scale.place(point.value) * (ROWS - 1) as f64).round() as usize;
        rows[row][column(index)] = '●';
    }
    let label = |row: usize| match row {
        0 => kind.text(scale.high),
        row if row + 1 == ROWS => kind.text(scale.low),
        row if row == ROWS / 2 => kind.text(scale.low + (scale.high - scale.low) * 3.0 / 7.0),
        _ => String::new(),
    };
    let drawn = rows.iter().enumerate().map(|(index, row)| {
        let cells: String = row.iter().collect();
        format!("  {:>VALUES$} ┤{}", grid::cut(&label(index), VALUES), cells.trim_end())
    });
    let mut lines = vec![format!("  {}", plain(&one.name))];
    lines.extend(drawn);
    lines.push(format!("  {:VALUES$} └{}", "", "─".repeat(width)));
    lines.push(format!("  {:VALUES$}  {}", "", dates(one, width)));
    lines.extend(told(one, kind, layout));
    lines.join("\n")
}

/// Returns the column of a point.
fn place_of(index: usize, count: usize, width: usize) -> usize {
    if count < 2 { 0 } else { index * (width - 1) / (count - 1) }
}

/// Returns the first and the last date, for the line below a chart.
fn dates(one: &Line, width: usize) -> String {
    let (Some(first), Some(last)) = (one.points.first(), one.points.last()) else { return String::new() };
    let (head, tail) = (plain(&day(&first.started)), plain(&day(&last.started)));
    if one.points.len() < 2 {
        return head;
    }
    let room = width.saturating_sub(head.chars().count() + tail.chars().count()).max(1);
    format!("{head}{}{tail}", " ".repeat(room))
}

/// Describes the changes of a line, or states that there are none.
fn told(one: &Line, kind: Kind, layout: Layout) -> Vec<String> {
    let count = one.points.len();
    if one.changes.is_empty() {
        let text = match one.spread(kind) {
            _ if !one.is_searched => format!("too few records for a change point: {count}"),
            spread => format!("no change point in {count} records; {spread}"),
        };
        return vec![format!("  {text}")];
    }
    let sentence = |change: &super::Change| {
        let text = indented(&format!("change: {}", change.text(kind)), layout);
        colored(&format!("  {text}"), "33", layout)
    };
    one.changes.iter().map(sentence).collect()
}

/// Draws the value of each host or kernel on a common axis.
fn values(one: &Line, kind: Kind, layout: Layout) -> String {
    let names = one.points.iter().map(|point| point.name.chars().count()).max().unwrap_or(0);
    let names = names.min(usize::from(layout.width) / 2);
    let width = usize::from(layout.width).saturating_sub(names + 36).clamp(10, 40);
    let scale = Scale::of(std::slice::from_ref(one), kind);
    let row = |point: &super::Point| {
        let at = (scale.place(point.value) * (width - 1) as f64).round() as usize;
        let mut cells = vec!['·'; width];
        let ends = [point.range.0, point.range.1].map(|end| (scale.place(end) * (width - 1) as f64).round() as usize);
        cells[ends[0]..=ends[1]].fill('─');
        cells[at] = '●';
        let records = if point.record_count == 1 { "record" } else { "records" };
        format!(
            "  {:<names$}  {}  {} ({} {records})",
            grid::cut(&plain(&point.name), names),
            cells.iter().collect::<String>(),
            kind.text(point.value),
            point.record_count
        )
    };
    one.points.iter().map(row).collect::<Vec<_>>().join("\n")
}

/// Lays out many trends, a line for each: the curve, a small chart, the last value and the changes.
pub fn overview(trends: &[Trend], layout: Layout) -> String {
    let head = ["Curve", "Value", "Records", "", "Last", "Changes"].map(str::to_owned).to_vec();
    let rows = trends.iter().flat_map(|one| one.lines.iter().map(move |line| (one, line)));
    let cells = |(one, line): (&Trend, &Line)| {
        let last = line.points.last().map_or("–".to_owned(), |point| one.kind.text(point.value));
        let change = line.changes.last().map_or("–".to_owned(), |last| {
            let more = line.changes.len() - 1;
            let more = if more > 0 { format!(" and {more} before") } else { String::new() };
            // The interval is shown in the chart of the curve.
            let by = one.kind.change_text(&Estimate::bare(last.change.value));
            format!("{by} from {} on{more}", plain(&date(&last.started)))
        });
        let records = line.points.len().to_string();
        vec![plain(&one.subject()), one.quantity.clone(), records, spark(line, one.kind), last, change]
    };
    let body: Vec<Vec<String>> = rows.map(cells).collect();
    let refused: usize = trends.iter().map(|one| one.refused.len()).sum();
    let note = match refused {
        0 => String::new(),
        count => format!("\n\n{count} values are not comparable with the others; choose a curve to see why."),
    };
    let shared = shared_changes(trends).into_iter().map(|one| format!("\n\n{}", wrapped(&one.text(), layout)));
    format!("{}{}{note}", table(&head, &body, layout), shared.collect::<String>())
}

/// Returns a sparkline; each column is the mean of its points.
fn spark(one: &Line, kind: Kind) -> String {
    let scale = Scale::of(std::slice::from_ref(one), kind);
    let size = one.points.len().div_ceil(SPARK).max(1);
    let step = |points: &[super::Point]| {
        let mean = points.iter().map(|point| point.value).sum::<f64>() / points.len() as f64;
        STEPS[(scale.place(mean) * (STEPS.len() - 1) as f64).round() as usize]
    };
    one.points.chunks(size).map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;

    const LAYOUT: Layout = Layout { width: 90, color: false };

    #[test]
    fn a_chart_shows_every_record_the_change_and_what_is_refused() {
        let text = trend(&example(), LAYOUT);
        assert_eq!(text.matches('●').count(), 12, "{text}");
        assert!(text.contains('┊') && text.contains("2026-11-01") && text.contains("2026-11-12"), "{text}");
        assert!(text.contains("change: +10.5%") && text.contains("x.ndjson: counts instructions"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 90), "{text}");
    }

    #[test]
    fn many_trends_have_a_line_each() {
        let text = overview(&[example(), example()], LAYOUT);
        assert!(text.lines().filter(|line| line.contains("dup · dup")).count() == 2, "{text}");
        assert!(text.contains("▇") || text.contains('█'), "{text}");
    }

    /// Guards against a thousand lines for files with the same reason.
    #[test]
    fn files_with_one_reason_share_a_line() {
        let one = |i: usize| LeftOut { path: format!("{i}.ndjson"), reason: "torn".to_owned() };
        let many: Vec<LeftOut> = (0..9).map(one).collect();
        assert_eq!(excluded("Left out:", &many, LAYOUT), "Left out:\n  0.ndjson, 1.ndjson, 2.ndjson and 6 more: torn");
    }
}
