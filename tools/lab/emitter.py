# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Writes a configuration of weft-switch out of Python values and nodes of YAML files, one key to a line, and remembers
which line came from where: what weft-switch says about the configuration is then said of the file that a person wrote.
"""
import json
import re

import yaml

from tools.lab import reader

_DIAGNOSTIC = re.compile(r"(?P<file>.*?):(?P<line>\d+):(?P<column>\d+): (?P<text>.*)")


class Fields(dict):
    """A mapping of a file by key, with the marks of its keys. A copy may get other values, made here or nodes."""

    def __init__(self, node):
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        pairs = [(key, value) for key, value in pairs if isinstance(key, yaml.ScalarNode)]
        super().__init__((key.value, value) for key, value in pairs)
        self.mark = node.start_mark if node is not None else None
        self.key_marks = {key.value: key.start_mark for key, _ in pairs}


class Emitter:
    """The text of a document, and where each of its lines came from."""

    def __init__(self, document):
        self._lines = []
        self._origins = []  # of each line: mark of its key, column where its value begins, mark of the value
        self._emit(document, "", "", None, "")
        self.text = "\n".join(self._lines) + "\n"

    def _line(self, head, text, key_mark, mark):
        self._lines.append(head + text)
        self._origins.append((key_mark, len(head), mark))

    def _emit(self, value, indent, prefix, key_mark, end):
        mark = value.start_mark if isinstance(value, yaml.Node) else getattr(value, "mark", None) or key_mark
        head, entries = indent + prefix, _entries(value)
        if entries is None:
            self._line(head, _scalar(value) + end, key_mark, mark)
            return
        opening, closing = "[]" if isinstance(value, (list, yaml.SequenceNode)) else "{}"
        if not entries:
            self._line(head, opening + closing + end, key_mark, mark)
            return
        self._line(head, opening, key_mark, mark)
        for number, (key, item, item_mark) in enumerate(entries):
            key_text = "" if key is None else json.dumps(key) + ": "
            self._emit(item, indent + " ", key_text, item_mark or mark, "," if number + 1 < len(entries) else "")
        self._line(indent, closing + end, mark, mark)

    def translate(self, messages):
        """What weft-switch --check said, at the places of the original files: (mark or None, text)."""
        found = []
        for line in messages.splitlines():
            match = _DIAGNOSTIC.match(line)
            if match:
                key_mark, value_column, mark = self._origins[int(match["line"]) - 1]
                found.append((mark if int(match["column"]) > value_column else key_mark, match["text"]))
        return found


def _entries(value):
    """(key or None, value, mark or None) of what a collection holds; None for a scalar."""
    if isinstance(value, dict):
        marks = getattr(value, "key_marks", {})
        return [(key, item, marks.get(key)) for key, item in value.items()]
    if isinstance(value, list):
        return [(None, item, None) for item in value]
    if isinstance(value, yaml.MappingNode):
        return [(key.value, item, key.start_mark) for key, item in value.value]
    if isinstance(value, yaml.SequenceNode):
        return [(None, item, None) for item in value.value]
    return None


def _scalar(value):
    if not isinstance(value, yaml.ScalarNode):
        return json.dumps(value)
    plain = not value.style and (value.value in ("true", "false") or reader.NUMBER.match(value.value))
    return value.value if plain else json.dumps(value.value)
