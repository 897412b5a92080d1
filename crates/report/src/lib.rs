//! What a person sees of a record: findings in plain sentences, a table, a page, charts.
//!
//! One [`Analysis`] is made of each record ([`landau_stats`] judges, this crate only gathers and words), and everything
//! that is shown is drawn from it: [`findings`], the rows of `landau show` ([`table`]), the self-contained page
//! ([`page`]) and the standalone charts ([`svg`]). So two places can never show two different figures. The crate
//! measures nothing, reads no clock and prints nothing: it turns values into text.

#![allow(
    clippy::format_collect,
    reason = "HTML reads as a template; a page is made once, and its size is in its charts"
)]

mod analysis;
pub mod explained;
pub mod findings;
mod flame;
pub mod page;
pub mod quantity;
mod reduce;
mod section;
pub mod svg;
pub mod table;
mod versus;

pub use analysis::{
    Analysis, CaseStudy, LimitMet, Mismatch, PhaseStudy, check_figures, named_by_unit, unit_name, unit_of, unlike,
};
pub use versus::{Duel, Versus};
