//! A product by cuBLASLt, by the fastest of the algorithms that its heuristic names first.

use crate::clock::Clock;
use crate::{Layout, Matrix, Outcome};
use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys;
use cudarc::driver::{CudaSlice, CudaStream, DevicePtrMut};
use std::ffi::c_int;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tracea::prelude::*;

/// Workspace that an algorithm may ask for: what the library's guide recommends for Hopper, twice.
const WORKSPACE_BYTES: usize = 64 << 20;
const CANDIDATES: usize = 8;
/// Of each candidate, to find the fastest.
const TRIALS: usize = 7;

/// `cublasOperation_t` in `cublas_api.h`: as it stands in memory, or transposed.
const OP_N: i32 = 0;
const OP_T: i32 = 1;

pub fn is_there() -> bool {
    // SAFETY: loading the library runs its initialisers, which do nothing that this process would notice.
    unsafe { sys::is_culib_present() }
}

/// C = A · op(B) in f16 with sums in f32.
///
/// Row-major matrices are column-major ones transposed: the library is asked for Cᵀ = op(B)ᵀ · Aᵀ.
pub struct Product {
    stream: Arc<CudaStream>,
    a: Rc<Matrix<f16>>,
    b: Rc<Matrix<f16>>,
    c: Matrix<f16>,
    a_layout: Owned<sys::cublasLtMatrixLayout_t>,
    b_layout: Owned<sys::cublasLtMatrixLayout_t>,
    c_layout: Owned<sys::cublasLtMatrixLayout_t>,
    operation: Owned<sys::cublasLtMatmulDesc_t>,
    algorithm: sys::cublasLtMatmulAlgo_t,
    workspace: CudaSlice<u8>,
    library: Owned<sys::cublasLtHandle_t>,
}

impl Product {
    /// Leaves the product in `c`, and has chosen the fastest algorithm.
    pub fn new(
        layout: Layout,
        a: Rc<Matrix<f16>>,
        b: Rc<Matrix<f16>>,
        c: Matrix<f16>,
        clock: &mut Clock,
    ) -> Outcome<Product> {
        let stream = c.device().stream().ok_or("cuBLASLt runs on GPUs only")?.clone();
        stream.context().bind_to_thread()?;
        let library = Owned { raw: result::create_handle()?, destroy: result::destroy_handle };
        let operation = Owned {
            raw: result::create_matmul_desc(
                sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
                sys::cudaDataType::CUDA_R_32F,
            )?,
            destroy: result::destroy_matmul_desc,
        };
        let b_operation = match layout {
            Layout::Nt => OP_T,
            Layout::Nn => OP_N,
        };
        let transposition = sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSA;
        // SAFETY: the description is alive, and the attribute is read from a value of its type.
        unsafe {
            let value = (&raw const b_operation).cast();
            result::set_matmul_desc_attribute(operation.raw, transposition, value, size_of_val(&b_operation))?;
        }
        let (a_layout, b_layout, c_layout) = (transposed(&a)?, transposed(&b)?, transposed(&c)?);
        let found = heuristic(&library, &operation, [&b_layout, &a_layout, &c_layout])?;
        let first = found.first().ok_or("cuBLASLt names no algorithm for this product")?;
        let workspace = stream.alloc_zeros(WORKSPACE_BYTES)?;
        let algorithm = first.algo;
        let mut product =
            Product { stream, a, b, c, a_layout, b_layout, c_layout, operation, algorithm, workspace, library };
        let mut fastest = (Duration::MAX, algorithm);
        for candidate in &found {
            product.algorithm = candidate.algo;
            let mut times = Vec::with_capacity(TRIALS);
            for _ in 0..TRIALS {
                times.push(clock.time(|| product.run())?);
            }
            times.sort();
            if times[TRIALS / 2] < fastest.0 {
                fastest = (times[TRIALS / 2], candidate.algo);
            }
        }
        product.algorithm = fastest.1;
        product.run()?;
        Ok(product)
    }

    pub fn result(&self) -> &Matrix<f16> {
        &self.c
    }

    pub fn run(&mut self) -> Outcome {
        let (alpha, beta) = (1f32, 0f32);
        let (workspace, _workspace_in_use) = self.workspace.device_ptr_mut(&self.stream);
        let address = |matrix: &Matrix<f16>| std::ptr::with_exposed_provenance_mut(matrix.address());
        let (a, b, c) = (address(&self.a), address(&self.b), address(&self.c));
        // SAFETY: handle, descriptions and algorithm are alive and made for one another; the matrices lie where the layouts say, live as
        // long as this product, and only this one writes c; α and β are of the scale type and read during the call.
        unsafe {
            result::matmul(
                self.library.raw,
                self.operation.raw,
                (&raw const alpha).cast(),
                (&raw const beta).cast(),
                b,
                self.b_layout.raw,
                a,
                self.a_layout.raw,
                c,
                self.c_layout.raw,
                c,
                self.c_layout.raw,
                &raw const self.algorithm,
                std::ptr::with_exposed_provenance_mut(workspace as usize),
                WORKSPACE_BYTES,
                self.stream.cu_stream().cast(),
            )?;
        }
        Ok(())
    }
}

/// The layout of a row-major matrix, columns first.
fn transposed(matrix: &Matrix<f16>) -> Outcome<Owned<sys::cublasLtMatrixLayout_t>> {
    let (rows, cols) = (matrix.size(0) as u64, matrix.size(1) as u64);
    let raw = result::create_matrix_layout(sys::cudaDataType::CUDA_R_16F, cols, rows, i64::try_from(cols)?)?;
    Ok(Owned { raw, destroy: result::destroy_matrix_layout })
}

/// The first candidates, best guess first.
fn heuristic(
    library: &Owned<sys::cublasLtHandle_t>,
    operation: &Owned<sys::cublasLtMatmulDesc_t>,
    [first, second, output]: [&Owned<sys::cublasLtMatrixLayout_t>; 3],
) -> Outcome<Vec<sys::cublasLtMatmulHeuristicResult_t>> {
    let preference = Owned { raw: result::create_matmul_pref()?, destroy: result::destroy_matmul_pref };
    let most = sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
    let mut found = Vec::with_capacity(CANDIDATES);
    let mut count: c_int = 0;
    let workspace_bytes: usize = WORKSPACE_BYTES;
    // SAFETY: all handles are alive, the attribute is read from a value of its type, and the library writes at most as many results as
    // the vector has room for, and says how many.
    unsafe {
        let value = (&raw const workspace_bytes).cast();
        result::set_matmul_pref_attribute(preference.raw, most, value, size_of_val(&workspace_bytes))?;
        sys::cublasLtMatmulAlgoGetHeuristic(
            library.raw,
            operation.raw,
            first.raw,
            second.raw,
            output.raw,
            output.raw,
            preference.raw,
            CANDIDATES as c_int,
            found.as_mut_ptr(),
            &mut count,
        )
        .result()?;
        found.set_len(usize::try_from(count)?);
    }
    found.retain(|candidate: &sys::cublasLtMatmulHeuristicResult_t| candidate.state.result().is_ok());
    Ok(found)
}

/// A handle of the library's, given back in the end.
struct Owned<T: Copy> {
    raw: T,
    destroy: unsafe fn(T) -> Result<(), CublasError>,
}

impl<T: Copy> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: the handle is this one's alone, and `destroy` is for its kind. Nobody could do anything about a failure.
        let _ = unsafe { (self.destroy)(self.raw) };
    }
}
