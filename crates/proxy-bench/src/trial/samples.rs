//! What a process holds, sampled over a long run: is it flat?

use std::{
    fs::File,
    io::{LineWriter, Write as _},
    path::Path,
    time::Instant,
};

use anyhow::Context as _;

use super::verdict::{Verdict, tell};
use crate::{measure::percentile, process::Running};

/// What memory may grow by between the two halves of the time at full load: buffers of connections
/// come and go, and the allocator keeps some of their pages.
const GROWTH_RATIO_MAX: f64 = 1.10;
const GROWTH_MIB_MAX: f64 = 8.0;

/// Samples in the order of time.
pub(super) struct Samples {
    began: Instant,
    taken: Vec<Sample>,
    file: Option<LineWriter<File>>,
}

#[derive(Clone, Copy)]
struct Sample {
    rss_mib: f64,
    descriptors: f64,
}

impl Samples {
    /// None yet; each goes to this file as well.
    pub(super) fn into(file: Option<&Path>) -> anyhow::Result<Self> {
        let open = |path: &Path| {
            let file = File::create(path).with_context(|| format!("{}", path.display()))?;
            let mut file = LineWriter::new(file);
            writeln!(file, "seconds,rss_mib,descriptors")?;
            anyhow::Ok(file)
        };
        Ok(Self {
            began: Instant::now(),
            taken: Vec::new(),
            file: file.map(open).transpose()?,
        })
    }

    /// Takes one.
    pub(super) fn take(&mut self, process: &Running) -> anyhow::Result<()> {
        let sample = Sample {
            rss_mib: process.rss_bytes()? as f64 / 1_048_576.0,
            descriptors: process.open_files()? as f64,
        };
        self.taken.push(sample);
        if let Some(file) = &mut self.file {
            let seconds = self.began.elapsed().as_secs_f64();
            let Sample {
                rss_mib,
                descriptors,
            } = sample;
            writeln!(file, "{seconds:.1},{rss_mib:.1},{descriptors}")?;
        }
        Ok(())
    }

    pub(super) fn descriptors_max(&self) -> f64 {
        let descriptors = self.taken.iter().map(|sample| sample.descriptors);
        descriptors.fold(0.0, f64::max)
    }

    /// Tells how the thirds of the time compare, and judges memory by its halves.
    pub(super) fn judge(&self, verdict: &mut Verdict) {
        let thirds = self.taken.chunks(self.taken.len().div_ceil(3).max(1));
        for (third, samples) in ["first", "second", "last"].iter().zip(thirds) {
            let median = |of: fn(&Sample) -> f64| {
                let mut figures: Vec<f64> = samples.iter().map(of).collect();
                figures.sort_by(f64::total_cmp);
                percentile(&figures, 50)
            };
            let [rss, descriptors] = [median(|s| s.rss_mib), median(|s| s.descriptors)];
            tell(
                &format!("median of the {third} third: MiB, descriptors"),
                &format!("{rss:.1}, {descriptors}"),
            );
        }
        let rss_mib: Vec<f64> = self.taken.iter().map(|sample| sample.rss_mib).collect();
        memory(verdict, &rss_mib);
    }
}

fn memory(verdict: &mut Verdict, rss_mib: &[f64]) {
    // The first quarter fills buffers and pools.
    let steady = &rss_mib[rss_mib.len() / 4..];
    let (early, late) = steady.split_at(steady.len() / 2);
    // Peaks are bursts, which a busy machine makes as high as it is late. What leaks is never given
    // back, and raises the least that is held.
    let least = |samples: &[f64]| samples.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |samples: &[f64]| samples.iter().copied().fold(0.0, f64::max);
    for (half, samples) in [("earlier", early), ("later", late)] {
        let what = format!("resident memory in the {half} half at most, MiB");
        tell(&what, &format!("{:.1}", most(samples)));
    }
    tell(
        "resident memory in the earlier half at least, MiB",
        &format!("{:.1}", least(early)),
    );
    let max = least(early) * GROWTH_RATIO_MAX + GROWTH_MIB_MAX;
    verdict.at_most(
        "resident memory in the later half at least, MiB",
        least(late),
        max,
    );
}
