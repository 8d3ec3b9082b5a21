"""The suites: a function each, which compares shape by shape.

The two letters of a product say how B and A lie in memory, as cuBLAS has them, columns first: `tn` is A · Bᵀ with B given as (n, k), `nn` A · B.
"""

import math

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from peers import compiled, normal

LETTERS = {"tn": (False, True), "nn": (False, False), "nt": (True, False), "tt": (True, True)}


def product_flags(m, n, k, *more):
    return ["--m", m, "--n", n, "--k", k, *more]


def transposition_flags(letters):
    ta, tb = LETTERS[letters]
    return [*(["--ta"] if ta else []), *(["--tb"] if tb else [])]


def product(comparison, suite, letters, shape, name="f16", dtype=torch.float16):
    m, n, k = shape
    ta, tb = LETTERS[letters]
    a = normal(k, m, dtype=dtype).t() if ta else normal(m, k, dtype=dtype)
    b = normal(n, k, dtype=dtype).t() if tb else normal(k, n, dtype=dtype)
    flags = product_flags(m, n, k, "--dtype", name, *transposition_flags(letters))
    comparison.compare(suite, f"{letters} {m} x {n} x {k}", "gemm", flags, "cuBLAS", lambda: a @ b)


def gemm(comparison, shapes):
    for shape in shapes.gemm:
        for letters in ("tn", "nn"):
            product(comparison, "gemm", letters, shape)


def thin(comparison, shapes):
    for shape in shapes.thin:
        for letters in ("tn", "nn"):
            product(comparison, "thin", letters, shape)


def gemm_bf16(comparison, shapes):
    for shape in shapes.gemm:
        product(comparison, "gemm-bf16", "tn", shape, "bf16", torch.bfloat16)


def gemm_tf32(comparison, shapes):
    torch.backends.cuda.matmul.allow_tf32 = True
    for shape in shapes.gemm_tf32:
        for letters in ("tn", "nn"):
            product(comparison, "gemm-tf32", letters, shape, "tf32", torch.float32)


def transposed(comparison, shapes):
    for shape in shapes.transposed:
        for letters in LETTERS:
            product(comparison, "transposed", letters, shape)


def uneven(comparison, shapes):
    for shape in shapes.uneven:
        for letters in ("tn", "nn"):
            product(comparison, "uneven", letters, shape)


def ragged(comparison, shapes):
    for shape in shapes.ragged:
        for letters in ("tn", "nn"):
            product(comparison, "ragged", letters, shape)


def linear(comparison, shapes):
    epilogues = {
        "bias_relu": ("linear", ["--act", "relu"], lambda x, w, b, r: F.relu(F.linear(x, w, b))),
        "bias_gelu": ("linear", ["--act", "gelu"], lambda x, w, b, r: F.gelu(F.linear(x, w, b))),
        "bias_silu_res": ("linear", ["--act", "silu", "--residual"], lambda x, w, b, r: F.silu(F.linear(x, w, b)) + r),
        "leaky_relu": ("gemm", ["--act", "leaky_relu", "--tb"], lambda x, w, b, r: F.leaky_relu(F.linear(x, w), 0.01)),
    }
    for m, n, k in shapes.linear:
        x, w, b, r = normal(m, k), normal(n, k), normal(n), normal(m, n)
        for name, (example, flags, function) in epilogues.items():
            fused = compiled(function, comparison.max_autotune)
            flags = product_flags(m, n, k, *flags)
            comparison.compare("linear", f"{name} {m} x {n} x {k}", example, flags, "torch.compile", lambda: fused(x, w, b, r))


def swiglu(comparison, shapes):
    def gated(x, gate_and_up):
        gate, up = F.linear(x, gate_and_up).chunk(2, dim=-1)
        return F.silu(gate) * up

    for m, n, k in shapes.swiglu:
        x, gate_and_up = normal(m, k), normal(2 * n, k) / math.sqrt(k)
        fused = compiled(gated, comparison.max_autotune)
        name = f"{m} x {n} x {k}"
        comparison.compare("swiglu", name, "swiglu", product_flags(m, n, k), "torch.compile", lambda: fused(x, gate_and_up))


def conv2d(comparison, shapes):
    torch.backends.cudnn.benchmark = True
    for n, c, h, k, r, stride, pad in shapes.conv2d:
        x = normal(n, c, h, h).to(memory_format=torch.channels_last)
        w = normal(k, c, r, r).to(memory_format=torch.channels_last)
        bias = normal(k)
        run = lambda: torch.cudnn_convolution_relu(x, w, bias, (stride, stride), (pad, pad), (1, 1), 1)
        flags = ["--n", n, "--c", c, "--h", h, "--w", h, "--k", k, "--rs", r, "--stride", stride, "--pad", pad, "--act", "relu"]
        comparison.compare("conv2d", f"{n} x {c} x {h}² -> {k}, {r}²/{stride}", "conv2d", flags, "cuDNN", run)


def attention(comparison, shapes):
    for d, s in shapes.attention:
        heads, batch = 2048 // d, 16384 // s
        q, k, v = (normal(batch, heads, s, d) for _ in range(3))
        for causal in (False, True):
            flags = ["--batch", batch, "--heads", heads, "--seq", s, "--dim", d, *(["--causal"] if causal else [])]
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                run = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal)
                comparison.compare("attention", f"d {d}, s {s}{', causal' if causal else ''}", "attention", flags, "cuDNN", run)


def few_heads(comparison, shapes):
    peers = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FlashAttention-2": SDPBackend.FLASH_ATTENTION}
    for d, heads, s, t in shapes.few_heads:
        q, k, v = (normal(1, heads, rows, d) for rows in (s, t, t))
        flags = ["--batch", 1, "--heads", heads, "--seq", s, "--kv-seq", t, "--dim", d]
        for name, backend in peers.items():
            with sdpa_kernel(backend):
                run = lambda: F.scaled_dot_product_attention(q, k, v)
                comparison.compare("few-heads", f"d {d}, {heads} heads, {s} queries, {t} keys", "attention", flags, name, run)


def memory(comparison, shapes):
    kernels = {
        "softmax": shapes.rows, "layer-norm": shapes.rows, "rms-norm": shapes.rows, "row-sum": shapes.rows, "col-sum": shapes.rows,
        "gelu": shapes.elements, "add": shapes.elements, "transpose": shapes.elements,
    }
    for kernel, sizes in kernels.items():
        for rows, cols in sizes:
            flags = ["--kernel", kernel, "--rows", rows, "--cols", cols]
            comparison.compare_with_copy("memory", f"{kernel} {rows} x {cols}", "memory", flags)


def portfolio(comparison, shapes):
    for m, n, k in shapes.gemm:
        for letters in ("tn", "nn"):
            flags = product_flags(m, n, k, *transposition_flags(letters))
            comparison.compare_schedules("portfolio", f"{letters} {m} x {n} x {k}", "gemm", flags)
