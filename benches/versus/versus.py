"""Tracea's examples beside PyTorch on one GPU: each shape is timed by both in turn, and the ratio is what counts.

    python3 benches/versus/versus.py [--examples FOLDER] [--runs N] [--held-out | --drawn SEED] [--json FILE] [--plot FILE] [SUITE ...]

FOLDER holds the release examples (`target/release/examples`, or `examples` in a bundle). A ratio over 1 means that Tracea is faster. Inputs
are normal random numbers; every row of Tracea's is verified against the same kernel in f64.

suite       shapes                                                     peer
gemm        f16 products                                               cuBLAS through `@`
gemm-bf16   bf16 products                                              the same
gemm-tf32   f32 products on tensor cores                               the same, with tf32 allowed
thin        f16 products of 72 to 300 rows by large weights            the same
transposed  f16 products in all four transpositions                    the same
uneven      f16 products with sizes that are multiples of 8, not of 64 the same
ragged      f16 products with rows that TMA cannot fetch               the same
linear      product with bias, activation, residual                    torch.compile
swiglu      two products, one gates the other                          torch.compile of one concatenated product
conv2d      convolution, bias, ReLU                                    cuDNN's fused kernel
attention   forward, causal or not                                     cuDNN's attention
few-heads   forward, fewer tiles of queries than multiprocessors       cuDNN's attention, and FlashAttention-2
memory      kernels without a product                                  a device copy that reads and writes as many bytes in all
portfolio   the products of gemm                                       the best of all schedules (not run unless asked for)

Of drawn shapes there are the suites gemm, gemm-bf16, linear, swiglu and portfolio.
"""

import argparse
import importlib.util
import json
import pathlib
import subprocess
import sys

import suites
from comparison import Comparison
from peers import machine
from shapes import HELD_OUT, MAIN, drawn

SUITES = {
    "gemm": suites.gemm, "gemm-bf16": suites.gemm_bf16, "gemm-tf32": suites.gemm_tf32, "thin": suites.thin,
    "transposed": suites.transposed, "uneven": suites.uneven, "ragged": suites.ragged, "linear": suites.linear, "swiglu": suites.swiglu, "conv2d": suites.conv2d,
    "attention": suites.attention, "few-heads": suites.few_heads, "memory": suites.memory, "portfolio": suites.portfolio,
}
DEFAULT = [suite for suite in SUITES if suite != "portfolio"]
OF_DRAWN = ["gemm", "gemm-bf16", "linear", "swiglu"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="all but portfolio by default")
    parser.add_argument("--examples", type=pathlib.Path, default="target/release/examples", metavar="FOLDER")
    runs = "time both N times in turn, at least three times what takes a millisecond; the median of the ratios counts"
    parser.add_argument("--runs", type=int, default=1, metavar="N", help=runs)
    others = parser.add_mutually_exclusive_group()
    others.add_argument("--held-out", action="store_true", help="other shapes than those that are tuned for")
    others.add_argument("--drawn", type=int, metavar="SEED", help="products of sizes that a generator draws from this seed")
    parser.add_argument("--max-autotune", action="store_true", help="let torch.compile tune its kernels (slow)")
    parser.add_argument("--commit", help="of the examples; by default what the bundle says, or git")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the rows there, with commit and versions")
    parser.add_argument("--plot", metavar="FILE", help="draw bars and a roofline there, with matplotlib")
    options = parser.parse_args()
    unknown = [suite for suite in options.suites if suite not in SUITES]
    if unknown:
        parser.error(f"no suite {', '.join(unknown)} -- there are {', '.join(SUITES)}")
    if options.drawn is not None:
        options.suites = options.suites or OF_DRAWN
        missing = [suite for suite in options.suites if suite not in [*OF_DRAWN, "portfolio"]]
        if missing:
            parser.error(f"no drawn shapes for {', '.join(missing)} -- there are {', '.join(OF_DRAWN)} and portfolio")
    if options.runs < 1:
        parser.error("--runs takes 1 or more")
    if not options.examples.is_dir():
        parser.error(f"no folder {options.examples} -- build it: cargo build --release --examples")
    if options.plot and importlib.util.find_spec("matplotlib") is None:
        parser.error("--plot needs matplotlib -- install it, or write --json here and draw where it is: plot.py FILE.json PLOT")
    return options


def commit_of(examples):
    """A bundle says which commit it was made of; elsewhere the examples are taken to be the working tree's."""
    bundled = examples.resolve().parent / "commit"
    if bundled.exists():
        return bundled.read_text().strip()
    describe = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(describe, capture_output=True, text=True, check=True, cwd=pathlib.Path(__file__).parent).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def main():
    options = arguments()
    comparison = Comparison(options.examples, options.runs, options.max_autotune)
    results = {
        "commit": options.commit or commit_of(options.examples), "machine": machine(), "runs": options.runs,
        "held_out": options.held_out, "drawn": options.drawn, "max_autotune": options.max_autotune, "rows": comparison.rows,
    }
    shapes = drawn(options.drawn) if options.drawn is not None else HELD_OUT if options.held_out else MAIN
    for suite in options.suites or DEFAULT:
        SUITES[suite](comparison, shapes)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1))
    comparison.means()
    if options.plot:
        from plot import draw

        draw(results, options.plot)
    sys.exit(1 if comparison.failures() else 0)


if __name__ == "__main__":
    main()
