//! Two kernels as expansion would leave them, written by hand: `scaled` (`y = scale · x`) and `update` (`y += x`, over a matrix).

use tracea_runtime::axis::{AxisName, Ix, ordinal};
use tracea_runtime::dim::Dyn;
use tracea_runtime::dtype::Dtype;
use tracea_runtime::element::Arithmetic;
use tracea_runtime::host::{GridAxis as HostAxis, GridPoint, GridShape, HostArg, HostKernel, Work};
use tracea_runtime::launch::{ArgRef, KernelSlot, Launch};
use tracea_runtime::oracle::{Bounded, F32};
use tracea_runtime::plan::{Arg, DimDef, GridAxis, Instance, KernelDef, ScalarDef, TensorDef, Variant};
use tracea_runtime::tensor::Tensor;
use tracea_runtime::tile::scalar;

pub type Vector = Tensor<f32, (Dyn,)>;
pub type Matrix = Tensor<f32, (Dyn, Dyn)>;

enum Row {}
impl AxisName for Row {
    type Ordinal = ordinal::N0;
    const NAME: &'static str = "i";
}

enum Column {}
impl AxisName for Column {
    type Ordinal = ordinal::N1;
    const NAME: &'static str = "j";
}

pub fn scaled<'t>(x: &'t Vector, y: &'t mut Vector, scale: f32) -> Launch<'t> {
    launch_scaled(x, y, scale, scaled_body::<f32>)
}

/// Scales by one more on the CPU than in the oracle.
pub fn skewed<'t>(x: &'t Vector, y: &'t mut Vector, scale: f32) -> Launch<'t> {
    launch_scaled(x, y, scale, |point, args| {
        scaled_body::<f32>(point, &[args[0], args[1], HostArg::from_f32(args[2].f32() + 1.0)])
    })
}

/// Writes nothing on the CPU.
pub fn forgetful<'t>(x: &'t Vector, y: &'t mut Vector, scale: f32) -> Launch<'t> {
    launch_scaled(x, y, scale, |_, _| {})
}

