# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""YAML with positions: every mistake of a file is found before anything is done, and says where it is.

A Reader collects mistakes instead of stopping at the first. Values are bare decimal numbers, `true`, `false` or text,
as in the configuration of weft-switch; what YAML 1.1 would guess (`off`, `1_000`, `0x10`) is taken as text.
"""
import difflib
import re

import yaml

NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$")
_KINDS = {yaml.MappingNode: "a mapping", yaml.SequenceNode: "a list", yaml.ScalarNode: "one value"}


class Mistakes(Exception):
    """What is wrong with a file: lines of `FILE:LINE:COLUMN: text`."""

    def __init__(self, lines):
        super().__init__("\n".join(lines))
        self.lines = lines


def position(mark):
    """`FILE:LINE:COLUMN` of a mark, both counted from 1."""
    return f"{mark.name}:{mark.line + 1}:{mark.column + 1}"


class Reader:
    def __init__(self):
        self._found = []  # (file, line, column, text)

    def compose(self, path):
        """The root node of a file, or None after a mistake."""
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            self._found.append((path, 0, 0, f"cannot be read: {reason}"))
            return None
        loader = yaml.SafeLoader(text)
        loader.name = path
        try:
            return loader.get_single_node()
        except yaml.MarkedYAMLError as error:
            self.mistake(error.problem_mark or error.context_mark, error.problem or "this is no YAML")
        except yaml.YAMLError as error:
            self._found.append((path, 0, 0, str(error).splitlines()[0]))
        finally:
            loader.dispose()
        return None

    def mistake(self, where, text):
        """Notes a mistake at a node or mark."""
        mark = getattr(where, "start_mark", where)
        entry = (mark.name, mark.line + 1, mark.column + 1, text)
        if entry not in self._found:
            self._found.append(entry)

    def is_right(self):
        """Nothing was found so far."""
        return not self._found

    def finish(self):
        """Raises what was found, in the order of the file."""
        if self._found:
            raise Mistakes([f"{file}:{line}:{column}: {text}" if line else f"{file}: {text}"
                            for file, line, column, text in sorted(self._found)])

    def mapping(self, node, what, required=(), optional=()):
        """The values of a mapping by key. Unknown, repeated and missing keys are mistakes."""
        if not self.kind(node, yaml.MappingNode, what):
            return {}
        values, known = {}, [*required, *optional]
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.mistake(key, f"{what}: a key is one word")
            elif key.value in values:
                self.mistake(key, f"{what}: '{key.value}' stands twice")
            elif known and key.value not in known:
                self.mistake(key, f"{what}: unknown key '{key.value}'{_suggestion(key.value, known)}")
            else:
                values[key.value] = value
        for key in required:
            if key not in values:
                self.mistake(node, f"{what}: '{key}' is missing")
        return values

    def items(self, node, what, least=0):
        """The nodes of a list."""
        if not self.kind(node, yaml.SequenceNode, what):
            return []
        if len(node.value) < least:
            self.mistake(node, f"{what}: at least {least} of them are needed")
        return node.value

    def kind(self, node, kind, what):
        """Whether a node is what it must be; a mistake otherwise."""
        if not isinstance(node, kind):
            self.mistake(node, f"{what}: expected {_KINDS[kind]}, found {_KINDS[type(node)]}")
            return False
        return True

    def number(self, node, what, low, high, integer=True):
        """A decimal number in a range, or None after a mistake."""
        if not self.kind(node, yaml.ScalarNode, what):
            return None
        wanted = "a whole number" if integer else "a number"
        if node.style or not NUMBER.match(node.value) or (integer and not re.match(r"-?\d+$", node.value)):
            self.mistake(node, f"{what}: expected {wanted}, found '{node.value}'")
            return None
        value = int(node.value) if integer else float(node.value)
        if not low <= value <= high:
            self.mistake(node, f"{what}: {node.value} is not within {low} and {high}")
            return None
        return value

    def text(self, node, what, pattern=None, meaning=""):
        """A text that matches a pattern, or None after a mistake."""
        if not self.kind(node, yaml.ScalarNode, what):
            return None
        if pattern and not re.fullmatch(pattern, node.value):
            self.mistake(node, f"{what}: expected {meaning}, found '{node.value}'")
            return None
        return node.value

    def choice(self, node, what, choices):
        """One of some words, or None after a mistake."""
        if not self.kind(node, yaml.ScalarNode, what):
            return None
        if node.value not in choices:
            self.mistake(node, f"{what}: expected one of {', '.join(choices)}, found '{node.value}'"
                         + _suggestion(node.value, choices))
            return None
        return node.value

    def boolean(self, node, what):
        value = self.choice(node, what, ("true", "false"))
        return None if value is None else value == "true"


def _suggestion(word, known):
    close = difflib.get_close_matches(word, known, 1)
    return f"; did you mean '{close[0]}'?" if close else ""
