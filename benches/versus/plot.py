"""Draws what versus.py measured: ratios as bars by shape, rates under the roofs of memory and tensor cores.

    python3 benches/versus/plot.py ROWS.json PLOT

needs matplotlib and no GPU. The file's ending says which format.
"""

import json
import pathlib
import sys

# Dense products of f16, in TFLOP/s, by the datasheets.
PEAK_TFLOPS = {"A100": 312.0, "H100": 989.4, "H200": 989.4}


def draw(results, file):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [row for row in results["rows"] if "error" not in row]
    figure, (bars, roof) = plt.subplots(1, 2, figsize=(20, max(8, 0.2 * len(rows))), width_ratios=(1, 1), layout="constrained")
    machine = results["machine"]
    figure.suptitle(f"{machine['device']}, CUDA {machine['cuda']}, PyTorch {machine['torch']}, commit {results['commit']}")
    draw_bars(bars, rows)
    draw_roofline(roof, [row for row in rows if row["flops"] and "portfolio" not in row], machine)
    figure.savefig(file, dpi=120)


def draw_bars(axes, rows):
    colours = dict(zip(dict.fromkeys(row["suite"] for row in rows), [f"C{index}" for index in range(10)] * 2))
    names = [f"{row['suite']}: {row['shape']} ({row['peer']})" for row in rows]
    axes.barh(range(len(rows)), [row["ratio"] - 1 for row in rows], left=1, color=[colours[row["suite"]] for row in rows])
    axes.set_yticks(range(len(rows)), names, fontsize=7)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda ratio, _: f"{ratio:g} ×")
    axes.set_xlabel("speed of Tracea over its peer's")


def draw_roofline(axes, rows, machine):
    axes.set_box_aspect(0.75)
    axes.set_anchor("N")
    intensities = [row["flops"] / row["bytes"] for row in rows]
    bandwidth = machine["copy_bytes_per_s"] * 1e-12
    peak = next((peak for name, peak in PEAK_TFLOPS.items() if name in machine["device"]), None)
    if intensities:
        ends = [min(intensities) / 2, max(intensities) * 2]
        ridge = [peak / bandwidth] if peak and ends[0] < peak / bandwidth < ends[1] else []
        roof = [ends[0], *ridge, ends[1]]
        heights = [min(bandwidth * intensity, peak or float("inf")) for intensity in roof]
        axes.plot(roof, heights, color="black", label=f"{bandwidth:.2f} TB/s copied" + (f", {peak:g} TFLOP/s f16" if peak else ""))
    for label, key, marker in (("Tracea", "rate", "o"), ("peer", "peer_rate", "x")):
        axes.scatter(intensities, [row[key] for row in rows], marker=marker, s=18, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("operations a byte, everything moved once")
    axes.set_ylabel("TFLOP/s")
    axes.legend()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    draw(json.loads(pathlib.Path(sys.argv[1]).read_text()), sys.argv[2])
