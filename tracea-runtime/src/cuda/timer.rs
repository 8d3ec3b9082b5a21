//! Time between two points of a stream, by CUDA events.

use super::driver::Checked;
use super::gpu::Gpu;
use crate::error::{Error, Result};
use cudarc::driver::sys::{self, CUevent_flags};
use cudarc::driver::{CudaEvent, CudaStream};

pub(crate) struct Stopwatch {
    start: CudaEvent,
    stop: CudaEvent,
}

type ElapsedTime = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> sys::CUresult;

impl Stopwatch {
    pub fn new(gpu: &Gpu) -> Result<Stopwatch> {
        let event = || gpu.context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).doing("making a CUDA event");
        Ok(Stopwatch { start: event()?, stop: event()? })
    }

    pub fn start(&self, stream: &CudaStream) -> Result<()> {
        self.start.record(stream).doing("recording a CUDA event")
    }

    pub fn stop(&self, stream: &CudaStream) -> Result<()> {
        self.stop.record(stream).doing("recording a CUDA event")
    }

    /// Waits for the stop, then tells the milliseconds since the start.
    pub fn milliseconds(&self) -> Result<f64> {
        self.stop.synchronize().doing("waiting for a CUDA event")?;
        // The name that every driver has; the second version came with CUDA 12.8 and differs in the capturing of graphs only.
        // SAFETY: the driver is loaded, since there are events, and the signature is cuda.h's.
        let elapsed =
            unsafe { sys::culib().get::<ElapsedTime>(b"cuEventElapsedTime\0") }.map_err(|error| Error::Driver {
                doing: "reading a CUDA event",
                name: "no cuEventElapsedTime".to_owned(),
                message: error.to_string(),
            })?;
        let mut milliseconds = 0.0;
        // SAFETY: both events were recorded and are alive, the pointer is valid for a write.
        unsafe { elapsed(&mut milliseconds, self.start.cu_event(), self.stop.cu_event()) }
            .result()
            .doing("reading a CUDA event")?;
        Ok(f64::from(milliseconds))
    }
}
