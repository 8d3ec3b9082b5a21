//! A CUDA device under one context: its figures, and an identity that loaded code is remembered by.

use super::driver::{Checked, cuda_count, driver};
use super::workspace::Workspace;
use crate::error::{Error, Result};
use cudarc::driver::CudaContext;
use cudarc::driver::sys::CUdevice_attribute::{self as Attribute, *};
use std::sync::{Arc, Mutex, PoisonError};

/// Lives as long as the process, as does the code loaded into its context.
pub(crate) struct Gpu {
    /// Distinct for each context of the process.
    pub id: usize,
    pub context: Arc<CudaContext>,
    pub ordinal: usize,
    pub name: String,
    pub capability: (u32, u32),
    pub multiprocessors: u32,
    /// Shared memory that one block may ask for, bytes.
    pub block_shared_bytes: u32,
    pub l2_bytes: usize,
    /// Peak of the memory bus, bytes a second.
    pub bandwidth: f64,
    /// The multiprocessors' highest, cycles a second.
    pub clock: f64,
    /// Of the default stream.
    pub workspace: Workspace,
}

static GPUS: Mutex<Vec<&'static Gpu>> = Mutex::new(Vec::new());

impl Gpu {
    /// The device's primary context, which libraries on CUDA's runtime API share.
    pub fn primary(ordinal: usize) -> Result<&'static Gpu> {
        driver().map_err(|why| Error::NoDevice { ordinal, why: why.to_owned() })?;
        let count = cuda_count();
        if ordinal >= count {
            let why = format!("this process sees {count} -- use a smaller ordinal, or look at CUDA_VISIBLE_DEVICES");
            return Err(Error::NoDevice { ordinal, why });
        }
        Gpu::of_context(&CudaContext::new(ordinal).doing("opening the device")?)
    }

    pub fn of_context(context: &Arc<CudaContext>) -> Result<&'static Gpu> {
        let mut gpus = GPUS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gpu) = gpus.iter().find(|gpu| gpu.context.cu_ctx() == context.cu_ctx()) {
            return Ok(gpu);
        }
        let gpu: &'static Gpu =
            Box::leak(Box::new(describe(gpus.len(), context).doing("reading the device's figures")?));
        gpus.push(gpu);
        Ok(gpu)
    }

    /// `sm_90`.
    pub fn architecture(&self) -> String {
        format!("sm_{}{}", self.capability.0, self.capability.1)
    }

    /// Makes the context current on this thread.
    pub fn bind(&self) -> Result<()> {
        self.context.bind_to_thread().doing("binding the context to the thread")
    }
}

impl std::fmt::Display for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CUDA device {} ({}, {})", self.ordinal, self.name, self.architecture())
    }
}

fn describe(id: usize, context: &Arc<CudaContext>) -> Result<Gpu, cudarc::driver::DriverError> {
    let figure = |attribute: Attribute| context.attribute(attribute).map(|value| u32::try_from(value).unwrap_or(0));
    let kilohertz = figure(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?;
    let bus_bits = figure(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?;
    Ok(Gpu {
        id,
        context: context.clone(),
        ordinal: context.ordinal(),
        name: context.name()?,
        capability: (
            figure(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            figure(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        multiprocessors: figure(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        block_shared_bytes: figure(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        l2_bytes: figure(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as usize,
        // Two transfers a clock.
        bandwidth: 2.0 * 1e3 * f64::from(kilohertz) * f64::from(bus_bits) / 8.0,
        clock: 1e3 * f64::from(figure(CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?),
        workspace: Workspace::default(),
    })
}
