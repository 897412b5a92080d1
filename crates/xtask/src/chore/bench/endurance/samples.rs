//! Samples of the server, taken once a second, and their growth.

use anyhow::{Context, Result, ensure};
use landau_sys::system::{cpu_time_ns, descriptor_count};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

/// The number of equal parts of a run. The trend is fitted to their means, without the first fifth.
const PARTS: usize = 25;
const LEFT_OUT: usize = 5;
/// The 97.5th percentile of Student's t with 18 degrees of freedom: 20 means, two parameters.
const T: f64 = 2.101;

/// A sample.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sample {
    pub(super) resident_bytes: u64,
    /// The memory that `RLIMIT_DATA` limits.
    pub(super) data_bytes: u64,
    pub(super) descriptors: u64,
    /// Memory that connections hold, as counted by the server.
    pub(super) held_bytes: u64,
    /// Open connections, as counted by the server.
    pub(super) connections: u64,
    /// Requests and connections that were refused for lack of memory.
    pub(super) refused: u64,
    server_ns: u64,
    own_ns: u64,
}

impl Sample {
    /// Samples a process and its metrics.
    pub(super) fn take(pid: u32, metrics: u16) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).context("read the server's status")?;
        let size = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let kib: u64 = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0);
            kib * 1024
        };
        let page = page(metrics)?;
        let metric = |name: &str| {
            let line = page.lines().find_map(|line| line.strip_prefix("landau_serve_")?.strip_prefix(name));
            line.and_then(|line| line.trim().parse::<f64>().ok()).with_context(|| format!("no {name} in /metrics"))
        };
        Ok(Self {
            resident_bytes: size("VmRSS"),
            data_bytes: size("VmData"),
            descriptors: descriptor_count(pid).context("count the server's descriptors")?,
            held_bytes: metric("held_bytes ")? as u64,
            connections: metric("open_connections ")? as u64,
            refused: metric("memory_refused_total ")? as u64,
            server_ns: cpu_time_ns(pid).unwrap_or(0),
            own_ns: cpu_time_ns(std::process::id()).unwrap_or(0),
        })
    }
}

/// Returns the page of the metrics.
fn page(port: u16) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    ensure!(page.starts_with("HTTP/1.1 200 "), "the metrics answer {:?}", page.lines().next());
    Ok(page)
}

/// The samples of a run.
pub(super) struct Samples {
    all: Vec<(f64, Sample)>,
    file: Option<File>,
}

impl Samples {
    pub(super) fn new(path: Option<&Path>) -> Result<Self> {
        let create = |path: &Path| {
            let mut file = File::create(path).with_context(|| format!("create {}", path.display()))?;
            writeln!(file, "seconds,resident_bytes,data_bytes,descriptors,held_bytes,connections,refused")?;
            Ok::<_, anyhow::Error>(file)
        };
        Ok(Self { all: Vec::new(), file: path.map(create).transpose()? })
    }

    pub(super) fn add(&mut self, at: Duration, sample: Sample) -> Result<()> {
        let seconds = at.as_secs_f64();
        if let Some(file) = &mut self.file {
            let Sample { resident_bytes, data_bytes, descriptors, held_bytes, connections, refused, .. } = sample;
            writeln!(
                file,
                "{seconds:.1},{resident_bytes},{data_bytes},{descriptors},{held_bytes},{connections},{refused}"
            )
            .context("write the samples")?;
        }
        self.all.push((seconds, sample));
        Ok(())
    }

    /// Returns the largest value.
    pub(super) fn peak(&self, of: impl Fn(&Sample) -> u64) -> u64 {
        self.all.iter().map(|(_, sample)| of(sample)).max().unwrap_or(0)
    }

    /// Returns the smallest value after the first fifth.
    pub(super) fn least(&self, of: impl Fn(&Sample) -> u64) -> u64 {
        let first = self.all.len() * LEFT_OUT / PARTS;
        self.all[first..].iter().map(|(_, sample)| of(sample)).min().unwrap_or(0)
    }

