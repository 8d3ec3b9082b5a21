//! Through NVRTC to machine code, without a GPU: every variant of every instance, for dense and misaligned tensors.
//!
//! The compiler's own report must show no spills and no stack and stay within the plan; the disassembly must show the instructions that the
//! plan promises, and products that follow each other at once. What another test all but covers is left for `--include-ignored`: the forms of
//! a variant that is not its target's first, or of a kernel that is not shipped, smaller tiles of a schedule otherwise the same, promises that another one kept, instances that
//! differ from tested ones by functions or conversions, and, where there are variants for newer devices, all but the first for older ones.

use crate::case::{Placing, Setting, Subject};
use libtest_mimic::{Completion, Failed, Trial};
use std::collections::HashSet;
use std::hash::Hash;
use std::path::PathBuf;
use std::process::Command;
use tracea::cuda::{Compiled, Resources, Specialization, compile_variant, nvrtc_version};
use tracea::dtype::Dtype;
use tracea::plan::{Instance, KernelDef, Key, TensorDef, Variant};
use tracea::prelude::*;

/// A block's shared memory on the target's largest device; the runtime tells smaller ones that there is no code for them.
const SHARED_BYTES: &[(&str, u32)] = &[("sm_80", 163 << 10), ("sm_90a", 227 << 10)];

/// The same of any device: rows in turn are for those that have room for some.
const MOST_SHARED_BYTES: u32 = 227 << 10;

/// A multiprocessor's registers.
const REGISTERS: u32 = 65536;

/// Of kernels that are `shipped`, also for operands that are aligned by copies beside tensors that are not, and always every kind of schedule;
/// of others, a kind that an earlier one has shown is left for `--include-ignored`, and all forms but the one that a variant was made for. A shipped kernel is seen to keep each of its promises; others
/// together.
pub fn trials(subjects: &[Subject], shipped: bool) -> Vec<Trial> {
    let missing = match (nvrtc_version(), disassembler()) {
        (Err(error), _) => Some(error.to_string()),
        (Ok(_), None) => {
            Some("no nvdisasm -- install the CUDA toolkit, or run `cargo xtask test`, which fetches it".into())
        }
        (Ok(_), Some(_)) => None,
    };
    let mut trials = Vec::new();
    let (mut shown, mut promised) = (HashSet::new(), HashSet::new());
    let kernels = kernels(subjects);
    for kernel in &kernels {
        let kernel = *kernel;
        let alone = !kernels.iter().any(|other| stands_for(other, kernel));
        for instance in kernel.instances {
            let twin = has_twin(kernel, instance);
            let (stood_for, stood_for_twice) = (!alone || twin, !alone && twin);
            let has_newer = instance.variants.iter().any(|variant| variant.target == "sm_90a");
            for (at, variant) in instance.variants.iter().enumerate() {
                let alike =
                    |before: &Variant| (before.target, before.precomputed) == (variant.target, variant.precomputed);
                let first = !instance.variants[..at].iter().any(alike);
                // Once operands are tensors, a product is one like any other.
                let stood_for = stood_for
                    || variant.precomputed
                    || instance.variants[at + 1..].iter().any(|later| takes_more(later, variant))
                    || instance.variants.iter().any(|other| is_larger(other, variant));
                let has_newer = has_newer && variant.target != "sm_90a";
                let is_new = !stood_for && (first || !has_newer) && shown.insert(kind(variant));
                let always = match (stood_for, first, has_newer) {
                    (true, true, false) if !stood_for_twice => Always::Best,
                    (true, _, _) => Always::Nothing,
                    (false, true, false) if shipped => Always::Cut,
                    (false, true, false) => Always::Best,
                    (false, true, true) | (false, false, false) if shipped || is_new => Always::Best,
                    (false, ..) => Always::Nothing,
                };
                let mut forms = forms(variant, shipped);
                if stood_for {
                    forms.truncate(1);
                }
                let (always, at_length) = divided(forms, always);
                let of_promise = (shipped.then_some(kernel.name), variant.target, variant.promised_sass);
                let promises_more = !always.is_empty() && promised.insert(of_promise);
                for (forms, prefix, ignored) in [(always, "nvrtc", false), (at_length, "nvrtc, at length", true)] {
                    if forms.is_empty() {
                        continue;
                    }
                    let missing = missing.clone();
                    let name = format!("{prefix}: {}", name(kernel, instance, variant));
                    let trial = Trial::ignorable_test(name, move || match missing {
                        Some(reason) => Ok(Completion::ignored_with(reason)),
                        None => {
                            let disassembled = promises_more || ignored;
                            compiles(kernel, instance, variant, &forms, disassembled).map(|()| Completion::Completed)
                        }
                    });
                    trials.push(trial.with_ignored_flag(ignored));
                }
            }
        }
    }
    trials
}

