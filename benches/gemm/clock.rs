//! How long one run takes: on a GPU between two CUDA events, with a cold L2 cache; on the CPU by the host's clock.

use crate::Outcome;
use cudarc::driver::sys::{CUdevice_attribute, CUevent_flags};
use cudarc::driver::{CudaEvent, CudaStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracea::prelude::*;

pub enum Clock {
    Wall,
    Events { stream: Arc<CudaStream>, start: CudaEvent, stop: CudaEvent, flush: Box<Flush> },
}

impl Clock {
    pub fn of(device: &Device) -> Outcome<Clock> {
        let Some(stream) = device.stream() else { return Ok(Clock::Wall) };
        let context = stream.context();
        let l2_bytes = context.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?;
        let event = || context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT));
        Ok(Clock::Events {
            stream: stream.clone(),
            start: event()?,
            stop: event()?,
            flush: Box::new(Flush::of(device, usize::try_from(l2_bytes)?)?),
        })
    }

    pub fn time(&mut self, run: impl FnOnce() -> Outcome) -> Outcome<Duration> {
        match self {
            Clock::Wall => {
                let start = Instant::now();
                run()?;
                Ok(start.elapsed())
            }
            Clock::Events { stream, start, stop, flush } => {
                // While the block is read the run is enqueued, so that the events do not time the host.
                flush.enqueue()?;
                start.record(stream)?;
                run()?;
                stop.record(stream)?;
                Ok(Duration::from_secs_f32(start.elapsed_ms(stop)? * 1e-3))
            }
        }
    }
}

/// Twice the cache, read from end to end: nothing of the last run is left there, nor lines that must be written back first.
pub struct Flush {
    block: Tensor<f32, (Dyn, Dyn)>,
    sums: Tensor<f32, (Dyn,)>,
}

impl Flush {
    fn of(device: &Device, l2_bytes: usize) -> Outcome<Flush> {
        const COLS: usize = 4096;
        let rows = (2 * l2_bytes).div_ceil(COLS * size_of::<f32>());
        Ok(Flush { block: device.zeros((rows, COLS))?, sums: device.zeros((rows,))? })
    }

    fn enqueue(&mut self) -> Outcome {
        Ok(row_sums(&self.block, &mut self.sums).launch()?)
    }
}

#[kernel(T = [f32])]
fn row_sums<T: Float, M: Dim, N: Dim>(x: &Tensor<T, (M, N)>, y: &mut Tensor<T, (M,)>) {
    tile!(for i in M {
        let mut sum = zeros::<f32>(i);
        tile!(for j in N {
            sum += x[(i, j)].to::<f32>().row_sum();
        });
        y[i] = sum.to();
    });
}
