"""Tracea's examples beside PyTorch on one GPU: each shape is timed by both in turn, and the ratio is what counts.

    python3 benches/versus/versus.py [--examples FOLDER] [--json FILE] [SUITE ...]

FOLDER holds the release examples (`target/release/examples`, or `examples` in a bundle). Suites: gemm, linear, conv2d, attention, memory;
all by default. Inputs are normal random numbers, the L2 cache is flushed between runs, medians are compared. Peers: cuBLAS through `@`,
torch.compile for fused epilogues, cuDNN's conv + bias + relu, cuDNN's attention; for kernels without a product a device copy that reads and
writes as many bytes as they do, which is the bound. Every row of Tracea's is verified against the same kernel in f64. A ratio over 1 means
that Tracea is faster.
"""

import argparse
import json
import math
import pathlib
import subprocess

import torch
import torch.nn.functional as F
import triton
from torch.nn.attention import SDPBackend, sdpa_kernel

GEMM = [
    (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (16384, 16384, 16384), (4096, 6144, 4096),
    (4096, 28672, 4096), (4096, 4096, 14336), (8192, 8192, 28672), (8192, 57344, 8192), (16, 4096, 4096), (64, 4096, 4096),
    (128, 4096, 4096), (16, 28672, 4096), (128, 28672, 8192), (512, 512, 16384), (1000, 1000, 1000), (2048, 2048, 256),
    (65536, 256, 256), (4095, 4097, 4104), (1023, 1025, 1027),
]
LINEAR = [(4096, 4096, 4096), (8192, 8192, 8192), (4096, 14336, 4096), (8192, 1024, 1024)]
# n, c, h = w, k, r = s, stride, pad
CONV = [
    (64, 64, 56, 64, 3, 1, 1), (64, 64, 56, 64, 1, 1, 0), (64, 64, 56, 256, 1, 1, 0), (64, 256, 56, 64, 1, 1, 0),
    (64, 256, 56, 128, 1, 1, 0), (64, 128, 56, 128, 3, 2, 1), (64, 128, 28, 128, 3, 1, 1), (64, 128, 28, 512, 1, 1, 0),
    (64, 512, 28, 128, 1, 1, 0), (64, 256, 28, 256, 3, 2, 1), (64, 256, 14, 256, 3, 1, 1), (64, 256, 14, 1024, 1, 1, 0),
    (64, 1024, 14, 256, 1, 1, 0), (64, 512, 14, 512, 3, 2, 1), (64, 512, 7, 512, 3, 1, 1), (64, 512, 7, 2048, 1, 1, 0),
    (64, 2048, 7, 512, 1, 1, 0), (64, 3, 224, 64, 7, 2, 3), (256, 64, 56, 64, 3, 1, 1), (256, 256, 14, 256, 3, 1, 1),
    (8, 512, 64, 512, 3, 1, 1), (8, 320, 64, 320, 3, 1, 1), (8, 1280, 32, 1280, 3, 1, 1), (64, 67, 56, 61, 3, 1, 1),
]
ATTENTION = [(d, s) for d in (64, 128, 256) for s in (512, 1024, 2048, 4096, 8192, 16384)]
ROWS = [(8192, 1024), (8192, 4096), (4096, 16384), (65536, 512), (4095, 4097), (8192, 1000)]
MEMORY = {
    "softmax": ROWS, "layer-norm": ROWS, "rms-norm": ROWS, "row-sum": ROWS, "col-sum": ROWS, "gelu": [*ROWS, (16384, 16384)],
    "add": [*ROWS, (16384, 16384)], "transpose": [*ROWS, (16384, 16384)],
}


def normal(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.float16)


def peer_ms(run):
    return triton.testing.do_bench(run, warmup=30, rep=120, return_mode="median")


def copy_ms(moved):
    """A device copy that reads and writes `moved` bytes in all."""
    source = torch.empty(moved // 2, device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)
    return peer_ms(lambda: target.copy_(source))


class Table:
    def __init__(self, examples):
        self.examples = pathlib.Path(examples)
        self.rows = []

    def row(self, suite, shape, flop, peer, peer_time, example, *flags):
        """Without operations to count (`flop` is None) rates are of bytes, and the peer is timed by how many Tracea reports."""
        command = [str(self.examples / example), *map(str, flags), "--time", "--json"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if answer.returncode != 0:
            print(f"{suite:9} {shape:34} failed: {(answer.stderr or answer.stdout).strip()}", flush=True)
            return
        ours = json.loads(answer.stdout)
        if flop is None:
            peer_time = peer_time(ours["bytes"])
        work, unit = (ours["bytes"], "TB/s") if flop is None else (flop, "TFLOP/s")
        rate = lambda ms: work / ms / 1e9
        row = {
            "suite": suite, "shape": shape, "peer": peer, "peer_ms": peer_time, "peer_rate": rate(peer_time), "ms": ours["ms"],
            "rate": rate(ours["ms"]), "unit": unit, "ratio": peer_time / ours["ms"], "verified": ours["verified"],
            "schedule": ours["schedule"],
        }
        self.rows.append(row)
        print(
            f"{suite:9} {shape:34} {row['rate']:7.2f} {unit:7} {peer:14} {row['peer_rate']:7.2f}  {row['ratio']:5.2f} x"
            f"  {'verified' if row['verified'] else 'WRONG'}  {row['schedule']}",
            flush=True,
        )

    def means(self):
        for suite in dict.fromkeys(row["suite"] for row in self.rows):
            ratios = [row["ratio"] for row in self.rows if row["suite"] == suite]
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"{suite:9} geometric mean {mean:.2f} x, least {min(ratios):.2f} x")


def gemm(table):
    for m, n, k in GEMM:
        for name, flags, b in [("tn", ["--tb"], normal(n, k).t()), ("nn", [], normal(k, n))]:
            a = normal(m, k)
            time = peer_ms(lambda: a @ b)
            table.row("gemm", f"{name} {m} x {n} x {k}", 2 * m * n * k, "cuBLAS", time, "gemm", "--m", m, "--n", n, "--k", k, *flags)


def linear(table):
    for m, n, k in LINEAR:
        a, w, b = normal(m, k), normal(n, k), normal(n)
        for name, function in [("relu", F.relu), ("gelu", F.gelu)]:
            fused = torch.compile(lambda a, w, b: function(F.linear(a, w, b)))
            fused(a, w, b)
            time = peer_ms(lambda: fused(a, w, b))
            flags = ["--m", m, "--n", n, "--k", k, "--act", name]
            table.row("linear", f"{name} {m} x {n} x {k}", 2 * m * n * k, "torch.compile", time, "linear", *flags)


def conv2d(table):
    torch.backends.cudnn.benchmark = True
    for n, c, h, k, r, stride, pad in CONV:
        x = normal(n, c, h, h).to(memory_format=torch.channels_last)
        w = normal(k, c, r, r).to(memory_format=torch.channels_last)
        bias = normal(k)
        time = peer_ms(lambda: torch.cudnn_convolution_relu(x, w, bias, (stride, stride), (pad, pad), (1, 1), 1))
        p = (h + 2 * pad - r) // stride + 1
        flags = ["--n", n, "--c", c, "--h", h, "--w", h, "--k", k, "--rs", r, "--stride", stride, "--pad", pad, "--act", "relu"]
        table.row("conv2d", f"{n} x {c} x {h}² -> {k}, {r}²/{stride}", 2 * n * p * p * k * c * r * r, "cuDNN", time, "conv2d", *flags)


def attention(table):
    for d, s in ATTENTION:
        heads, batch = 2048 // d, 16384 // s
        q, k, v = (normal(batch, heads, s, d) for _ in range(3))
        for causal in [False, True]:
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                time = peer_ms(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal))
            flags = ["--batch", batch, "--heads", heads, "--seq", s, "--dim", d, *(["--causal"] if causal else [])]
            flop = 4 * batch * heads * s * s * d / (2 if causal else 1)
            name = f"d {d}, s {s}{', causal' if causal else ''}"
            table.row("attention", name, flop, "cuDNN", time, "attention", *flags)


def memory(table):
    for kernel, shapes in MEMORY.items():
        for rows, cols in shapes:
            flags = ["--kernel", kernel, "--rows", rows, "--cols", cols]
            table.row("memory", f"{kernel} {rows} x {cols}", None, "device copy", copy_ms, "memory", *flags)


SUITES = {"gemm": gemm, "linear": linear, "conv2d": conv2d, "attention": attention, "memory": memory}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", default=list(SUITES), metavar="SUITE")
    parser.add_argument("--examples", default="target/release/examples")
    parser.add_argument("--json", help="write the rows there, with the machine's versions")
    options = parser.parse_args()
    table = Table(options.examples)
    for suite in options.suites:
        SUITES[suite](table)
    table.means()
    if options.json:
        machine = {
            "device": torch.cuda.get_device_name(), "cuda": torch.version.cuda, "torch": torch.__version__,
            "triton": triton.__version__, "cudnn": torch.backends.cudnn.version(),
        }
        pathlib.Path(options.json).write_text(json.dumps({"machine": machine, "rows": table.rows}, indent=1))


if __name__ == "__main__":
    main()
