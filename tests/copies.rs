//! Operands that a kernel cannot fetch as they lie, for TMA or along a tf32 product's sum: large ones are copied first, on a GPU that
//! has TMA. Each test says that it was skipped where there is none.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tracea::kernels::conv::{conv2d, output_size};
use tracea::kernels::gemm::*;
use tracea::prelude::*;

type Outcome = Result<(), Box<dyn std::error::Error>>;
type Matrix = Tensor<f16, (Dyn, Dyn)>;
type Matrix32 = Tensor<f32, (Dyn, Dyn)>;
type Product32 = for<'t> fn(&'t Matrix32, &'t Matrix32, &'t mut Matrix32) -> Launch<'t>;
type Product = for<'t> fn(&'t Matrix, &'t Matrix, &'t mut Matrix) -> Launch<'t>;

/// The first GPU, where its TMA serves kernels of the portfolio.
fn gpu() -> Option<Device> {
    match Device::cuda(0) {
        Ok(device) if device.compute_capability() == Some((9, 0)) => Some(device),
        Ok(device) => {
            println!("skipped: {} is no sm_90", device.name());
            None
        }
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

fn random(count: usize, seed: u64) -> Vec<f16> {
    let mut random = SmallRng::seed_from_u64(seed);
    (0..count).map(|_| f16::from_f32(random.random_range(-1.0..1.0))).collect()
}

/// `copies     a, b first, …` of an explanation, without its figures.
fn copies(launch: &Launch<'_>) -> Result<Option<String>, tracea::Error> {
    let explained = launch.explain()?;
    let line = explained.lines().find_map(|line| line.trim().strip_prefix("copies"));
    Ok(line.and_then(|line| line.trim().split(" first").next()).map(str::to_owned))
}

#[test]
fn products_with_odd_rows() -> Outcome {
    let Some(device) = gpu() else { return Ok(()) };
    let products: [(&str, Product, bool, bool); 4] = [
        ("nn", gemm_nn, false, false),
        ("nt", gemm_nt, false, true),
        ("tn", gemm_tn, true, false),
        ("tt", gemm_tt, true, true),
    ];
    for (name, product, ta, tb) in products {
        for (m, n, k) in
            [(1023, 1025, 1027), (2048, 2047, 1023), (1021, 777, 1024), (257, 2049, 4095), (1024, 1024, 1023)]
        {
            let (a, b) = (if ta { (k, m) } else { (m, k) }, if tb { (n, k) } else { (k, n) });
            let a = device.tensor(&random(m * k, 1), a)?;
            let b = device.tensor(&random(k * n, 2), b)?;
            let mut c = device.zeros((m, n))?;
            let odd = |columns: usize| !columns.is_multiple_of(8);
            let expected: Vec<&str> = [("a", if ta { m } else { k }), ("b", if tb { k } else { n })]
                .into_iter()
                .filter(|(_, columns)| odd(*columns))
                .map(|(name, _)| name)
                .collect();
            let launch = product(&a, &b, &mut c);
            assert_eq!(copies(&launch)?.unwrap_or_default(), expected.join(", "), "{name} {m} x {n} x {k}");
            launch.verify().map_err(|error| format!("{name} {m} x {n} x {k}: {error}"))?;
            assert_eq!(copies(&product(&a, &b, &mut c).without_copies())?, None);
        }
    }
    Ok(())
}

#[test]
fn tf32_products_of_operands_across_the_sum() -> Outcome {
    let Some(device) = gpu() else { return Ok(()) };
    let products: [(&str, Product32, bool, bool); 4] = [
        ("nn", gemm_nn_tf32, false, false),
        ("nt", gemm_nt_tf32, false, true),
        ("tn", gemm_tn_tf32, true, false),
        ("tt", gemm_tt_tf32, true, true),
    ];
    let random = |count: usize, seed: u64| {
        let mut random = SmallRng::seed_from_u64(seed);
        (0..count).map(|_| random.random_range(-1.0f32..1.0)).collect::<Vec<f32>>()
    };
    for (name, product, ta, tb) in products {
        for (m, n, k) in [(1024, 2048, 1536), (2047, 2049, 1023), (1000, 777, 4095)] {
            let (a, b) = (if ta { (k, m) } else { (m, k) }, if tb { (n, k) } else { (k, n) });
            let a = device.tensor(&random(m * k, 1), a)?;
            let b = device.tensor(&random(k * n, 2), b)?;
            let mut c = device.zeros((m, n))?;
            let launch = product(&a, &b, &mut c);
            // Of one operand threads read fragments, however it lies. Beside a copy of the other, those with odd rows may be worth one.
            let all = copies(&launch)?.unwrap_or_default();
            let along = all.split(", ").filter(|copied| copied.ends_with(" (along K)")).count();
            assert_eq!(along, usize::from(ta && !tb), "{name} {m} x {n} x {k}: {all}");
            launch.verify().map_err(|error| format!("{name} {m} x {n} x {k}: {error}"))?;
            let launch = launch.without_copies();
            assert_eq!(copies(&launch)?, None);
            launch.verify().map_err(|error| format!("{name} {m} x {n} x {k}, as they lie: {error}"))?;
        }
    }
    Ok(())
}

/// Times the identity, so that every element shows where it went, by copies or fragments: whole numbers that tf32 holds.
#[test]
fn operands_across_the_sum_are_read_exactly() -> Outcome {
    let Some(device) = gpu() else { return Ok(()) };
    for (k, n) in [(1, 1), (1, 200), (67, 1), (64, 64), (65, 130), (300, 257), (1001, 36), (2048, 1000)] {
        let values: Vec<f32> = (0..k * (n + 3)).map(|at| (at * 7919 % 2047) as f32).collect();
        let whole: Matrix32 = device.tensor(&values, (k, n + 3))?;
        // Rows off every alignment, with gaps between them.
        let b = whole.narrow(1, 1..n + 1)?;
        let identity: Vec<f32> = (0..k * k).map(|at| if at / k == at % k { 1.0 } else { 0.0 }).collect();
        let a = device.tensor(&identity, (k, k))?;
        let mut c: Matrix32 = device.zeros((k, n))?;
        let products: [Product32; 2] = [gemm_nn_tf32, gemm_tn_tf32];
        for product in products {
            let schedules = product(&a, &b, &mut c).schedules()?;
            let by_warpgroups: Vec<&String> =
                schedules.iter().filter(|schedule| schedule.starts_with("sm_90a")).collect();
            assert!(!by_warpgroups.is_empty());
            for schedule in by_warpgroups {
                c.fill(-1.0)?;
                product(&a, &b, &mut c).schedule(schedule.as_str()).launch()?;
                assert!(c.to_vec()? == b.to_vec()?, "{k} x {n}, {schedule}");
            }
        }
    }
    Ok(())
}

#[test]
fn what_reads_copies_alone_does_not_run_without_them() -> Outcome {
    let Some(device) = gpu() else { return Ok(()) };
    let (a, b): (Matrix32, Matrix32) = (device.zeros((256, 256))?, device.zeros((256, 256))?);
    let mut c: Matrix32 = device.zeros((256, 256))?;
    let all = gemm_tn_tf32(&a, &b, &mut c).schedules()?;
    let launch = gemm_tn_tf32(&a, &b, &mut c).without_copies();
    let left = launch.schedules()?;
    assert!(left.len() < all.len() && left.iter().all(|schedule| schedule.starts_with("sm_80")), "{left:?}");
    assert!(launch.chosen()?.starts_with("sm_80"));
    let error = launch.schedule(all.iter().find(|schedule| !left.contains(schedule)).cloned().unwrap_or_default());
    let message = error.launch().err().map(|error| error.to_string()).unwrap_or_default();
    assert!(message.contains("has `b` in memory of the launch's own"), "{message}");
    Ok(())
}

#[test]
fn operands_within_others() -> Outcome {
    let Some(device) = gpu() else { return Ok(()) };
    let (m, n, k) = (700, 900, 1024);
    let a: Matrix = device.tensor(&random((m + 3) * (k + 7), 3), (m + 3, k + 7))?;
    let b: Matrix = device.tensor(&random(3 * n * (k + 1), 4), (3 * n, k + 1))?;
    let mut c = device.zeros((3, m, n))?;
    let mut product = device.zeros((m, n))?;
    // Rows that begin in the middle of others, off every alignment, and have gaps between them.
    let (a, b) = (a.narrow(0, 2..m + 2)?, b.narrow(0, n..2 * n)?);
    let (a, b) = (a.narrow(1, 5..k + 5)?, b.narrow(1, 1..k + 1)?);
    let launch = gemm_nt(&a, &b, &mut product);
    assert_eq!(copies(&launch)?.as_deref(), Some("a, b"));
    launch.verify()?;
    // Batches whose matrices lie in another order.
    let wide: Tensor<f16, (Dyn, Dyn, Dyn)> = device.tensor(&random(m * 3 * 1023, 5), (m, 3, 1023))?;
    let left = wide.permute::<(Dyn, Dyn, Dyn)>(&[1, 0, 2])?;
    let right = device.tensor(&random(3 * 1023 * n, 6), (3, 1023, n))?;
    let launch = gemm_batched(&left, &right, &mut c);
    assert_eq!(copies(&launch)?.as_deref(), Some("a, b"));
    launch.verify()?;
    Ok(())
}

/// Taps are walked one by one in a copy whose rows are aligned, or multiplied together as they lie.
#[test]
fn convolutions_of_few_and_odd_channels() -> Outcome {
    let Some(device) = gpu() else { return Ok(()) };
    let (mut copied, mut together) = (0, 0);
    for (n, size, channels, filters, window, stride, pad) in
        [(4, 112, 3, 64, 7, 2, 3), (4, 56, 67, 61, 3, 1, 1), (8, 57, 65, 128, 1, 1, 0), (3, 33, 130, 96, 3, 2, 1)]
    {
        let out = output_size(size, window, stride, pad, 1);
        let x = device.tensor(&random(n * size * size * channels, 7), (n, size, size, channels))?;
        let w = device.tensor(&random(filters * window * window * channels, 8), (filters, window, window, channels))?;
        let bias = device.tensor(&random(filters, 9), (filters,))?;
        let mut y = device.zeros((n, out, out, filters))?;
        let launch = conv2d(&x, &w, &bias, &mut y, stride as i32, pad as i32, 1);
        let shape = format!("{n} x {channels} x {size}² -> {filters}, {window}²/{stride}");
        match copies(&launch)?.as_deref() {
            Some("x, w" | "w, x") if launch.explain()?.contains("x by TMA") => copied += 1,
            None if launch.explain()?.contains("rsc = ") => together += 1,
            other => panic!("{shape}: copies of {other:?}"),
        }
        launch.verify().map_err(|error| format!("{shape}: {error}"))?;
    }
    assert!(copied > 0 && together > 0, "{copied} and {together}");
    Ok(())
}

/// Windows that TMA cannot walk are not worth a copy.
#[test]
fn a_stride_beyond_tma() -> Outcome {
    let Some(device) = gpu() else { return Ok(()) };
    let x = device.tensor(&random(2 * 200 * 200 * 67, 10), (2, 200, 200, 67))?;
    let w = device.tensor(&random(64 * 3 * 3 * 67, 11), (64, 3, 3, 67))?;
    let bias = device.zeros((64,))?;
    let out = output_size(200, 3, 9, 1, 1);
    let mut y = device.zeros((2, out, out, 64))?;
    let launch = conv2d(&x, &w, &bias, &mut y, 9, 1, 1);
    assert_eq!(copies(&launch)?, None);
    launch.verify()?;
    Ok(())
}

/// A stream's launches share its room: later copies must not overtake earlier ones, and a larger one takes its place.
#[test]
fn launches_take_turns_with_the_room() -> Outcome {
    let Some(device) = gpu() else { return Ok(()) };
    let device = device.new_stream()?;
    let sizes = [(300, 1023), (1023, 301), (2047, 2047), (511, 1023)];
    let products = |seed: u64| -> Result<Vec<(Matrix, Matrix, Matrix)>, tracea::Error> {
        let product = |(at, (n, k)): (usize, (usize, usize))| {
            let a = device.tensor(&random(257 * k, seed + at as u64), (257, k))?;
            let b = device.tensor(&random(n * k, seed + 10 + at as u64), (n, k))?;
            Ok((a, b, device.zeros((257, n))?))
        };
        sizes.into_iter().enumerate().map(product).collect()
    };
    let (mut alone, mut together) = (products(20)?, products(20)?);
    for (a, b, c) in &mut alone {
        gemm_nt(a, b, c).launch()?;
        device.synchronize()?;
    }
    for _ in 0..20 {
        for (a, b, c) in &mut together {
            gemm_nt(a, b, c).launch()?;
        }
    }
    for ((.., one), (.., other)) in alone.iter().zip(&together) {
        assert!(one.to_vec()? == other.to_vec()?);
    }
    // Threads that share a stream.
    let sets = (0..4).map(|_| products(20)).collect::<Result<Vec<_>, _>>()?;
    let run = |mut set: Vec<(Matrix, Matrix, Matrix)>| {
        for _ in 0..20 {
            for (a, b, c) in &mut set {
                gemm_nt(a, b, c).launch()?;
            }
        }
        set.into_iter().map(|(.., c)| c.to_vec()).collect::<Result<Vec<_>, _>>()
    };
    let expected = alone.iter().map(|(.., c)| c.to_vec()).collect::<Result<Vec<_>, _>>()?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = sets.into_iter().map(|set| scope.spawn(|| run(set))).collect();
        for thread in threads {
            assert!(thread.join().is_ok_and(|results| results.is_ok_and(|results| results == expected)));
        }
    });
    Ok(())
}
