# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Figures of the micro benchmarks, and how those of two builds compare. No processes, clocks or files."""

import json
import re
import statistics

_NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?![\w.])")


def of_google(text):
    """{name: nanoseconds} from what Google Benchmark prints as JSON."""
    return {b["name"]: b["cpu_time"] for b in json.loads(text)["benchmarks"] if b.get("run_type") != "aggregate"}


def of_text(text):
    """{name: value} from lines of text. Figures are the numbers with a decimal point: all costs have one, counts and
    sizes have none. A name is the line's beginning and the words before the figure; equal names are numbered."""
    found = {}
    for line in text.splitlines():
        matches = list(_NUMBER.finditer(line))
        if not matches:
            continue
        head = " ".join(line[:matches[0].start()].split())
        at = 0
        for match in matches:
            before = " ".join(line[at:match.start()].split()).strip("(),;")
            at = match.end()
            name = head if match is matches[0] else f"{head} | {before}"
            base, number = name, 2
            while name in found:
                name, number = f"{base} #{number}", number + 1
            found[name] = float(match.group())
    return found


def _quartiles(values):
    if len(values) < 4:
        return min(values), max(values)
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def compare(old, new, least=0.005):
    """Rows of the figures that both builds have, in the order of the new one.

    old, new  a {name: value} for each round, in the order of the rounds
    least     the middle half of the ratios must be farther from 1 than this to say anything
    """
    rows = []
    for name in new[0]:
        pairs = [(a[name], b[name]) for a, b in zip(old, new) if a.get(name, 0) > 0 and name in b]
        if not pairs:
            continue
        ratios = [b / a for a, b in pairs]
        low, high = _quartiles(ratios)
        verdict = "slower" if low > 1 + least else "faster" if high < 1 - least else ""
        rows.append({"name": name, "old": statistics.median(a for a, _ in pairs),
                     "new": statistics.median(b for _, b in pairs), "ratio": statistics.median(ratios),
                     "low": low, "high": high, "verdict": verdict, "rounds": len(pairs)})
    return rows


def only_in_one(old, new):
    """Names of figures that one of both builds does not have."""
    return sorted(set(old[0]) ^ set(new[0]))


def table(rows):
    """Lines of text. A name keeps its end, where figures of one line differ."""
    width = min(70, max((len(row["name"]) for row in rows), default=0))
    lines = [f"{'':<{width}} {'old':>9} {'new':>9} {'ratio':>7}  middle half"]
    for row in rows:
        name = row["name"] if len(row["name"]) <= width else "..." + row["name"][3 - width:]
        lines.append(f"{name:<{width}} {row['old']:>9.2f} {row['new']:>9.2f} {row['ratio']:>7.3f}  "
                     f"{row['low']:.3f} to {row['high']:.3f}  {row['verdict']}".rstrip())
    return lines
