//! A differential flame graph: call chains at the largest n, coloured by the difference from the smallest n.
//!
//! The SVG is written without a library, because the field's usual library has a copyleft licence
//! (docs/dependencies.md). The width of a box is instructions or time. Callees are above their callers. Frames are
//! sorted by name, so that two graphs of one kernel align.

use crate::quantity::{count, duration, percent};
use landau_record::schema::{Explanation, Profile};
use maud::{Markup, html};

const WIDTH: f64 = 1_160.0;
const ROW: f64 = 18.0;
/// The width of a letter, and the minimum width of a labelled box.
const LETTER: f64 = 6.4;
const LABELLED: f64 = 24.0;
/// The depth to which chains are drawn. A kernel stack holds fewer frames.
const DEEPEST: u32 = 300;
/// Boxes narrower than this are not drawn.
const NARROWEST: f64 = 0.4;

/// A function in a chain, with its callees.
struct Frame<'a> {
    name: &'a str,
    caller: Option<u32>,
    callees: Vec<usize>,
    /// The cost including callees, at the first and the last n.
    whole: [f64; 2],
}

impl<'a> Frame<'a> {
    fn new(name: &'a str, caller: Option<u32>, own: [f64; 2]) -> Self {
        Self { name, caller, callees: Vec::new(), whole: own }
    }
}

/// How costs are formatted: alone, and next to another one.
struct Words {
    what: &'static str,
    one: fn(f64) -> String,
    beside: fn(f64) -> String,
}

/// Returns the graph of counted instructions as an SVG element, or `None` if nothing was counted.
pub(crate) fn of_instructions(explanation: &Explanation) -> Option<Markup> {
    let chains = explanation.chains.iter();
    let frames =
        chains.map(|chain| Frame::new(&chain.name, chain.caller, chain.instructions.map(|count| count as f64)));
    let one = |cost| format!("{} instructions", count(cost));
    graph(frames.collect(), &Words { what: "instructions", one, beside: count })
}

/// Returns the graph of sampled time as an SVG element, or `None` without samples.
pub(crate) fn of_samples(profile: &Profile) -> Option<Markup> {
    let frames = profile.chains.iter().map(|chain| Frame::new(&chain.name, chain.caller, chain.ns));
    graph(frames.collect(), &Words { what: "time", one: duration, beside: duration })
}

fn graph(own: Vec<Frame<'_>>, words: &Words) -> Option<Markup> {
    let (frames, roots) = frames(own);
    let sum = |side: usize| roots.iter().map(|&root| frames[root].whole[side]).sum::<f64>();
    let (first, last) = (sum(0), sum(1));
    if last <= 0.0 || !last.is_finite() {
        return None;
    }
    let mut drawing =
        Drawing { frames: &frames, words, scale: WIDTH / last, growth: last - first, boxes: Vec::new(), deepest: 0 };
    let mut left = 0.0;
    for &root in &roots {
        left += drawing.draw(root, left, 0);
    }
    let height = (f64::from(drawing.deepest) + 1.0) * ROW;
    Some(html! {
        svg.flame viewBox={ "0 0 " (WIDTH) " " (height) } role="img"
            aria-label={ "Call chains by " (words.what) "; the table above has the values" }
            font-family="ui-monospace, monospace" font-size="11"
        {
            @for one in &drawing.boxes { (one.render(height)) }
        } "\n"
    })
}

/// Returns the frames with their callees, and the roots: frames without a caller.
fn frames(mut frames: Vec<Frame<'_>>) -> (Vec<Frame<'_>>, Vec<usize>) {
    let mut roots = Vec::new();
    // A caller precedes its callees. An index that violates this is ignored, and the frame becomes a root.
    for index in (0..frames.len()).rev() {
        match frames[index].caller.map(|caller| caller as usize).filter(|&caller| caller < index) {
            Some(caller) => {
                let whole = frames[index].whole;
                for (sum, own) in frames[caller].whole.iter_mut().zip(whole) {
                    *sum += own;
                }
                frames[caller].callees.push(index);
            }
            None => roots.push(index),
        }
    }
    let names: Vec<&str> = frames.iter().map(|frame| frame.name).collect();
    let by_name = |a: &usize, b: &usize| names[*a].cmp(names[*b]).then(a.cmp(b));
    roots.sort_by(by_name);
    for frame in &mut frames {
        frame.callees.sort_by(by_name);
    }
    (frames, roots)
}

