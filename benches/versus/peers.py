"""What PyTorch runs, and how long it takes.

The method is that of Tracea's own timing: as many runs after as long a warm-up, so that both find the GPU equally warm, each run with a
flushed L2 cache and between two events, and the median of them.
"""

import statistics
import subprocess
import time

import torch

WARM_UP, WARM_UP_S, RUNS = 3, 0.1, 30
# Longer than the host is behind after all runs: about 4 ms; and what it surely takes less than for each.
HEAD_START_CYCLES, LONG_S = 8_000_000, 1e-3


def milliseconds(run):
    run()  # Compiles and tunes what it must.
    flush = torch.empty(torch.cuda.get_device_properties("cuda").L2_cache_size // 2, device="cuda", dtype=torch.int32)

    def timed():
        # Written, then read: the cache is cold, and has no lines left that must be written back.
        flush.zero_()
        flush.max()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        return start, end

    torch.cuda.synchronize()
    begin, runs = time.perf_counter(), 0
    while runs < WARM_UP or time.perf_counter() - begin < WARM_UP_S:
        timed()
        torch.cuda.synchronize()
        runs += 1
    # Runs that are shorter than the host takes to enqueue them wait until it has a start: Python's time is not the peer's.
    if (time.perf_counter() - begin) / runs < LONG_S:
        torch.cuda._sleep(HEAD_START_CYCLES)
    events = [timed() for _ in range(RUNS)]
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in events)


def copy(moved):
    """A device copy that reads and writes `moved` bytes in all."""
    source = torch.empty(moved // 2, device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def compiled(function, max_autotune):
    """Compiled for one shape: what was compiled before would make torch.compile take sizes for variables."""
    torch.compiler.reset()
    # CUDA graphs would copy the inputs, and save host time that is not counted anyway.
    mode = "max-autotune-no-cudagraphs" if max_autotune else "default"
    return torch.compile(function, dynamic=False, mode=mode)


def normal(*shape, dtype=torch.float16):
    return torch.randn(*shape, device="cuda", dtype=dtype)


def machine():
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        driver = None
    moved = 4 << 30
    return {
        "device": torch.cuda.get_device_name(), "driver": driver, "cuda": torch.version.cuda, "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(), "copy_bytes_per_s": moved / milliseconds(copy(moved)) * 1e3,
    }
