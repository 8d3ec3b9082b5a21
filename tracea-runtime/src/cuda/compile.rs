//! From a variant to machine code: assembles source, headers and options, asks NVRTC, and reads the assembler's resource report.

use super::headers::HEADERS;
use super::nvrtc::nvrtc;
use super::source::render_source;
use super::specialization::Specialization;
use crate::error::{Error, Result};
use crate::plan::{Instance, KernelDef, Variant};

/// Machine code of one variant.
#[derive(Debug)]
pub struct Compiled {
    pub cubin: Vec<u8>,
    /// NVRTC's, verbatim, with the assembler's report.
    pub log: String,
    pub resources: Resources,
}

/// What the assembler says that a kernel takes: registers a thread, and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    pub registers: u32,
    pub spill_store_bytes: u32,
    pub spill_load_bytes: u32,
    pub stack_bytes: u32,
    /// Static shared memory; the dynamic part is the plan's.
    pub shared_bytes: u32,
    pub barriers: u32,
}

/// All that decides a cubin's bytes.
pub(crate) struct Request {
    kernel: &'static str,
    source: String,
    file: String,
    architecture: String,
    options: Vec<String>,
}

/// Compiles a variant for an architecture (`sm_80`), without a GPU and past the disk cache.
pub fn compile_variant(
    kernel: &KernelDef,
    instance: &Instance,
    variant: &Variant,
    specialization: Specialization,
    architecture: &str,
) -> Result<Compiled> {
    Request::new(kernel, instance, variant, specialization, architecture).compile()
}

/// The first NVRTC that keeps what it compiled: NVRTC documentation, "Caching".
const HAS_A_CACHE: (u32, u32) = (12, 9);

impl Request {
    pub fn new(
        kernel: &KernelDef,
        instance: &Instance,
        variant: &Variant,
        specialization: Specialization,
        architecture: &str,
    ) -> Request {
        let mut options = vec![
            "-std=c++17".to_owned(),
            format!("--gpu-architecture={architecture}"),
            "-default-device".to_owned(),
            // Right to 2 units in the last place, without the slow path that an exactly rounded quotient needs.
            "-prec-div=false".to_owned(),
            // Profilers and the sanitizer show the user's Rust lines through `#line`.
            "-lineinfo".to_owned(),
            "--ptxas-options=-v".to_owned(),
        ];
        for &tensor in variant.aligned {
            options.push(format!("-DTRACEA_ALIGN_{tensor}={}", specialization.alignment(tensor)));
        }
        for tensor in variant.windowed() {
            let fetched = u8::from(specialization.fetches_windows(tensor));
            options.push(format!("-DTRACEA_WINDOW_{tensor}={fetched}"));
        }
        for &scalar in variant.positive {
            options.push(format!("-DTRACEA_POSITIVE_{scalar}={}", u8::from(specialization.is_positive(scalar))));
        }
        if variant.bakes_in_cuts() {
            options.push(format!("-DTRACEA_CUT={}", u8::from(specialization.cuts_tiles())));
        }
        Request {
            kernel: kernel.name,
            source: render_source(instance, variant),
            file: format!("{}.cu", variant.entry),
            architecture: architecture.to_owned(),
            options,
        }
    }

    /// Every byte that the result depends on, but for NVRTC itself.
    pub fn inputs(&self) -> impl Iterator<Item = &str> {
        let headers = HEADERS.iter().flat_map(|(name, text)| [*name, *text]);
        [self.file.as_str(), self.source.as_str()]
            .into_iter()
            .chain(self.options.iter().map(String::as_str))
            .chain(headers)
    }

    pub fn compile(&self) -> Result<Compiled> {
        let nvrtc = nvrtc()?;
        let mut options = self.options.clone();
        // What NVRTC itself has kept of an earlier process comes without the assembler's report.
        if nvrtc.version()? >= HAS_A_CACHE {
            options.push("-no-cache".to_owned());
        }
        match nvrtc.compile(&self.source, &self.file, HEADERS, &options)? {
            Ok(output) => Ok(Compiled { resources: report(&output.log), cubin: output.cubin, log: output.log }),
            Err(log) => Err(Error::Compile { kernel: self.kernel, arch: self.architecture.clone(), log }),
        }
    }
}

