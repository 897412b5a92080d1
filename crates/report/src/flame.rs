//! A differential flame graph: chains of calls at the largest size, coloured by what they have more of than at the
//! smallest.
//!
//! Drawn by us as plain SVG, for the library of the field is under a licence that Landau's users would have to carry on
//! (docs/dependencies.md). Width is instructions; a box stands on its caller; boxes are sorted by name, so that two
//! graphs of the same kernel can be laid side by side.

use crate::page::escape;
use crate::quantity::{count, percent};
use landau_record::schema::{Chain, Explanation};
use std::fmt::Write;

const WIDTH: f64 = 1_160.0;
const ROW: f64 = 18.0;
/// What a letter takes of a box, and the narrowest box that has any.
const LETTER: f64 = 6.4;
const LABELLED: f64 = 24.0;
/// Chains are drawn so far; a kernel's own stack holds fewer.
const DEEPEST: u32 = 300;
/// Boxes narrower than this are not drawn.
const NARROWEST: f64 = 0.4;

/// A box: a chain with all that it calls.
struct Frame<'a> {
    chain: &'a Chain,
    callees: Vec<usize>,
    /// Instructions with those of what it calls, at the first size and at the last.
    whole: [u64; 2],
}

/// The graph as an SVG element; none where nothing was counted.
pub(crate) fn graph(explanation: &Explanation) -> Option<String> {
    let (frames, roots) = frames(&explanation.chains);
    let sum = |side: usize| roots.iter().map(|&root| frames[root].whole[side]).sum::<u64>();
    let (first, last) = (sum(0), sum(1));
    if last == 0 {
        return None;
    }
    let mut drawing = Drawing {
        frames: &frames,
        scale: WIDTH / last as f64,
        growth: last as f64 - first as f64,
        boxes: Vec::new(),
        deepest: 0,
    };
    let mut left = 0.0;
    for &root in &roots {
        left += drawing.draw(root, left, 0);
    }
    let height = (f64::from(drawing.deepest) + 1.0) * ROW;
    let mut svg = format!(
        "<svg class=\"flame\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"Chains of calls by instructions; the table above has the figures\" \
         font-family=\"ui-monospace, monospace\" font-size=\"11\">\n"
    );
    for one in &drawing.boxes {
        one.write(&mut svg, height);
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

/// The chains with what they call, and those that nothing calls.
fn frames(chains: &[Chain]) -> (Vec<Frame<'_>>, Vec<usize>) {
    let mut frames: Vec<Frame<'_>> =
        chains.iter().map(|chain| Frame { chain, callees: Vec::new(), whole: chain.instructions }).collect();
    let mut roots = Vec::new();
    // A caller stands before what it calls; a record that says otherwise is read as far as it makes sense.
    for index in (0..chains.len()).rev() {
        match chains[index].caller.map(|caller| caller as usize).filter(|&caller| caller < index) {
            Some(caller) => {
                let whole = frames[index].whole;
                for (sum, own) in frames[caller].whole.iter_mut().zip(whole) {
                    *sum = sum.saturating_add(own);
                }
                frames[caller].callees.push(index);
            }
            None => roots.push(index),
        }
    }
    let by_name = |a: &usize, b: &usize| chains[*a].name.cmp(&chains[*b].name).then(a.cmp(b));
    roots.sort_by(by_name);
    for frame in &mut frames {
        frame.callees.sort_by(by_name);
    }
    (frames, roots)
}

struct Drawing<'a> {
    frames: &'a [Frame<'a>],
    scale: f64,
    growth: f64,
    boxes: Vec<Drawn>,
    deepest: u32,
}

