"""What PyTorch runs, and how long it takes.

The method is that of Tracea's own timing: as many runs after as long a warm-up, so that both find the GPU equally warm, each run with a
flushed L2 cache and between two events, and the median of them.
"""

import statistics
import subprocess
import time

import torch

WARM_UP, RUNS = 3, 30
# Of what runs for so long, more: as `tracea-runtime/src/launch/time.rs` says.
LONG_MS, LONG_WARM_UP_S = 1.0, 0.1
# What the host usually needs no longer than to fill the queue, about 10 ms, and what a busy one gets.
HEAD_START_CYCLES = (20_000_000, 80_000_000, 320_000_000)


def milliseconds(run, tracea_ms=0.0):
    """Beside what took Tracea so long: what runs in turn is warmed up alike."""
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
    if tracea_ms < LONG_MS:
        events = next(filter(None, (queued(timed, cycles) for cycles in HEAD_START_CYCLES)), None)
        if events is None:
            raise RuntimeError("the host is too busy to keep the device's queue filled")
    else:
        begin = time.perf_counter()
        while time.perf_counter() - begin < LONG_WARM_UP_S:
            timed()
            torch.cuda.synchronize()
        events = [timed() for _ in range(WARM_UP + RUNS)]
        torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in events[WARM_UP:])


def queued(timed, cycles):
    """Runs for which the device waits until the host has enqueued them all: Python's time is not the peer's. None where that took the host longer."""
    torch.cuda._sleep(cycles)
    head_start = torch.cuda.Event()
    head_start.record()
    events = [timed() for _ in range(WARM_UP + RUNS)]
    is_over = head_start.query()
    torch.cuda.synchronize()
    return None if is_over else events


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