/// Reads lines such as
///
/// ```text
/// ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
/// ptxas info    : Used 23 registers, used 1 barriers, 128 bytes smem, 364 bytes cmem[0]
/// ```
///
/// A source has one kernel; of device functions that were not inlined the largest figures count.
fn report(log: &str) -> Resources {
    let mut resources = Resources::default();
    let lines = log.lines().filter(|line| line.starts_with("ptxas"));
    for part in lines.flat_map(|line| line.split([':', ','])) {
        let words: Vec<&str> =
            part.split_whitespace().filter(|word| !matches!(*word, "Used" | "used" | "." | "ptxas")).collect();
        let Some((number, unit)) = words.split_first() else { continue };
        let Ok(number) = number.parse::<u32>() else { continue };
        let slot = match unit {
            ["registers"] => &mut resources.registers,
            ["barriers"] => &mut resources.barriers,
            ["bytes", "smem"] => &mut resources.shared_bytes,
            ["bytes", "stack", "frame"] => &mut resources.stack_bytes,
            ["bytes", "spill", "stores"] => &mut resources.spill_store_bytes,
            ["bytes", "spill", "loads"] => &mut resources.spill_load_bytes,
            _ => continue,
        };
        *slot = number.max(*slot);
    }
    resources
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::nvrtc_version;
    use crate::plan::{Arg, DimDef, FUNCTIONS_MARK, Function, FunctionDef, GridAxis, Split, TensorDef, Window};

    static TWICE: FunctionDef =
        FunctionDef { source: "__device__ __forceinline__ float $name(float x) { return 2.0f * x; }", uses: &[] };

    static INSTANCE: Instance = Instance {
        key: &[],
        known_dims: &[],
        variants: &[],
        precomputed: &[],
        unwritten: &[],
        functions: &[Function { alias: "twice", def: &TWICE }],
    };

    static KERNEL: KernelDef = KernelDef {
        name: "double",
        file: "double.rs",
        line: 1,
        dims: &[DimDef { name: "N", known: None }],
        tensors: &[TensorDef { name: "x", position: 0, dtype: None, dims: &[0], reads: true, writes: true }],
        scalars: &[],
        selectors: &[],
        instances: &[],
    };

    fn variant(source: &'static str) -> Variant {
        Variant {
            grid: &[GridAxis { dims: &[0], block: 128 }],
            args: &[Arg::Pointer(0), Arg::Extent(0)],
            aligned: &[0],
            ..Variant::of_source("double_entry", source, 128)
        }
    }

    fn by_four() -> Specialization {
        Specialization::default().aligned(0, 4)
    }

    fn nvrtc_is_missing() -> bool {
        nvrtc_version().inspect_err(|error| println!("skipped: {error}")).is_err()
    }

    #[test]
    fn a_kernel_becomes_machine_code() {
        if nvrtc_is_missing() {
            return;
        }
        let source = double_source();
        for architecture in ["sm_80", "sm_90a"] {
            let compiled = compile_variant(&KERNEL, &INSTANCE, &variant(source), by_four(), architecture).unwrap();
            assert_eq!(&compiled.cubin[..4], b"\x7fELF");
            assert!((4..32).contains(&compiled.resources.registers), "{}", compiled.log);
            assert_eq!(compiled.resources.shared_bytes, 512, "{}", compiled.log);
            assert_eq!(compiled.resources.spill_store_bytes + compiled.resources.stack_bytes, 0, "{}", compiled.log);
        }
    }

    /// Includes a device header, calls a device function, and knows its alignment.
    fn double_source() -> &'static str {
        assert_eq!(FUNCTIONS_MARK, "// [device functions]");
        "#include \"tracea/fast_div.cuh\"\n\
         // [device functions]\n\
         static_assert(TRACEA_ALIGN_0 == 4, \"alignment\");\n\
         extern \"C\" __global__ void __launch_bounds__(128) double_entry(float* x, int n) {\n\
             __shared__ float tile[128];\n\
             int i = blockIdx.x * 128 + threadIdx.x;\n\
             if (i < n) tile[threadIdx.x ^ 1] = x[i];\n\
             __syncthreads();\n\
             if (i < n) x[i] = twice(tile[threadIdx.x]);\n\
         }\n"
    }

    #[test]
    fn a_refused_source_keeps_nvrtcs_words() {
        if nvrtc_is_missing() {
            return;
        }
        let refused = compile_variant(
            &KERNEL,
            &INSTANCE,
            &variant("#line 7 \"double.rs\"\nint x = ;\n"),
            Specialization::default(),
            "sm_80",
        );
        let message = refused.unwrap_err().to_string();
        assert!(message.starts_with("NVRTC could not compile `double` for sm_80\ndouble.rs(7): error"), "{message}");
        let unknown = compile_variant(&KERNEL, &INSTANCE, &variant(double_source()), by_four(), "sm_1");
        assert!(unknown.unwrap_err().to_string().contains("sm_1"));
    }

    #[test]
    fn everything_that_decides_the_code_is_an_input() {
        static WINDOWS: &[Window] = &[Window { tensor: 0, rows: 128, channels: 32, narrow: false, axes: &[] }];
        let inputs = |specialization, architecture| {
            let split =
                Some(Split { part_bytes: 4, most_parts: 2, over: &[], some_whole: true, shares: 0, weighted: false });
            let variant = Variant { windows: WINDOWS, split, ..variant(double_source()) };
            let request = Request::new(&KERNEL, &INSTANCE, &variant, specialization, architecture);
            request.inputs().map(str::to_owned).collect::<Vec<_>>()
        };
        let first = inputs(by_four(), "sm_80");
        assert_eq!(first, inputs(by_four(), "sm_80"));
        assert_ne!(first, inputs(by_four().aligned(0, 8), "sm_80"));
        assert_ne!(first, inputs(by_four().windowed(0, true), "sm_80"));
        assert_ne!(first, inputs(by_four().cut(true), "sm_80"));
        assert_ne!(first, inputs(by_four(), "sm_90"));
        assert!(first.iter().any(|part| part == "-DTRACEA_WINDOW_0=0"));
        assert!(first.iter().any(|part| part == "-DTRACEA_CUT=0"));
        assert!(first.iter().any(|part| part == "tracea/fast_div.cuh"));
    }

    #[test]
    fn the_assemblers_report_is_read() {
        let log = "kernel.cu(3): warning: a number, 7 registers\n\
            ptxas info    : 24 bytes gmem, 8 bytes cmem[4]\n\
            ptxas info    : Compiling entry function 'k' for 'sm_80'\n\
            ptxas info    : Function properties for k\n\
            ptxas         .     16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads\n\
            ptxas info    : Used 23 registers, used 1 barriers, 128 bytes smem, 364 bytes cmem[0], 16 bytes cmem[2]\n\
            ptxas info    : Compile time = 11.615 ms";
        let expected = Resources {
            registers: 23,
            spill_store_bytes: 12,
            spill_load_bytes: 20,
            stack_bytes: 16,
            shared_bytes: 128,
            barriers: 1,
        };
        assert_eq!(report(log), expected);
    }
}
