"""What was measured, as a table for people and as JSON for programs.

It does not know what the figures mean beyond the unit that each name ends in. Invariant: a figure
in the table is the median of its runs; the JSON has every run.
"""

from __future__ import annotations

import datetime as dt
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# A figure's name ends in one of these; how it is shown, and with how many decimals.
UNITS = {
    "_per_s": ("/s", 0),
    "_bytes": ("B", 0),
    "_cores": ("cores", 2),
    "_messages": ("", 0),
    "_percent": ("%", 1),
    "_times": ("", 0),
    "_mb": ("MB", 1),
    "_kb": ("KB", 1),
    "_ms": ("ms", 3),
    "_ns": ("ns", 0),
    "_s": ("s", 2),
}

# All runs of one broker: the figures of each, by workload.
Runs = Mapping[str, Sequence[Mapping[str, float]]]


def title_and_unit(name: str) -> tuple[str, str, int]:
    """Split a figure's name: what it is, its unit, decimals to show."""
    for suffix, (unit, decimals) in UNITS.items():
        if name.endswith(suffix):
            return name.removesuffix(suffix).replace("_", " "), unit, decimals
    raise ValueError(f"a figure whose name says no unit: {name}")


def medians(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each figure; a figure that a run lacks is taken from those that have it."""
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: statistics.median(run[name] for run in runs if name in run) for name in names}


def spread(runs: Sequence[Mapping[str, float]], name: str) -> float:
    """How far the runs lie apart, as a share of their median."""
    values = [run[name] for run in runs if name in run]
    middle = statistics.median(values)
    return (max(values) - min(values)) / middle if middle else 0.0


def table(brokers: Mapping[str, Runs]) -> str:
    """One line per figure; brokers side by side, the first one compared with the second."""
    columns = list(brokers)
    head = ["workload", "figure", ""]
    for name in columns:
        head += [name, "spread"]
    if len(columns) > 1:
        head.append("times")
    lines = [head]
    for workload, own_runs in brokers[columns[0]].items():
        label = workload
        for figure in medians(own_runs):
            lines.append([label, *_cells(brokers, workload, figure)])
            label = ""
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    texts = []
    for line in lines:
        cells = [
            cell.ljust(width) if at < 3 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        texts.append("  ".join(cells).rstrip())
    texts.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(texts)


def _cells(brokers: Mapping[str, Runs], workload: str, figure: str) -> list[str]:
    title, unit, decimals = title_and_unit(figure)
    cells = [title, unit]
    values = []
    for runs in brokers.values():
        found = [run for run in runs.get(workload, ()) if figure in run]
        if found:
            values.append(medians(found)[figure])
            cells += [f"{values[-1]:,.{decimals}f}", f"{spread(found, figure):.0%}"]
        else:
            cells += ["–", ""]
    if len(brokers) > 1:
        both = len(values) == len(brokers) and values[1]
        cells.append(f"{values[0] / values[1]:.1f}" if both else "–")
    return cells


def machine() -> dict[str, Any]:
    """What a figure needs beside it to mean anything."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def as_json(
    brokers: Mapping[str, Runs], plan: Mapping[str, Any], busy: Sequence[float]
) -> dict[str, Any]:
    """Everything: machine, plan, medians, runs, and how busy the machine was before each."""
    return {
        "machine": machine(),
        "plan": dict(plan),
        "busy_before": [round(share, 3) for share in busy],
        "medians": {
            name: {workload: medians(one) for workload, one in runs.items()}
            for name, runs in brokers.items()
        },
        "runs": {
            name: {workload: [dict(run) for run in one] for workload, one in runs.items()}
            for name, runs in brokers.items()
        },
    }
