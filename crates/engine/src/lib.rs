//! The machinery of a run: the trait of a benchmark, and how its passes are planned, run, watched and recorded.
//!
//! A request is resolved on this host into a [`Plan`]. Each pass of each case then runs in a fresh worker process (this
//! program, started again), which takes the steps and stores their durations in memory that it shares with the
//! controller. The controller writes them to the record while the worker runs ([`run`]). The engine knows no benchmark
//! by name: the caller passes it a registry of [`Entry`].
//!
//! Each file uses only those above it:
//!
//! | file | subject |
//! |---|---|
//! | `study`, `settings`, `stop`, `lab_options`, `observer` | vocabulary |
//! | `lanes`, `timer` | shared memory for samples, and the timer that fills it |
//! | `benchmark` | the trait of a benchmark |
//! | `order`, `limit`, `drive`, `entry`, `worker` | the worker's side: orders, refusals, the life of a pass |
//! | `request`, `size`, `plan`, `pairing`, `availability` | from the user's request to a plan that fits on this host |
//! | `host`, `register`, `scratch`, `executed`, `affinity` | the machine, and what earlier runs left on it |
//! | `worker_process`, `handshake`, `switch` | other programs: workers, what they can measure, the user's commands |
//! | `profiler` | the interface of a profiler, and the extra passes that are made for it |
//! | `driver`, `adaptive`, `sample_writer`, `pass`, `execution`, `run` | the controller's side |

mod adaptive;
mod affinity;
mod availability;
mod benchmark;
mod drive;
mod driver;
mod entry;
mod error;
mod executed;
mod execution;
#[cfg(test)]
mod fake;
mod handshake;
mod host;
mod interference;
mod lab_options;
mod lanes;
mod limit;
mod observer;
mod order;
mod pairing;
mod pass;
mod plan;
mod profiler;
mod register;
mod request;
mod run;
mod sample_writer;
mod scratch;
mod settings;
mod size;
mod stop;
mod strides;
mod study;
mod switch;
mod timer;
mod worker;
mod worker_process;

pub use adaptive::{Assessment, Assessor, OpenCurve};
pub use availability::{Availability, availability};
pub use benchmark::{Benchmark, Context, Cost, Phase, Progress, ReplayCase, Support, Variant};
pub use entry::Entry;
pub use error::Error;
pub use executed::Executed;
pub use handshake::consult;
pub use host::{
    Pinning, describe as describe_host, describe_by_gettime as describe_host_by_gettime,
    describe_in as describe_host_in,
};
pub use lab_options::{Fault, StepWindows};
pub use lanes::CallTags;
pub use observer::{Event, Observer, Silent};
pub use order::ARGUMENT as WORKER_ARGUMENT;
pub use pairing::pair;
pub use plan::{Plan, Planned};
pub use profiler::{Profiler, Profiling, TimedCall, TimedCalls, Watched};
pub use request::{Request, Word, check_names, check_phase, word};
pub use run::{Changes, Output, Session, check_space, resume, run};
pub use scratch::{Scratch, free_bytes as scratch_free_bytes};
pub use settings::{Kind, Parameter, Settings};
pub use stop::Stop;
pub use strides::WINDOW_MAX;
pub use study::Study;
pub use switch::{HostSwitch, Switch, Switched};
pub use timer::{Sequence, Timer, Timestamp};
pub use worker::main as worker_main;

pub use landau_record::schema::{Adaptive, Annotation, AnnotationKind, FactUnit, Facts, Host, Timeline, Unit};