struct Drawing<'a> {
    frames: &'a [Frame<'a>],
    words: &'a Words,
    scale: f64,
    growth: f64,
    boxes: Vec<Drawn>,
    deepest: u32,
}

impl Drawing<'_> {
    /// Places a box and its callees, and returns its width.
    fn draw(&mut self, index: usize, left: f64, depth: u32) -> f64 {
        let frame = &self.frames[index];
        let width = frame.whole[1] * self.scale;
        if width < NARROWEST || depth > DEEPEST {
            return width;
        }
        self.deepest = self.deepest.max(depth);
        let grown = frame.whole[1] - frame.whole[0];
        let share = if self.growth == 0.0 { 0.0 } else { grown / self.growth };
        // The part of the box that was absent at the smallest n.
        let tone = if frame.whole[1] == 0.0 { 0.0 } else { grown / frame.whole[1] };
        let title = format!(
            "{}: {}, {} at the smallest n, {} of the growth",
            frame.name,
            (self.words.one)(frame.whole[1]),
            (self.words.beside)(frame.whole[0]),
            percent(share)
        );
        self.boxes.push(Drawn { left, width, depth, tone, title, name: frame.name.to_owned() });
        let mut at = left;
        for &callee in &frame.callees {
            at += self.draw(callee, at, depth + 1);
        }
        width
    }
}

/// A placed box.
struct Drawn {
    left: f64,
    width: f64,
    depth: u32,
    tone: f64,
    title: String,
    name: String,
}

impl Drawn {
    fn render(&self, height: f64) -> Markup {
        let top = height - (f64::from(self.depth) + 1.0) * ROW;
        html! {
            g {
                title { (self.title) }
                rect x=(format!("{:.2}", self.left)) y=(format!("{top:.0}"))
                    width=(format!("{:.2}", (self.width - 0.3).max(0.2))) height=(format!("{:.0}", ROW - 1.0)) rx="1"
                    fill=(colour(self.tone)) {}
                @if self.width >= LABELLED {
                    text x=(format!("{:.2}", self.left + 3.0)) y=(format!("{:.0}", top + 12.0)) { (self.label()) }
                }
            } "\n"
        }
    }

    /// Returns the name, shortened to the width of the box.
    fn label(&self) -> String {
        let room = ((self.width - 6.0) / LETTER) as usize;
        if self.name.chars().count() <= room {
            return self.name.clone();
        }
        self.name.chars().take(room.saturating_sub(1)).chain(std::iter::once('…')).collect()
    }
}

/// Returns the colour: grey for no difference, red for all new, blue for more at the smallest n.
fn colour(tone: f64) -> String {
    let strength = tone.abs().min(1.0);
    let fade = |to: f64| (226.0 + (to - 226.0) * strength).round();
    let (red, green, blue) = if tone >= 0.0 { (240.0, 110.0, 80.0) } else { (100.0, 150.0, 240.0) };
    format!("rgb({},{},{})", fade(red), fade(green), fade(blue))
}

#[cfg(test)]
mod tests {
    use super::*;
    use landau_record::schema::Chain;

    fn chain(caller: Option<u32>, name: &str, instructions: [u64; 2]) -> Chain {
        Chain { caller, name: name.to_owned(), instructions }
    }

    #[test]
    fn a_box_is_as_wide_as_its_callees_together() {
        let chains = vec![
            chain(None, "entry", [10, 10]),
            chain(Some(0), "scan<T>", [20, 90]),
            chain(Some(1), "visit", [0, 100]),
        ];
        let svg = of_instructions(&Explanation { chains, ..Explanation::default() }).unwrap().into_string();
        assert_eq!(svg.matches("<rect").count(), 3);
        assert!(svg.contains("entry: 200 instructions, 30 at the smallest n, 100% of the growth"), "{svg}");
        assert!(svg.contains("visit: 100 instructions, 0 at the smallest n, 58.8% of the growth"), "{svg}");
        assert!(svg.contains("scan&lt;T&gt;") && !svg.contains("scan<T>"));
        assert!(svg.contains("width=\"1159.70\"") && svg.contains("width=\"579.70\""), "{svg}");
    }

    #[test]
    fn an_inconsistent_record_does_not_loop_forever() {
        let chains = vec![chain(Some(0), "own caller", [1, 1]), chain(Some(9), "nobody's", [u64::MAX, 1])];
        assert!(of_instructions(&Explanation { chains, ..Explanation::default() }).is_some());
        assert!(of_instructions(&Explanation::default()).is_none());
    }
}
