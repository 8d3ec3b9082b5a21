//! What a launch would run and why, for people.

use super::Launch;
use super::copies::{Copied, Way};
use super::pick::print_schedule;
use super::run::Checks;
use super::time::bytes_moved;
use crate::cuda::{Gpu, render_source};
use crate::error::{Error, Result};
use crate::plan::{Instance, Variant};
use std::fmt::Write;
use std::time::Duration;

impl Launch<'_> {
    /// The schedule, why it was chosen, what the model says of it and of the others beside what this launch was timed at, registers,
    /// shared memory, waves, the roofline's floor, and the CUDA source. On the CPU: the schedules that there are, and the
    /// source of the one asked for, else of the first.
    pub fn explain(&self) -> Result<String> {
        let checks = self.checks()?;
        let mut out = String::new();
        let _ = writeln!(out, "{} on {}", self.kernel.name, checks.device);
        match checks.device.gpu() {
            Some(gpu) => self.explain_gpu(&mut out, gpu)?,
            None => self.explain_cpu(&mut out)?,
        }
        Ok(out)
    }

    /// The schedule that `launch` takes, as its attribute would be written; `cpu` on the CPU.
    pub fn chosen(&self) -> Result<String> {
        let checks = self.checks()?;
        match checks.device.gpu() {
            Some(gpu) => Ok(print_schedule(self.variant(gpu, &checks, self.may_copy)?.variant)),
            None => Ok("cpu".to_owned()),
        }
    }

    /// The schedules that the launch's device runs, as [`schedule`](Launch::schedule) takes them, but for those that need copies which
    /// the launch cannot or must not make; none on the CPU.
    pub fn schedules(&self) -> Result<Vec<String>> {
        let checks = self.checks()?;
        let Some(gpu) = checks.device.gpu() else { return Ok(Vec::new()) };
        Ok(self.runnable(gpu, &checks).into_iter().map(print_schedule).collect())
    }

    /// What the model says that each of the [`schedules`](Launch::schedules) takes, at the device's highest clock; nothing on the CPU.
    pub fn predictions(&self) -> Result<Vec<(String, Duration)>> {
        let checks = self.checks()?;
        let Some(gpu) = checks.device.gpu() else { return Ok(Vec::new()) };
        let said = |variant: &'static Variant| {
            let cycles = self.predicted(gpu, &checks, variant)?;
            Some((print_schedule(variant), Duration::from_secs_f64(cycles as f64 / gpu.clock.max(1.0))))
        };
        Ok(self.runnable(gpu, &checks).into_iter().filter_map(said).collect())
    }

    /// The CUDA source of the chosen schedule; on the CPU that of the one asked for, else of the first.
    pub fn source(&self) -> Result<String> {
        let checks = self.checks()?;
        let variant = match checks.device.gpu() {
            Some(gpu) => self.variant(gpu, &checks, self.may_copy)?.variant,
            None => self.shown_variant(&checks)?,
        };
        Ok(render_source(checks.instance, variant))
    }

    fn explain_gpu(&self, out: &mut String, gpu: &'static Gpu) -> Result<()> {
        let checks = self.checks()?;
        let plan = self.plan(&checks, gpu, self.may_copy)?;
        let loaded = self.loaded(&checks, &plan, gpu)?;
        let variant = plan.variant;
        write_schedule(out, variant);
        let figures = |variant: &Variant| self.figures(gpu, &checks, variant);
        let _ = writeln!(out, "  time       {}", figures(variant));
        let each = loaded.blocks_per_multiprocessor(plan.grid.shared_bytes)?;
        let resident = each * gpu.multiprocessors;
        let waves = f64::from(plan.grid.blocks) / f64::from(resident.max(1));
        let _ = writeln!(
            out,
            "  grid       {} blocks of {} threads, {waves:.2} waves ({} on each of {} multiprocessors)",
            plan.grid.blocks, variant.threads, each, gpu.multiprocessors
        );
        if plan.grid.cluster > 1 {
            let _ = writeln!(out, "  clusters   of {} blocks", plan.grid.cluster);
        }
        if plan.shares.parts > 1 {
            let which = match plan.shares.whole {
                0 => "each tile's sum".to_owned(),
                whole => format!("the sum of each tile but the first {whole}"),
            };
            let (parts, who) =
                (plan.shares.parts, if plan.grid.cooperative { "all of them add" } else { "the last one adds" });
            let _ = writeln!(out, "  parts      {parts} of {which}, one a block; {who} them up");
        }
        if let Some(merged) = plan.merged {
            let names = merged.dims().iter().filter_map(|dim| self.kernel.dims.get(*dim)).map(|def| def.name);
            let names: Vec<&str> = names.collect();
            let _ = writeln!(out, "  axes       {} as one of {}", names.join(" and "), merged.elements());
        }
        let spilled = match loaded.local_bytes {
            0 => "none in memory".to_owned(),
            bytes => format!("{bytes} bytes in memory"),
        };
        let _ = writeln!(out, "  registers  {} a thread, {spilled}", loaded.registers);
        let shared = plan.grid.shared_bytes + loaded.static_shared_bytes;
        let _ = writeln!(out, "  shared     {:.1} KiB a block", f64::from(shared) / 1024.0);
        let windows: Vec<String> = variant
            .windowed()
            .map(|tensor| {
                let name = self.kernel.tensors.get(tensor).map_or("", |def| def.name);
                format!("{name} by {}", if plan.windows.fit(tensor) { "TMA" } else { "threads" })
            })
            .collect();
        if !windows.is_empty() {
            let _ = writeln!(out, "  windows    {}", windows.join(", "));
        }
        if !plan.copies.is_empty() {
            let (after, first): (Vec<Copied>, Vec<Copied>) =
                plan.copies.iter().partition(|copied| copied.way == Way::TurnedBack);
            let named = [(first, "first, to rows that TMA can fetch"), (after, "afterwards, from rows that TMA wrote")];
            let copies: Vec<String> = named
                .iter()
                .filter(|(copies, _)| !copies.is_empty())
                .map(|(copies, when)| {
                    let copies: Vec<String> =
                        copies.iter().map(|copied| self.print_copy(copied, checks.instance)).collect();
                    format!("{} {when}", copies.join(", "))
                })
                .collect();
            let moved = plan.copies.moved_bytes() as f64;
            let _ = writeln!(
                out,
                "  copies     {}: {:.2} MiB over the bus, {:.4} ms at {:.2} TB/s",
                copies.join("; "),
                moved / f64::from(1 << 20),
                moved / gpu.bandwidth.max(1.0) * 1e3,
                gpu.bandwidth / 1e12
            );
        }
        let bytes = bytes_moved(self.tensors.iter()) as f64;
        let _ = writeln!(
            out,
            "  roofline   {:.2} MiB once over the bus: {:.4} ms at {:.2} TB/s",
            bytes / f64::from(1 << 20),
            bytes / gpu.bandwidth.max(1.0) * 1e3,
            gpu.bandwidth / 1e12
        );
        let others: Vec<&Variant> =
            checks.instance.variants.iter().filter(|other| !std::ptr::eq(*other, variant)).collect();
        write_others(out, &others, figures);
        let _ = write!(out, "\n{}", render_source(checks.instance, variant));
        Ok(())
    }

    /// `predicted 9.8 µs, measured 9.4 µs`: by the model, at the device's highest clock, and by this launch's last timing.
    fn figures(&self, gpu: &Gpu, checks: &Checks<'_>, variant: &Variant) -> String {
        let said = match self.predicted(gpu, checks, variant) {
            Some(cycles) => format!("predicted {:.1} µs", cycles as f64 / gpu.clock.max(1.0) * 1e6),
            None => "not for these operands".to_owned(),
        };
        match self.timed.get(variant) {
            Some(timing) => format!("{said}, measured {:.1} µs", timing.median_ms * 1e3),
            None => said,
        }
    }

    /// `b`, `b (along K)` where the copy has another axis contiguous, `weights (computed)` where it is no tensor of the kernel's.
    fn print_copy(&self, copied: &Copied, instance: &Instance) -> String {
        let Some(def) = instance.tensor(self.kernel, copied.tensor) else { return String::new() };
        let dim = def.dims.get(copied.last).and_then(|dim| self.kernel.dims.get(*dim));
        match (copied.way, dim) {
            (Way::Transposed | Way::TurnedBack, Some(dim)) => format!("{} (along {})", def.name, dim.name),
            (Way::Computed, _) => format!("{} (computed)", def.name),
            _ => def.name.to_owned(),
        }
    }

    fn explain_cpu(&self, out: &mut String) -> Result<()> {
        let checks = self.checks()?;
        let bytes = bytes_moved(self.tensors.iter()) as f64;
        let _ = writeln!(
            out,
            "  runs       the Rust function itself, on all cores; {:.2} MiB of tensors",
            bytes / f64::from(1 << 20)
        );
        if checks.instance.variants.is_empty() {
            let _ = writeln!(out, "  on a GPU   it was lowered for none");
            return Ok(());
        }
        let _ = writeln!(out, "on a GPU");
        for variant in checks.instance.variants {
            write_schedule(out, variant);
            let _ = writeln!(
                out,
                "  block      {} threads, {:.1} KiB of shared memory",
                variant.threads,
                f64::from(variant.shared_bytes) / 1024.0
            );
        }
        let _ = write!(out, "\n{}", render_source(checks.instance, self.shown_variant(&checks)?));
        Ok(())
    }

    pub(super) fn no_source(&self) -> Error {
        let why = "it was lowered for the CPU only -- there is no source".to_owned();
        Error::NoVariant { kernel: self.kernel.name, device: "a GPU".to_owned(), why }
    }
}

fn write_schedule(out: &mut String, variant: &Variant) {
    let _ = writeln!(out, "  schedule   {}", print_schedule(variant));
    let _ = writeln!(out, "  why        {}", variant.why);
}

fn write_others(out: &mut String, others: &[&Variant], figures: impl Fn(&Variant) -> String) {
    for (number, variant) in others.iter().enumerate() {
        let label = if number == 0 { "others" } else { "" };
        let _ = writeln!(out, "  {label:<10} {} -- {}", print_schedule(variant), figures(variant));
    }
}
