//! `landau verify`: is a record as it was written, and are its figures what its samples say?

use crate::status;
use landau_record::Record;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau verify run.landau.ndjson
  landau verify page.html")]
pub(crate) struct Args {
    /// A record or a page
    file: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    let record = Record::read(&args.file)?;
    if let Some(fault) = &record.fault {
        status::print(&format!("{}: line {} was altered: {}", args.file.display(), fault.line, fault.reason))?;
        return Ok(status::FAILED);
    }
    status::print(&format!("{}: {} lines, seal {}", args.file.display(), record.line_count, record.last_seal))?;
    Ok(status::DONE)
}
