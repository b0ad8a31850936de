# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The files of a source tree, as the rules see them."""

import functools
import os
import pathlib
import re

SOURCE_SUFFIXES = {".h", ".cc", ".c", ".py", ".sh", ".bash", ".proto", ".def", ".cmake"}

# Strings, characters (not the ' of 1'000) and comments of C++.
_LITERAL = re.compile(
    r"""R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'|//[^\n]*|/\*.*?\*/""", re.DOTALL
)


def code_only(text):
    """C++ text without the content of strings and comments; lines keep their numbers."""
    return _LITERAL.sub(lambda match: " " + "\n" * match.group().count("\n"), text)


def is_below(path, folder):
    """Whether a path lies in a folder."""
    return path == folder or path.startswith(folder + "/")


class Tree:
    """Files below `root`; paths are relative and use '/'. Build folders, caches and dot folders are no part of it."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.paths = []
        for folder, folders, files in os.walk(self.root):
            top = pathlib.Path(folder) == self.root
            folders[:] = sorted(
                name
                for name in folders
                if not name.startswith(".") and name != "__pycache__" and not (top and name.startswith("build"))
            )
            for name in sorted(files):
                path = (pathlib.Path(folder) / name).relative_to(self.root).as_posix()
                if not (top and re.fullmatch(r"build.*\.log", name)):
                    self.paths.append(path)

    @functools.lru_cache(maxsize=None)
    def text(self, path):
        """The text of a file; bytes that are no UTF-8 become U+FFFD."""
        return (self.root / path).read_text(encoding="utf-8", errors="replace")

    def lines(self, path):
        """Numbered lines of a file, from 1."""
        return enumerate(self.text(path).splitlines(), start=1)

    @functools.cached_property
    def sources(self):
        """Code that people write: by suffix, CMake files, and programs that start with '#!'."""
        return [path for path in self.paths if self._is_source(path)]

    def cpp(self, *folders):
        """C++ files below any of the folders, or all of them."""
        return [
            path
            for path in self.paths
            if path.endswith((".h", ".cc", ".def")) and (not folders or any(is_below(path, f) for f in folders))
        ]

    def _is_source(self, path):
        name = pathlib.PurePosixPath(path)
        if name.suffix in SOURCE_SUFFIXES or name.name == "CMakeLists.txt":
            return True
        if name.suffix or name.name.startswith("."):
            return False
        with open(self.root / path, "rb") as file:
            return file.read(2) == b"#!"