/// Whether both walk rows that begin anywhere, the later one with more of a row at a time in each thread's registers, or in more threads.
fn takes_more(later: &Variant, variant: &Variant) -> bool {
    let walks = |variant: &Variant| !variant.skewed.is_empty() && variant.longest.is_none();
    walks(variant) && walks(later) && later.target == variant.target
}

/// Whether schedules of two products are of a kind, and so many threads keep a larger tile in as many registers: what fits there, fits here.
fn is_larger(other: &Variant, variant: &Variant) -> bool {
    let blocks = |variant: &Variant| variant.grid.iter().map(|axis| u64::from(axis.block)).product::<u64>();
    let within = variant.grid.iter().zip(other.grid).all(|(this, other)| this.block <= other.block);
    let products = !variant.cost.fetches.is_empty() && !other.cost.fetches.is_empty();
    products && kind(other) == kind(variant) && within && blocks(other) > blocks(variant)
}

/// What is the same of schedules that differ in numbers alone.
fn kind(variant: &Variant) -> impl Hash + Eq + use<> {
    let names: String = variant.schedule.chars().filter(|at| !at.is_ascii_digit()).collect();
    (variant.target, names, variant.threads, variant.max_registers, variant.promised_sass, variant.grid.len())
}

/// Whether what rows that are not aligned take is seen in the first of two kernels: where they differ in the functions alone that they call, in the one
/// that calls more, and where each tensor has an axis more, in that of batches.
fn stands_for(other: &KernelDef, kernel: &KernelDef) -> bool {
    let form = |kernel: &KernelDef| {
        let of_instance = |instance: &Instance| {
            let schedules: Vec<_> =
                instance.variants.iter().map(|variant| (variant.schedule, variant.args.len())).collect();
            format!("{:?} {schedules:?}", instance.key)
        };
        (format!("{:?}", kernel.tensors), kernel.instances.iter().map(of_instance).collect::<Vec<_>>())
    };
    let called = |kernel: &KernelDef| {
        let functions = kernel.instances.iter().flat_map(|instance| instance.functions);
        (functions.map(|function| function.def.source.len()).sum::<usize>(), kernel.name)
    };
    (form(other) == form(kernel) && called(other) > called(kernel)) || is_batched(other, kernel)
}

/// Whether one kernel is the other one by batches, under the same schedules.
fn is_batched(batched: &KernelDef, kernel: &KernelDef) -> bool {
    let tensors = |kernel: &KernelDef, more: usize| {
        let of = |tensor: &TensorDef| (tensor.dtype, tensor.dims.len() + more, tensor.reads, tensor.writes);
        kernel.tensors.iter().map(of).collect::<Vec<_>>()
    };
    let schedules = |kernel: &KernelDef| {
        let of = |instance: &Instance| instance.variants.iter().map(|variant| variant.schedule).collect::<Vec<_>>();
        kernel.instances.iter().map(|instance| (format!("{:?}", instance.key), of(instance))).collect::<Vec<_>>()
    };
    tensors(batched, 0) == tensors(kernel, 1) && schedules(batched) == schedules(kernel)
}

/// Each once, in the registry's order, with those that compute its operands.
fn kernels(subjects: &[Subject]) -> Vec<&'static KernelDef> {
    let device = Device::cpu();
    let mut kernels: Vec<&KernelDef> = Vec::new();
    for subject in subjects {
        let setting = Setting::new(&device, subject.sizes.fixed[0], Placing::Dense);
        let mut find = |launch: Launch<'_>| {
            let kernel = launch.kernel();
            if !kernels.iter().any(|known| std::ptr::eq(*known, kernel)) {
                kernels.push(kernel);
                let operands = kernel.instances.iter().flat_map(|instance| instance.precomputed);
                kernels.extend(operands.map(|operand| operand.kernel));
            }
            Ok(())
        };
        (subject.case)(&setting, &mut find).unwrap_or_else(|failed| panic!("{}: {failed:?}", subject.name));
    }
    kernels
}

fn name(kernel: &KernelDef, instance: &Instance, variant: &Variant) -> String {
    let keys = kernel.selectors.iter().zip(instance.key).map(|(selector, key)| match key {
        Key::Int(value) => format!(" {selector}={value}"),
        Key::Bool(value) => format!(" {selector}={value}"),
        Key::Dtype(dtype) => format!(" {selector}={dtype}"),
    });
    format!("{}{} ({})", kernel.name, keys.collect::<String>(), variant.schedule)
}

/// What the code is made to expect of its tensors.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Tensors {
    Misaligned,
    Aligned,
    /// Aligned, and TMA fetches their windows.
    Windowed,
    /// The same for what TMA brings, which copies see to; all else misaligned.
    Copied,
}

