//! What is copied, by launches of its own or by threads, and what that takes.

use super::*;

#[test]
fn large_operands_with_odd_rows_are_copied() {
    let (odd, even) = (says(&WIDE, [8191; 3], 0, true), says(&WIDE, [8191; 3], 1, true));
    assert!(odd.realigned_to > 0 && even.realigned_to == 0);
    // Two operands of 128 MiB, read and written at 3.5 TB/s: 153 µs of 1.75 GHz.
    let copying = odd.cycles - even.cycles;
    assert!((260_000..290_000).contains(&copying), "{copying}");
    assert!(copying < even.cycles / 8);
}

/// 16 KiB a step are 234 cycles at 70 bytes a cycle, and 334 at 49.
#[test]
fn what_was_copied_just_before_is_slower_to_come() {
    const WAITING: Variant =
        Variant { cost: Cost { steps: &[StepCost { latency: 240, work: 128, over: STEPS }], ..SMALL.cost }, ..SMALL };
    let (odd, even) = (says(&WAITING, [2048; 3], 1, true), says(&WAITING, [2048; 3], 0, true));
    assert_eq!((odd.realigned_to, even.realigned_to), (TMA_ALIGNMENT, 0));
    let copying = 5000 + 4 * 2048 * 2048 * 2 / (15 * 132);
    assert!(odd.cycles > (even.cycles + copying) * 6 / 5, "{} {} {copying}", odd.cycles, even.cycles);
}

#[test]
fn a_copy_that_costs_more_than_it_saves_is_not_made() {
    assert!(
        says(&SMALL, [64, 64, 63], 0, true).realigned_to == 0,
        "one step of copying threads is shorter than a launch"
    );
    assert!(says(&SMALL, [64, 64, 1023], 0, true).realigned_to > 0);
    assert!(says(&SMALL, [1 << 20, 64, 63], 0, true).realigned_to > 0, "one step in each of many tiles");
}

#[test]
fn what_must_not_or_cannot_be_copied_is_priced_as_it_lies() {
    let (asked, allowed) = (says(&WIDE, [8191; 3], 0, false), says(&WIDE, [8191; 3], 0, true));
    assert!(asked.realigned_to == 0 && asked.cycles > 8 * allowed.cycles, "{} {}", asked.cycles, allowed.cycles);
    let beyond = says(&WIDE, [1 << 15, 1 << 15, (1 << 14) - 1], 0, true);
    assert!(beyond.realigned_to == 0, "more than there is room for");
    let by_eights = says(&WIDE, [8191, 8191, 8188], 0, false);
    assert!(by_eights.cycles < asked.cycles * 3 / 5, "wider rows take fewer accesses");
}

#[test]
fn threads_copy_what_comes_with_an_operand_that_tma_cannot_fetch() {
    let one_lies = |strides: [usize; 2]| {
        let tensors = strides.map(|stride| {
            let layout = Layout::strided(&[4096, 4096], &[stride, 1]).unwrap();
            RawTensor::borrowing(Dtype::F16, layout, std::ptr::without_provenance_mut(0x1000), Device::cpu())
        });
        let mut all = Tensors::new();
        tensors.iter().for_each(|tensor| all.push(tensor));
        unit_of(&WIDE, &Sizes::of(&[4096; 3]), 1, ONE, &Alignments::of(&all)).latency
    };
    let [neither, wider, both] = [[4096, 4096], [4096, 4100], [4100, 4100]].map(one_lies);
    assert!(wider - neither > (both - neither) * 3 / 4, "{neither} {wider} {both}");
}

#[test]
fn elements_that_come_by_themselves_take_as_long_however_they_lie() {
    const FETCHES: &[Fetch] = &[Fetch { scattered: 2, ..WIDE.cost.fetches[0] }, WIDE.cost.fetches[1]];
    let scattered = |resident| Variant {
        cost: Cost { fetches: FETCHES, resident, ..WIDE.cost },
        shared_bytes: (227 << 10) / resident - 1024,
        ..WIDE
    };
    let cycles = |variant: &Variant, k| says(variant, [4096, 4096, k], 0, false).cycles;
    assert!(cycles(&scattered(1), 4096) > 4 * cycles(&WIDE, 4096));
    assert!(
        cycles(&scattered(1), 4095) < cycles(&scattered(1), 4096) * 3,
        "the other operand's rows are copied beside them"
    );
    assert!(3 * cycles(&scattered(3), 4096) < 2 * cycles(&scattered(1), 4096), "more threads copy more");
    let multiplying = |threads| cycles(&Variant { persistent: false, threads, ..scattered(1) }, 4096);
    assert!(4 * multiplying(384) < 3 * multiplying(256), "a third of a cycle for an element, and half of one");
    assert_eq!(cycles(&scattered(4), 4096), cycles(&scattered(8), 4096), "as fast as a multiprocessor issues");
}

#[test]
fn a_variant_that_reads_operands_laid_anew_pays_for_their_copies() {
    const RELAID: Variant = Variant { relaid: &[Relaid { tensor: 1, last: 0, written: false }], ..WIDE };
    let elements = |n: usize, k: usize| {
        let layout = Layout::contiguous(&[k, n]).unwrap();
        RawTensor::borrowing(Dtype::F32, layout, std::ptr::without_provenance_mut(0x1000), Device::cpu())
    };
    let of = |variant: &Variant, size: usize, may_copy: bool| {
        let (a, b) = (elements(size, size), elements(size, size));
        let mut tensors = Tensors::new();
        [&a, &b].into_iter().for_each(|tensor| tensors.push(tensor));
        let (alignments, gapless, skews) = (Alignments::of(&tensors), Gapless::of(&tensors), Skews::of(&tensors));
        let operands =
            Operands { kernel: &KERNEL, precomputed: &[], tensors: &tensors, alignments, gapless, skews, may_copy };
        prediction(variant, &Sizes::of(&[size; 3]), H200, &operands).map(|said| said.cycles)
    };
    let (plain, relaid) = (of(&WIDE, 4096, true).unwrap(), of(&RELAID, 4096, true).unwrap());
    // 64 MiB, read and written at 3.5 TB/s: 38 µs of 1.75 GHz, and a launch of 3 µs.
    assert!((68_000..77_000).contains(&(relaid - plain)), "{}", relaid - plain);
    assert_eq!(of(&RELAID, 4096, false), None);
    assert_eq!(of(&RELAID, 1 << 15, true), None, "more than there is room for");
}