    /// Returns the processor time of the server, in seconds per second.
    pub(super) fn server_share(&self) -> f64 {
        self.share(|sample| sample.server_ns)
    }

    /// Returns the processor time of the server and the clients together, in seconds per second.
    pub(super) fn total_share(&self) -> f64 {
        self.share(|sample| sample.server_ns + sample.own_ns)
    }

    fn share(&self, of: impl Fn(&Sample) -> u64) -> f64 {
        let ((Some((from, first)), Some((to, last))), true) = ((self.all.first(), self.all.last()), self.all.len() > 1)
        else {
            return 0.0;
        };
        of(last).saturating_sub(of(first)) as f64 / 1e9 / (to - from)
    }

    /// Returns the growth of a value after the first fifth of the run; `None` if there are too few samples.
    pub(super) fn trend(&self, of: impl Fn(&Sample) -> u64) -> Option<Trend> {
        let values: Vec<f64> = self.all.iter().map(|(_, sample)| of(sample) as f64).collect();
        let length = values.len() / PARTS;
        if length == 0 {
            return None;
        }
        let means: Vec<f64> = values
            .chunks_exact(length)
            .take(PARTS)
            .skip(LEFT_OUT)
            .map(|part| part.iter().sum::<f64>() / length as f64)
            .collect();
        Some(Trend::of(&means))
    }
}

/// A straight line through means of equal parts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trend {
    pub(super) mean: f64,
    /// The growth from the first part to the last.
    pub(super) growth: f64,
    /// The ends of the 95% interval of the growth.
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Trend {
    /// Fits a line by least squares. The interval is valid for [`PARTS`] − [`LEFT_OUT`] means.
    fn of(means: &[f64]) -> Self {
        let count = means.len() as f64;
        let (middle, mean) = ((count - 1.0) / 2.0, means.iter().sum::<f64>() / count);
        let places = || means.iter().enumerate().map(|(place, value)| (place as f64 - middle, value - mean));
        let width = places().map(|(x, _)| x * x).sum::<f64>();
        let slope = places().map(|(x, y)| x * y).sum::<f64>() / width;
        let rest = places().map(|(x, y)| (y - slope * x).powi(2)).sum::<f64>();
        let error = (rest / (count - 2.0) / width).sqrt();
        let growth = |slope: f64| slope * (count - 1.0);
        Self { mean, growth: growth(slope), low: growth(slope - T * error), high: growth(slope + T * error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The interval of a line with known noise contains its growth, and that of a constant contains zero.
    #[test]
    fn growth_is_found_with_its_interval() {
        let noise = [0.3, -0.5, 0.1, 0.4, -0.2, -0.4, 0.5, 0.0, -0.3, 0.2];
        let means = |slope: f64| -> Vec<f64> {
            (0..20).map(|at| 100.0 + slope * f64::from(at) + noise[at as usize % 10]).collect()
        };
        let (flat, steep) = (Trend::of(&means(0.0)), Trend::of(&means(1.0)));
        assert!(flat.low < 0.0 && flat.high > 0.0, "{flat:?}");
        assert!(steep.low < 19.0 && steep.high > 19.0 && steep.low > 17.0, "{steep:?}");
    }

    #[test]
    fn the_first_fifth_is_left_out() {
        let mut samples = Samples::new(None).unwrap();
        for second in 0..100_u64 {
            let resident_bytes = if second < 20 { second } else { 50 };
            samples.add(Duration::from_secs(second), Sample { resident_bytes, ..Sample::default() }).unwrap();
        }
        let trend = samples.trend(|sample| sample.resident_bytes).unwrap();
        assert_eq!((trend.mean, trend.growth), (50.0, 0.0));
        assert_eq!(samples.least(|sample| sample.resident_bytes), 50);
    }
}
