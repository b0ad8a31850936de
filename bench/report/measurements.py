# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The measurements of bench/results as one Markdown page. Each JSON file there is an experiment:

title, how (the command that measures it), what (what a number means, and the targets), measurements (a list of runs:
date, commit, machine, conditions, columns, rows), notes (a list of sentences). null in a row is a number that was not
measured."""

import json
import pathlib

KEYS = ("title", "how", "what", "measurements", "notes")
RUN_KEYS = ("date", "commit", "machine", "conditions", "columns", "rows")

_HEAD = """# bench/results

What was measured, when, on what, and with which commit: one JSON file for each experiment. This page is made from them
by `bench/report/results`; change the files, not the page. Trust ratios more than rates: they carry over to other
machines.
"""


def load(folder):
    """Experiments by file name. Raises ValueError, naming file and key, when one is not as described above."""
    experiments = {}
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        experiment = json.loads(path.read_text(encoding="utf-8"))
        _expect(experiment, KEYS, path.name)
        for number, run in enumerate(experiment["measurements"], start=1):
            where = f"{path.name}, measurement {number}"
            _expect(run, RUN_KEYS, where)
            for row in run["rows"]:
                if len(row) != len(run["columns"]):
                    raise ValueError(f"{where}: a row of {len(row)} cells under {len(run['columns'])} columns: {row}")
        experiments[path.stem] = experiment
    return experiments


def _expect(found, keys, where):
    missing = [key for key in keys if key not in found]
    unknown = [key for key in found if key not in keys]
    if missing or unknown:
        raise ValueError(f"{where}: missing {missing}, unknown {unknown}")


def page(experiments):
    """The page as Markdown text."""
    parts = [_HEAD]
    for name, experiment in experiments.items():
        parts.append(f"## {experiment['title']}\n\n`{experiment['how']}`, `{name}.json`. {experiment['what']}\n")
        parts += [_run(run) for run in experiment["measurements"]]
        if experiment["notes"]:
            parts.append("".join(f"- {note}\n" for note in experiment["notes"]))
    return "\n".join(parts)


def _run(run):
    lines = [f"{run['date']}, {run['commit']}, {run['machine']}; {run['conditions']}:", ""]
    lines.append(_row(run["columns"]))
    lines.append("|" + "---|" * len(run["columns"]))
    lines += [_row(["" if cell is None else cell for cell in row]) for row in run["rows"]]
    return "\n".join(lines) + "\n"


def _row(cells):
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