impl Drawing<'_> {
    /// Draws a box and what stands on it; its width.
    fn draw(&mut self, index: usize, left: f64, depth: u32) -> f64 {
        let frame = &self.frames[index];
        let width = frame.whole[1] as f64 * self.scale;
        if width < NARROWEST || depth > DEEPEST {
            return width;
        }
        self.deepest = self.deepest.max(depth);
        let grown = frame.whole[1] as f64 - frame.whole[0] as f64;
        let share = if self.growth == 0.0 { 0.0 } else { grown / self.growth };
        // How much of the box itself was not there at the smallest size.
        let tone = if frame.whole[1] == 0 { 0.0 } else { grown / frame.whole[1] as f64 };
        let title = format!(
            "{}: {} instructions, {} at the smallest size, {} of the growth",
            frame.chain.name,
            count(frame.whole[1] as f64),
            count(frame.whole[0] as f64),
            percent(share)
        );
        self.boxes.push(Drawn { left, width, depth, tone, title, name: frame.chain.name.clone() });
        let mut at = left;
        for &callee in &frame.callees {
            at += self.draw(callee, at, depth + 1);
        }
        width
    }
}

/// A box where it stands.
struct Drawn {
    left: f64,
    width: f64,
    depth: u32,
    tone: f64,
    title: String,
    name: String,
}

impl Drawn {
    fn write(&self, svg: &mut String, height: f64) {
        let top = height - (f64::from(self.depth) + 1.0) * ROW;
        let _ = write!(
            svg,
            "<g><title>{}</title><rect x=\"{:.2}\" y=\"{top:.0}\" width=\"{:.2}\" height=\"{:.0}\" rx=\"1\" \
             fill=\"{}\"/>",
            escape(&self.title),
            self.left,
            (self.width - 0.3).max(0.2),
            ROW - 1.0,
            colour(self.tone)
        );
        if self.width >= LABELLED {
            let room = ((self.width - 6.0) / LETTER) as usize;
            let letters = self.name.chars().count();
            let label: String = if letters <= room {
                self.name.clone()
            } else {
                self.name.chars().take(room.saturating_sub(1)).chain(std::iter::once('…')).collect()
            };
            let _ = write!(svg, "<text x=\"{:.2}\" y=\"{:.0}\">{}</text>", self.left + 3.0, top + 12.0, escape(&label));
        }
        svg.push_str("</g>\n");
    }
}

/// Grey where nothing is new, red where all of it is, blue where it was more at the smallest size.
fn colour(tone: f64) -> String {
    let strength = tone.abs().min(1.0);
    let fade = |to: f64| (226.0 + (to - 226.0) * strength).round();
    let (red, green, blue) = if tone >= 0.0 { (240.0, 110.0, 80.0) } else { (100.0, 150.0, 240.0) };
    format!("rgb({},{},{})", fade(red), fade(green), fade(blue))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(caller: Option<u32>, name: &str, instructions: [u64; 2]) -> Chain {
        Chain { caller, name: name.to_owned(), instructions }
    }

    #[test]
    fn a_box_is_as_wide_as_what_it_calls_and_stands_below_it() {
        let chains = vec![
            chain(None, "entry", [10, 10]),
            chain(Some(0), "scan<T>", [20, 90]),
            chain(Some(1), "visit", [0, 100]),
        ];
        let svg = graph(&Explanation { chains, ..Explanation::default() }).unwrap();
        assert_eq!(svg.matches("<rect").count(), 3);
        assert!(svg.contains("entry: 200 instructions, 30 at the smallest size, 100% of the growth"), "{svg}");
        assert!(svg.contains("visit: 100 instructions, 0 at the smallest size, 58.8% of the growth"), "{svg}");
        assert!(svg.contains("scan&lt;T&gt;") && !svg.contains("scan<T>"));
        assert!(svg.contains("width=\"1159.70\"") && svg.contains("width=\"579.70\""), "{svg}");
    }

    #[test]
    fn a_record_that_makes_no_sense_is_drawn_without_an_end_in_a_loop() {
        let chains = vec![chain(Some(0), "own caller", [1, 1]), chain(Some(9), "nobody's", [u64::MAX, 1])];
        assert!(graph(&Explanation { chains, ..Explanation::default() }).is_some());
        assert!(graph(&Explanation::default()).is_none());
    }
}
