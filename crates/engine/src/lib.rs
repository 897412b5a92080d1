//! How a run works: what a benchmark is, how its passes are planned, driven, watched and recorded.
//!
//! A run is planned ([`Plan`]) on this host, then each pass of each case is given to a fresh worker process (this
//! very program, started again), which takes the steps and pushes their durations into memory that it shares with
//! the controller ([`run`]). The controller writes them to the record while the worker runs. The engine knows no
//! benchmark by name: it is handed a registry of [`Entry`].

mod benchmark;
mod error;
mod host;
mod limit;
mod observer;
mod pass;
mod plan;
mod run;
mod scratch;
mod settings;
mod timer;
mod worker;

pub use benchmark::{Benchmark, Context, Cost, Entry, Phase, Stop, Study, Support, Variant};
pub use error::Error;
pub use host::{Pinning, describe as describe_host, describe_in as describe_host_in};
pub use observer::{Event, Observer, Silent};
pub use plan::{Availability, Fault, Fine, Plan, Planned, Request, availability, check_phase, check_words};
pub use run::{Ending, Session, check_room, resume, run};
pub use scratch::{Scratch, space as scratch_space};
pub use settings::{Kind, Parameter, Settings};
pub use timer::{Timer, Timestamp};
pub use worker::{ARGUMENT as WORKER_ARGUMENT, main as worker_main};

pub use landau_record::schema::{Annotation, AnnotationKind, FactUnit, Facts, Host, Unit};
