"""Rows: an example of Tracea's and its peer, timed in turn."""

import json
import math
import statistics
import subprocess

import peers

TIMEOUT_S = 300
# At least, of what takes long: power lets clocks settle anew each time. On an H100, 8192³ (f16, `tn`) by one schedule took 1438, 1440 and 1564 µs, and
# 1631 to 1648 in five other runs.
LONG_RUNS = 3


class ExampleFailed(Exception):
    pass


class Comparison:
    def __init__(self, examples, runs, max_autotune):
        self.examples = examples
        self.runs = runs
        self.max_autotune = max_autotune
        self.rows = []

    def compare(self, suite, shape, example, flags, peer, run):
        """Beside `run`, which gives PyTorch something to do."""
        self._compare(suite, shape, example, flags, peer, lambda report: run)

    def compare_with_copy(self, suite, shape, example, flags):
        """Beside a device copy of as many bytes as the example moves."""
        self._compare(suite, shape, example, flags, "device copy", lambda report: peers.copy(report["bytes"]))

    def compare_schedules(self, suite, shape, example, flags):
        """The chosen schedule beside the fastest of all that there are."""
        try:
            reports = [self._report(example, [*flags, "--portfolio", "--verify", "off"]) for _ in range(self.runs)]
        except ExampleFailed as failure:
            self._fail(suite, shape, failure)
            return
        chosen = reports[0]["schedule"]
        tried = {}
        for report in reports:
            for schedule in report["portfolio"]:
                tried.setdefault(schedule["schedule"], []).append(schedule["ms"])
        medians = {schedule: statistics.median(times) for schedule, times in tried.items()}
        best = min(medians, key=medians.get)
        ratios = [best_ms / ms for best_ms, ms in zip(tried[best], tried[chosen])]
        row = self._row(suite, shape, reports[0], medians[chosen], f"best of {len(tried)}", medians[best], ratios)
        predicted = {schedule["schedule"]: schedule["predicted_ms"] for schedule in reports[0]["portfolio"]}
        row |= {"best": best, "portfolio": medians, "predicted": predicted}
        self._add(row, chosen if best == chosen else f"{chosen} -- best: {best}")

    def means(self):
        for suite in dict.fromkeys(row["suite"] for row in self.rows):
            ratios = [row["ratio"] for row in self.rows if row["suite"] == suite and "error" not in row]
            if ratios:
                mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
                print(f"{suite:10} geometric mean {mean:.3f} x, least {min(ratios):.3f} x, {len(ratios)} rows")

    def failures(self):
        return [row for row in self.rows if "error" in row or row["verified"] is False]

    def _compare(self, suite, shape, example, flags, peer, prepare):
        times, peer_times, run, first = [], [], None, None
        try:
            while len(times) < self._runs(times):
                report = self._report(example, [*flags, "--time", *(["--verify", "off"] if first else [])])
                first = first or report
                run = run or prepare(report)
                times.append(report["ms"])
                peer_times.append(peers.milliseconds(run, report["ms"]))
        except (ExampleFailed, RuntimeError) as failure:  # PyTorch's errors are RuntimeErrors.
            self._fail(suite, shape, failure)
            return
        ratios = [peer_ms / ms for peer_ms, ms in zip(peer_times, times)]
        row = self._row(suite, shape, first, statistics.median(times), peer, statistics.median(peer_times), ratios)
        self._add(row, f"{'verified' if row['verified'] else 'WRONG'}  {row['schedule']}")

    def _runs(self, times):
        is_long = any(ms >= peers.LONG_MS for ms in times)
        return max(self.runs, LONG_RUNS) if is_long else self.runs

    def _report(self, example, flags):
        command = [str(self.examples / example), *map(str, flags), "--json"]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired as late:
            raise ExampleFailed(f"not done after {TIMEOUT_S} s") from late
        # A wrong result is reported like a right one; everything else is an error.
        if answer.returncode not in (0, 1) or not answer.stdout:
            raise ExampleFailed((answer.stderr or answer.stdout).strip() or f"exit status {answer.returncode}")
        return json.loads(answer.stdout)

    def _row(self, suite, shape, report, ms, peer, peer_ms, ratios):
        """Rates are of operations, or of bytes where the example counts none."""
        work, unit = (report["flops"], "TFLOP/s") if report["flops"] else (report["bytes"], "TB/s")
        return {
            "suite": suite, "shape": shape, "kernel": report["kernel"], "dtype": report["dtype"], "flops": report["flops"],
            "bytes": report["bytes"], "ms": ms, "rate": work / ms / 1e9, "unit": unit, "peer": peer, "peer_ms": peer_ms,
            "peer_rate": work / peer_ms / 1e9, "ratio": statistics.median(ratios), "ratios": ratios, "verified": report["verified"],
            "max_error": report["max_error"], "bound": report["bound"], "schedule": report["schedule"],
        }

    def _add(self, row, remark):
        self.rows.append(row)
        print(
            f"{row['suite']:10} {row['shape']:36} {row['rate']:7.2f} {row['unit']:7}  {row['peer']:14} {row['peer_rate']:7.2f}"
            f"  {row['ratio']:6.3f} x  {remark}",
            flush=True,
        )

    def _fail(self, suite, shape, failure):
        self.rows.append({"suite": suite, "shape": shape, "error": str(failure)})
        print(f"{suite:10} {shape:36} failed: {failure}", flush=True)
