//! How long one run takes: on a GPU between two CUDA events, with a cold L2 cache; on the CPU by the host's clock.

use crate::Outcome;
use cudarc::driver::sys::{CUdevice_attribute, CUevent_flags};
use cudarc::driver::{CudaEvent, CudaSlice, CudaStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracea::prelude::*;

pub enum Clock {
    Wall,
    Events { stream: Arc<CudaStream>, start: CudaEvent, stop: CudaEvent, flush: CudaSlice<u8> },
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
            // Twice the cache, so that nothing of the last run is left.
            flush: stream.alloc_zeros(2 * usize::try_from(l2_bytes)?)?,
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
                // While the block is filled the run is enqueued, so that the events do not time the host.
                stream.memset_zeros(flush)?;
                start.record(stream)?;
                run()?;
                stop.record(stream)?;
                Ok(Duration::from_secs_f32(start.elapsed_ms(stop)? * 1e-3))
            }
        }
    }
}
