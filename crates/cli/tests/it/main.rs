//! Tests of the program `landau` as a process: output, exit status and the files it writes.
#![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]
#![allow(clippy::print_stderr, reason = "a test that is skipped says why")]

mod adaptive;
mod against;
#[path = "../../../../tests/serve/client.rs"]
mod client;
mod compare;
mod control_characters;
mod deployments;
mod doctor;
mod documented;
mod explained;
mod history;
mod inspect;
mod interrupted;
mod kept_records;
mod lab;
mod lab_misused;
mod load;
mod mail;
mod mail_clients;
mod mail_servers;
mod measured;
mod misused;
mod pids;
mod planted;
mod platforms;
mod predict;
mod processes;
mod queue;
mod relay;
mod relay_killed;
mod serve;
mod serve_config;
mod serve_flags;
mod servers;
mod sink;
mod spawn;
mod study_2001;
mod support;
mod then;
mod tune;