fn scaled_body<R: Arithmetic<Storage = f32>>(point: &GridPoint, args: &[HostArg<'_>]) {
    let x = args[0].view::<R, (Dyn,)>();
    let i: Ix<Row, Dyn> = point.tile(0, args[0].extent::<Dyn>(0));
    let tile = x.load(i) * scalar::<R>(args[2].f32());
    args[1].view::<R, (Dyn,)>().store(i, tile);
}

fn launch_scaled<'t>(
    x: &'t Vector,
    y: &'t mut Vector,
    scale: f32,
    native: fn(&GridPoint, &[HostArg<'_>]),
) -> Launch<'t> {
    fn grid(args: &[HostArg<'_>]) -> GridShape {
        GridShape::new(Work::Elements, &[HostAxis::tiled(args[0].extent::<Dyn>(0))])
    }
    static SLOT: KernelSlot = KernelSlot::new();
    let host = HostKernel::new(native, scaled_body::<Bounded<F32>>, grid);
    Launch::new(&SCALED, &SLOT, &[], &[ArgRef::input(x), ArgRef::output(y), ArgRef::f32(scale)], host)
}

pub fn update<'t>(x: &'t Matrix, y: &'t mut Matrix) -> Launch<'t> {
    fn body<R: Arithmetic<Storage = f32>>(point: &GridPoint, args: &[HostArg<'_>]) {
        let x = args[0].view::<R, (Dyn, Dyn)>();
        let mut y = args[1].view::<R, (Dyn, Dyn)>();
        let i: Ix<Row, Dyn> = point.tile(0, args[0].extent::<Dyn>(0));
        let j: Ix<Column, Dyn> = point.tile(1, args[0].extent::<Dyn>(1));
        let sum = y.load((i, j)) + x.load((i, j));
        y.store((i, j), sum);
    }
    fn grid(args: &[HostArg<'_>]) -> GridShape {
        let axis = |axis| HostAxis::tiled(args[0].extent::<Dyn>(axis));
        GridShape::new(Work::Elements, &[axis(0), axis(1)])
    }
    static SLOT: KernelSlot = KernelSlot::new();
    let host = HostKernel::new(body::<f32>, body::<Bounded<F32>>, grid);
    Launch::new(&UPDATE, &SLOT, &[], &[ArgRef::input(x), ArgRef::output(y)], host)
}

macro_rules! scaled_source {
    ($store:literal) => {
        concat!(
            "extern \"C\" __global__ void __launch_bounds__(128) scaled(const float* x, float* y, float scale, int n) {\n",
            "    int i = blockIdx.x * 128 + threadIdx.x;\n",
            "    if (i < n) ",
            $store,
            "\n}\n"
        )
    };
}

/// Blocks of a pair read their elements for one another: one may have none of its own.
const PAIRS_SOURCE: &str = "\
#include \"tracea/cluster.cuh\"
using namespace tracea;
extern \"C\" __global__ void __launch_bounds__(128) scaled(const float* x, float* y, float scale, int n) {
    __shared__ float4 tile[32];
    const int other = 1 - cluster_rank();
    const int theirs = (blockIdx.x / 2 * 2 + other) * 128 + threadIdx.x;
    float* const slot = reinterpret_cast<float*>(tile) + threadIdx.x;
    const auto meet = [] {
        asm volatile(\"barrier.cluster.arrive.release.aligned;\\nbarrier.cluster.wait.acquire.aligned;\" ::: \"memory\");
    };
    if (theirs < n) *slot = x[theirs];
    __syncwarp();
    meet();
    float mine;
    const unsigned from = cluster_address(reinterpret_cast<float*>(tile) + threadIdx.x, other);
    asm volatile(\"ld.shared::cluster.f32 %0, [%1];\" : \"=f\"(mine) : \"r\"(from) : \"memory\");
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i < n) y[i] = scale * mine;
    __syncwarp();
    meet();
}
";

const fn scaled_variant(schedule: &'static str, source: &'static str) -> Variant {
    Variant {
        schedule,
        why: "written by hand",
        grid: &[GridAxis { dims: &[0], block: 128 }],
        args: &[Arg::Pointer(0), Arg::Pointer(1), Arg::Scalar(0), Arg::Extent(0)],
        ..Variant::of_source("scaled", source, 128)
    }
}

static SCALED: KernelDef = KernelDef {
    name: "scaled",
    file: "kernels.rs",
    line: 1,
    dims: &[DimDef { name: "N", known: None }],
    tensors: &[
        TensorDef { name: "x", position: 0, dtype: Some(Dtype::F32), dims: &[0], reads: true, writes: false },
        TensorDef { name: "y", position: 1, dtype: Some(Dtype::F32), dims: &[0], reads: false, writes: true },
    ],
    scalars: &[ScalarDef { name: "scale", position: 2, dtype: Dtype::F32 }],
    selectors: &[],
    instances: &[Instance {
        key: &[],
        known_dims: &[],
        variants: &[
            scaled_variant("right", scaled_source!("y[i] = scale * x[i];")),
            scaled_variant("wrong", scaled_source!("y[i] = scale * x[i] + (i == 5);")),
            scaled_variant("forgetful", scaled_source!("if (i != 5) y[i] = scale * x[i];")),
            Variant { target: "sm_90a", ..scaled_variant("wide", scaled_source!("y[i] = scale * x[i];")) },
            Variant { target: "sm_90a", cluster: 2, ..scaled_variant("by pairs", PAIRS_SOURCE) },
            Variant { shared_bytes: 1 << 30, ..scaled_variant("greedy", "") },
            Variant { target: "sm_999", ..scaled_variant("future", "") },
        ],
        precomputed: &[],
        unwritten: &[],
        functions: &[],
    }],
};

/// One block a row, each element by way of 64 KiB of dynamic shared memory; a second division stands in for a flat axis.
const UPDATE_SOURCE: &str = "\
#include \"tracea/fast_div.cuh\"
extern \"C\" __global__ void __launch_bounds__(64) update(
    const float* x, long long x_row, float* y, long long y_row, int columns, tracea::FastDiv rows, tracea::FastDiv by_blocks
) {
    extern __shared__ float tile[];
    static_assert(TRACEA_ALIGN_0 >= 1 && TRACEA_ALIGN_1 >= 4, \"alignment\");
    int row = rows.rem(blockIdx.x);
    if (by_blocks.div(blockIdx.x) != 0) return;
    for (int first = 0; first < columns; first += 64) {
        int column = first + threadIdx.x;
        float* slot = tile + 16384 - 64 + threadIdx.x;
        if (column < columns) *slot = x[row * x_row + column];
        __syncthreads();
        if (column < columns) y[row * y_row + column] += *slot;
        __syncthreads();
    }
}
";

static UPDATE: KernelDef = KernelDef {
    name: "update",
    file: "kernels.rs",
    line: 1,
    dims: &[DimDef { name: "M", known: None }, DimDef { name: "N", known: None }],
    tensors: &[
        TensorDef { name: "x", position: 0, dtype: Some(Dtype::F32), dims: &[0, 1], reads: true, writes: false },
        TensorDef { name: "y", position: 1, dtype: Some(Dtype::F32), dims: &[0, 1], reads: true, writes: true },
    ],
    scalars: &[],
    selectors: &[],
    instances: &[Instance {
        key: &[],
        known_dims: &[],
        variants: &[Variant {
            schedule: "rows",
            why: "written by hand",
            shared_bytes: 64 << 10,
            grid: &[GridAxis { dims: &[0], block: 1 }],
            args: &[
                Arg::Pointer(0),
                Arg::Stride(0, 0),
                Arg::Pointer(1),
                Arg::Stride(1, 0),
                Arg::Extent(1),
                Arg::DivideByDims(&[0]),
                Arg::DivideByBlocks(GridAxis { dims: &[0], block: 1 }),
            ],
            aligned: &[0, 1],
            ..Variant::of_source("update", UPDATE_SOURCE, 64)
        }],
        precomputed: &[],
        unwritten: &[],
        functions: &[],
    }],
};