/// What the code is compiled for, and what it expects of a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Form {
    architecture: &'static str,
    tensors: Tensors,
    /// Whether tiles are cut, where the code may be made for either.
    cut: bool,
    /// Whether scalars are positive, where the code may be made for either.
    positive: bool,
}

/// What the variant is there for, where it keeps its promises.
fn made_for(variant: &Variant) -> Tensors {
    match (variant.windows, variant.skewed) {
        ([], []) => Tensors::Aligned,
        ([], _) => Tensors::Misaligned,
        _ => Tensors::Windowed,
    }
}

/// All that a launch may want of the variant: first what it is there for.
fn forms(variant: &Variant, shipped: bool) -> Vec<Form> {
    let (target, best) = (variant.target, made_for(variant));
    let others = [Tensors::Aligned, Tensors::Misaligned].into_iter().filter(|tensors| *tensors != best);
    let form = |tensors: Tensors| Form { architecture: target, tensors, cut: true, positive: true };
    let mut forms: Vec<Form> = std::iter::once(best).chain(others).map(form).collect();
    if target == "sm_80" {
        // Compiled for newer devices too, where the assembler allocates anew.
        forms.push(Form { architecture: "sm_90", ..form(best) });
    } else if shipped && !variant.cost.fetches.is_empty() {
        forms.push(form(Tensors::Copied));
    }
    if variant.aligned.is_empty() {
        forms.retain(|form| form.tensors == best);
    }
    if variant.by_tma {
        forms.retain(|form| form.tensors != Tensors::Misaligned);
    }
    if variant.bakes_in_cuts() {
        // Less of the same code.
        forms.push(Form { cut: false, ..form(best) });
    }
    if !variant.positive.is_empty() {
        forms.push(Form { positive: false, ..form(best) });
    }
    forms
}

/// Which forms of a variant are compiled always. Where another kernel or another instance stands for this one, or an earlier one that is not shipped
/// either has shown the kind, the form that the variant was made for is all there is to see, and where another kernel and another instance do, not
/// even that. Where there are newer variants, newer devices seldom run this one. Whole tiles are less of the code that cuts them.
#[derive(Clone, Copy)]
enum Always {
    Nothing,
    Best,
    Cut,
}

/// What is compiled always, and what is left for `--include-ignored`.
fn divided(forms: Vec<Form>, always: Always) -> (Vec<Form>, Vec<Form>) {
    let is_told = |at: usize, form: Form| match always {
        Always::Nothing => false,
        Always::Best => at == 0,
        Always::Cut => form.cut,
    };
    let (always, at_length): (Vec<_>, Vec<_>) =
        forms.into_iter().enumerate().partition(|(at, form)| is_told(*at, *form));
    let of = |forms: Vec<(usize, Form)>| forms.into_iter().map(|(_, form)| form).collect();
    (of(always), of(at_length))
}

fn compiles(
    kernel: &'static KernelDef,
    instance: &Instance,
    variant: &Variant,
    forms: &[Form],
    disassembled: bool,
) -> Result<(), Failed> {
    for Form { architecture, tensors, cut, positive } in forms {
        let mut facts = Specialization::default().cut(*cut);
        for &tensor in variant.aligned {
            let misaligned = match tensors {
                // A copy never is.
                _ if variant.relaid.iter().any(|relaid| relaid.tensor == tensor) => false,
                _ if tensor >= kernel.tensors.len() => false,
                Tensors::Misaligned => true,
                Tensors::Copied => variant.cost.fetches.iter().all(|fetch| fetch.tensor != tensor),
                Tensors::Aligned | Tensors::Windowed => false,
            };
            let bytes = if misaligned { element_bytes(kernel, instance, tensor) } else { 16 };
            facts = facts.aligned(tensor, bytes);
        }
        for window in variant.windows {
            facts = facts.windowed(window.tensor, matches!(tensors, Tensors::Windowed | Tensors::Copied));
        }
        for &scalar in variant.positive {
            facts = facts.positive(scalar, *positive);
        }
        let context = |failed: Failed| {
            Failed::from(format!("{architecture}, {tensors:?}: {}", failed.message().unwrap_or_default()))
        };
        let compiled = compile_variant(kernel, instance, variant, facts, architecture)?;
        within_plan(variant, &compiled).map_err(context)?;
        if disassembled && *tensors == made_for(variant) {
            keeps_promises(variant, &compiled.cubin).map_err(context)?;
        }
    }
    Ok(())
}

