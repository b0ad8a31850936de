#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Makes a page with a plot of every table in tables.md, beyond.md, emulation.md and emulation_guests.md, a section for
each file: EPIC's numbers dashed, and weft's beside them.

Usage: report.py [--out FILE] [FILE...]
  --out FILE  the page (build/bench/epic.html)
  FILE...     other tables than those of these four, as far as they have been written"""
import argparse
import dataclasses
import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT))

from bench.report import charts, page  # noqa: E402

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
PLACE = re.compile(r"(?:away )?([\d.]+)([KMG]?)(?: %| us| Gbit/s| packets)?$")  # of a column on the horizontal axis
VALUE = re.compile(r"([\d.]+(?:e[+-]?\d+)?)(?: \(([\d.]+) to ([\d.]+)\))?$")
REFERENCE = "F.4, "  # columns of a formula, at the places of other columns
FILES = ("tables.md", "beyond.md", "emulation.md", "emulation_guests.md")  # where they are written
# Columns that say more of what was run.
NO_RESULTS = ("ranks", "packets of 1", "packets of the AllReduce", "ranks' timeout, us", "the switch's, us")
# The horizontal axis of a table by its title; the vertical one is what stands behind the title's last comma.
AXES = (("by bytes of the vector", "bytes of the vector"), ("half of one link", "bytes of the vector"),
        ("on so many links", "links that lose 5 %"), ("by window", "window, relative to 2 (2H - 2) L B"),
        ("is down for a while", "us away"), ("slower link", "Gbit/s of that link"),
        ("has under way", "packets that the other flow has under way"), ("los", "loss, %"))


@dataclasses.dataclass
class Table:
    """A section of a file."""

    title: str
    words: list
    head: list
    rows: list


def read(text):
    """The sections of a file. Raises ValueError for one whose rows do not fit its head."""
    tables = []
    for part in re.split(r"(?m)^## ", text)[1:]:
        lines = part.strip().splitlines()
        cells = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines if line[:1] == "|"]
        words = [line for line in lines[1:] if line and line[:1] != "|"]
        if len(cells) < 3:
            raise ValueError(f"{lines[0]}: no table")
        head, rows = cells[0], cells[2:]
        for row in rows:
            if len(row) != len(head):
                raise ValueError(f"{lines[0]}: a row of {len(row)} cells under {len(head)}: {row}")
        tables.append(Table(lines[0], words, head, rows))
    return tables


def place(text):
    """Where a column is on the horizontal axis; None: it is no number."""
    if text == "no loss":
        return 0.0
    found = PLACE.match(text)
    return float(found[1]) * UNITS[found[2]] if found else None


def value(text):
    """(value, low, high) of a cell; None: it has no number."""
    found = VALUE.match(text)
    if not found:
        return None
    return float(found[1]), *(float(x) if x else None for x in found.groups()[1:])


def lines_of(table):
    """A curve per row, and one per row for columns of a formula; [] when the columns are no places on an axis."""
    labels = 0
    while labels < len(table.head) and place(table.head[labels].removeprefix(REFERENCE)) is None:
        labels += 1
    names, columns = [n for n in range(labels) if table.head[n] not in NO_RESULTS], table.head[labels:]
    if len(columns) < 3 or any(place(c.removeprefix(REFERENCE)) is None for c in columns):
        return []
    lines = []
    for row in table.rows:
        name = " ".join(row[n] for n in names if row[n])
        if name == "difference":
            continue
        for prefix in ("", REFERENCE):
            points = [(place(c.removeprefix(REFERENCE)), value(cell)) for c, cell in zip(columns, row[labels:])
                      if c.startswith(REFERENCE) == bool(prefix)]
            points = [(x, v[0]) for x, v in points if v]
            if points:
                paper = bool(prefix) or "EPIC" in name
                lines.append(charts.Line(prefix + name, points, dots=not paper, dashed=paper))
    return lines


def bars_of(table):
    """A row of bars per row, and the names of the bars."""
    known = [n for n in range(len(table.head)) if table.head[n] not in NO_RESULTS]
    numeric = [n for n in known[1:] if any(value(row[n]) for row in table.rows)]
    words = [n for n in known if n not in numeric]
    rows = []
    for row in table.rows:
        bars = [charts.Bar(*v) if (v := value(row[n])) else None for n in numeric]
        rows.append(charts.Row(" ".join(row[n] for n in words if row[n]), bars))
    return rows, [table.head[n] for n in numeric]


def plot(table):
    lines = lines_of(table)
    unit = re.split(r", | by ", table.title.split(" by ")[0])[-1]
    if lines:
        x = next((axis for key, axis in AXES if key in table.title or key in table.title.lower()), "")
        log = x.startswith("bytes")
        return charts.line_chart(lines, x, unit, x_log=log, y_from_zero=True, label=table.title)
    rows, series = bars_of(table)
    return charts.bar_chart(rows, unit, series=series, label=table.title)


def report(texts):
    """The page, of the texts of the files."""
    out = page.Page("EPIC by weft")
    out.paragraph("Dashed: EPIC's numbers, or a formula of it. A curve ends where ranks give up. bench/papers/epic/"
                  "README.md says what differs and why.")
    for text in texts:
        if title := re.search(r"(?m)^# (.*)", text):
            out.section(title[1])
            for words in text[title.end():].split("\n## ")[0].strip().split("\n\n"):
                out.paragraph(words)
        for table in read(text):
            out.heading(table.title)
            for words in table.words:
                out.paragraph(words)
            out.figure(plot(table))
            out.table(table.head, table.rows)
    return out.html()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=str(ROOT / "build/bench/epic.html"))
    parser.add_argument("file", nargs="*")
    options = parser.parse_args()
    files = options.file or [file for file in map(HERE.joinpath, FILES) if file.exists()]
    try:
        html = report([pathlib.Path(file).read_text(encoding="utf-8") for file in files])
        os.makedirs(os.path.dirname(os.path.abspath(options.out)), exist_ok=True)
        pathlib.Path(options.out).write_text(html, encoding="utf-8")
    except (OSError, ValueError) as error:
        sys.exit(f"report.py: {error}")


if __name__ == "__main__":
    main()
