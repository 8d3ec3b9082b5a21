//! What the examples share: common flags, random inputs, and the way of one launch from verification over timing to the report.

mod flags;
mod inputs;
mod report;

pub use flags::{DtypeName, Flags};
pub use inputs::Sample;

use flags::{DeviceName, Show, VerifyMode};
use inputs::Inputs;
use report::Report;
use std::collections::HashMap;
use std::error::Error;
use std::process::ExitCode;
use tracea::dim::IntoShape;
use tracea::prelude::*;

/// What a launch computes, for the report.
pub struct Work {
    pub kernel: String,
    pub shape: Vec<(&'static str, usize)>,
    pub dtype: DtypeName,
    /// None where nothing but the bytes counts.
    pub flops: Option<f64>,
    /// Moved if everything is read and written once.
    pub bytes: usize,
}

pub struct Workbench<'f> {
    flags: &'f Flags,
    device: Device,
    inputs: Inputs,
}

impl<'f> Workbench<'f> {
    pub fn new(flags: &'f Flags) -> Result<Self, tracea::Error> {
        let device = match flags.device {
            DeviceName::Auto => Device::best()?,
            DeviceName::Cpu => Device::cpu(),
            DeviceName::Cuda => Device::cuda(0)?,
        };
        Ok(Workbench { flags, device, inputs: Inputs::new(flags.seed) })
    }

    /// A tensor of normally distributed numbers; no two calls give the same.
    pub fn normal<T: Sample, S: IntoShape>(&mut self, shape: S) -> Result<Tensor<T, S::Shape>, tracea::Error> {
        self.normal_with(1.0, shape)
    }

    /// The same with another standard deviation than 1.
    pub fn normal_with<T: Sample, S: IntoShape>(
        &mut self,
        deviation: f32,
        shape: S,
    ) -> Result<Tensor<T, S::Shape>, tracea::Error> {
        let values = self.inputs.normal(shape.sizes().iter().product(), deviation);
        self.device.tensor(&values, shape)
    }

    pub fn zeros<T: Sample, S: IntoShape>(&self, shape: S) -> Result<Tensor<T, S::Shape>, tracea::Error> {
        self.device.zeros(shape)
    }

    /// Shows, verifies and times as the flags say.
    pub fn run(&self, work: Work, launch: Launch<'_>) -> Result<ExitCode, Box<dyn Error>> {
        let mut launch = match &self.flags.schedule {
            Some(schedule) => launch.schedule(schedule.as_str()),
            None => launch,
        };
        match self.flags.show {
            Some(Show::Plan) => {
                if self.flags.time {
                    launch.time()?;
                }
                if self.flags.portfolio {
                    launch.time_schedules()?;
                }
                println!("{}", launch.explain()?);
            }
            Some(Show::Cuda) => println!("{}", launch.source()?),
            None => {}
        }
        if self.flags.show.is_some() {
            return Ok(ExitCode::SUCCESS);
        }

        let mut report = Report::new(work, &self.device, launch.chosen()?);
        let checked = match self.flags.verify {
            VerifyMode::All => launch.verify_with(Verify::All).map(Some),
            VerifyMode::Sample => launch.verify_with(Verify::Sample { seed: self.flags.seed, points: 16 }).map(Some),
            VerifyMode::Off => launch.launch().and_then(|()| self.device.synchronize()).map(|()| None),
        };
        match checked {
            Ok(Some(verified)) => report.verified(&verified),
            Ok(None) => {}
            Err(tracea::Error::Mismatch(mismatch)) => report.mismatch(&mismatch),
            Err(error) => return Err(error.into()),
        }
        if self.flags.time {
            report.timed(&launch.time()?);
        }
        if self.flags.portfolio {
            let predictions: HashMap<_, _> = launch.predictions()?.into_iter().collect();
            for (schedule, timing) in launch.time_schedules()? {
                let predicted = predictions.get(&schedule).copied();
                report.tried(schedule, &timing, predicted);
            }
        }
        println!("{}", if self.flags.json { report.json()? } else { report.to_string() });
        Ok(if report.failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// 0 where all went well, 1 where the result is wrong, 2 where there is none.
pub fn exit(outcome: Result<ExitCode, Box<dyn Error>>) -> ExitCode {
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::from(2)
    })
}