/// Whether the instance is that of bf16 beside one of f16, whose code differs by conversions alone, or that of f32, whose vectors are half as
/// long, or lacks what a flag adds.
fn has_twin(kernel: &KernelDef, instance: &Instance) -> bool {
    let tested = |key: &Key| match key {
        Key::Dtype(Dtype::Bf16 | Dtype::F32) => Key::Dtype(Dtype::F16),
        Key::Bool(_) => Key::Bool(true),
        other => *other,
    };
    let twin: Vec<Key> = instance.key.iter().map(tested).collect();
    twin != instance.key && kernel.instances.iter().any(|other| other.key == twin)
}

/// Memory is never aligned to less.
fn element_bytes(kernel: &KernelDef, instance: &Instance, tensor: usize) -> u32 {
    let generic = || instance.key.iter().find_map(|key| if let Key::Dtype(dtype) = key { Some(*dtype) } else { None });
    let dtype = kernel.tensors.get(tensor).and_then(|tensor| tensor.dtype.or_else(generic));
    dtype.map_or(1, |dtype| dtype.bytes() as u32)
}

fn within_plan(variant: &Variant, compiled: &Compiled) -> Result<(), Failed> {
    let Resources { registers, spill_store_bytes, spill_load_bytes, stack_bytes, shared_bytes, .. } =
        compiled.resources;
    if registers == 0 {
        return Err(format!("the compiler reports no registers\n{}", compiled.log).into());
    }
    if spill_store_bytes + spill_load_bytes + stack_bytes > 0 {
        let spills = format!("spills {spill_store_bytes} and {spill_load_bytes} bytes, stack {stack_bytes} bytes");
        return Err(format!("{registers} registers, {spills}").into());
    }
    if compiled.log.contains("serialized") || compiled.log.contains("serialised") {
        return Err(format!("the compiler serialised wgmma\n{}", compiled.log).into());
    }
    if registers > variant.max_registers || registers * variant.threads > REGISTERS {
        return Err(format!(
            "{registers} registers, the plan has {}, {} threads",
            variant.max_registers, variant.threads
        )
        .into());
    }
    let shared = shared_bytes + variant.most_shared_bytes();
    let of_target = SHARED_BYTES.iter().find(|(target, _)| *target == variant.target).map(|(_, limit)| *limit);
    let limit = if variant.takes_rows_in_turn() { Some(MOST_SHARED_BYTES) } else { of_target };
    match limit {
        Some(limit) if shared > limit => Err(format!("{shared} bytes of shared memory, a block has {limit}").into()),
        _ => Ok(()),
    }
}

fn keeps_promises(variant: &Variant, cubin: &[u8]) -> Result<(), Failed> {
    let Some(program) = disassembler() else { return Err("nvdisasm is gone".into()) };
    let file = std::env::temp_dir().join(format!("tracea-{}-{:p}.cubin", std::process::id(), cubin.as_ptr()));
    std::fs::write(&file, cubin)?;
    // Where branches go does not matter here, and takes as long as all else to find out.
    let output = Command::new(program).args(["--print-code", "--no-dataflow"]).arg(&file).output();
    std::fs::remove_file(&file)?;
    let output = output?;
    if !output.status.success() {
        return Err(format!("nvdisasm: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let code = String::from_utf8_lossy(&output.stdout);
    let missing: Vec<_> = variant.promised_sass.iter().filter(|instruction| !code.contains(**instruction)).collect();
    if !missing.is_empty() {
        return Err(format!("the machine code has no {missing:?}").into());
    }
    if moves_descriptors(&code) {
        return Err(
            "the machine code moves descriptors to uniform registers between products, which wait for them".into()
        );
    }
    // Registers that were put into memory.
    let local = code.split_whitespace().find(|word| word.starts_with("LDL") || word.starts_with("STL"));
    local.map_or(Ok(()), |instruction| Err(format!("the machine code has {instruction}").into()))
}

/// Whether descriptors come to be in uniform registers between one product of a step and the next: where the assembler does not know that all
/// threads of a warp have the same.
fn moves_descriptors(code: &str) -> bool {
    // Since a product that the step has before, whether something was moved.
    let mut moved = None;
    for line in code.lines() {
        if line.contains("HGMMA") {
            if moved == Some(true) {
                return true;
            }
            moved = Some(false);
        } else if line.contains("WARPGROUP") || line.contains("BRA") {
            moved = None;
        } else if line.contains("R2UR") {
            moved = moved.map(|_| true);
        }
    }
    false
}

/// `nvdisasm` on the path, or among the fetched tools above the running binary.
fn disassembler() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("nvdisasm"));
    let binary = std::env::current_exe().unwrap_or_default();
    let fetched = binary.ancestors().map(|folder| folder.join("cuda-tools/nvidia/cu13/bin/nvdisasm"));
    on_path.chain(fetched).find(|program| program.is_file())
}
