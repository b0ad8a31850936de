# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The source rules. Each is a function of a Tree and a policy that gives violations as 'path:line: what is wrong'."""

import pathlib
import re

from tree import code_only, is_below

_INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')

# Name -> calls that make a run depend on more than its input. Searched in code without comments and strings.
BANNED_CALLS = {
    "clock": (
        r"[Cc]lock\w*\s*::\s*now\s*\(",
        r"\b(gettimeofday|clock_gettime|timespec_get)\s*\(",
        r"(?<![\w.>])time\s*\(\s*(0|NULL|nullptr)\s*\)",
    ),
    "cycle counter": (r"\b(rte_rdtsc\w*|rte_get_(tsc|timer|hpet)_cycles|__rdtscp?|_rdtsc)\s*\(",),
    "random source": (
        r"(?<![\w.>])s?rand(om|48|_r)?\s*\(",
        r"\b(drand48|rte_rand\w*)\s*\(",
        r"\b(random_device|default_random_engine|mt19937)",
    ),
    "output": (
        r"(?<![\w.>])(v?printf|puts)\s*\(",
        r"\bv?fprintf\s*\(\s*stdout\b",
        r"\bstd\s*::\s*cout\b",
    ),
}

# Spelled in two halves, so that this file obeys its own rule.
_NOTES_TO_SELF = re.compile(r"\b(" + "|".join(("TO" "DO", "FIX" "ME", "XX" "X")) + r")\b")

_SPDX = "SPDX-License-Identifier: Apache-2.0"
_COPYRIGHT = "Copyright The weft authors"


def _layer_of(path, policy):
    matching = [layer for layer in policy.LAYERS if is_below(path, layer)]
    return max(matching, key=len) if matching else None


def _includes(tree, path):
    for number, line in tree.lines(path):
        if found := _INCLUDE.match(line):
            yield number, found.group(1), found.group(2)


def include_layers(tree, policy):
    """A layer includes only what lies below it."""
    for path in tree.cpp():
        layer = _layer_of(path, policy)
        if layer is None:
            yield f"{path}:1: lies in no layer of tests/layers/policy.py"
            continue
        allowed = (layer, *policy.LAYERS[layer])
        for number, _, name in _includes(tree, path):
            ours = name.split("/")[0] in policy.TOP_LEVEL_FOLDERS
            if ours and not any(is_below(name, folder) for folder in allowed):
                yield f"{path}:{number}: {layer} may not include {name}"


def include_paths(tree, policy):
    """Our own headers are included in quotes, from the root of the tree, and exist."""
    headers = set(tree.paths)
    for path in tree.cpp():
        for number, mark, name in _includes(tree, path):
            ours = name.split("/")[0] in policy.TOP_LEVEL_FOLDERS
            generated = re.sub(r"(\.grpc)?\.pb\.h$", ".proto", name)
            if mark == "<" and ours:
                yield f"{path}:{number}: write our own header in quotes: {name}"
            elif mark == '"' and not ours:
                yield f"{path}:{number}: write the path from the root of the tree, or <> for others' headers: {name}"
            elif mark == '"' and name not in headers and generated not in headers:
                yield f"{path}:{number}: no such file: {name}"


def without_dpdk(tree, policy):
    """What other programs link does not include DPDK."""
    for path in tree.cpp(*policy.WITHOUT_DPDK):
        for number, _, name in _includes(tree, path):
            if name.startswith("rte_"):
                yield f"{path}:{number}: builds without DPDK, but includes {name}"


def file_length(tree, policy):
    """No file is longer than one can keep in mind."""
    for path in tree.sources:
        if path.endswith((".h", ".cc", ".py")):
            count = len(tree.text(path).splitlines())
            if count > policy.MAX_LINES:
                yield f"{path}:{count}: {count} lines, more than {policy.MAX_LINES}"


def line_length(tree, policy):
    """Lines fit the screen."""
    for path in tree.sources:
        for number, line in tree.lines(path):
            if len(line) > policy.MAX_COLUMNS:
                yield f"{path}:{number}: {len(line)} columns, more than {policy.MAX_COLUMNS}"


def ascii_only(tree, _policy):
    """Sources are ASCII."""
    for path in tree.sources:
        for number, line in tree.lines(path):
            for column, char in enumerate(line, start=1):
                if not (char == "\t" or " " <= char <= "~"):
                    yield f"{path}:{number}: column {column}: U+{ord(char):04X} is not printable ASCII"
                    break


def licence_header(tree, _policy):
    """Two comment lines, first or after '#!', name the licence and the owner. CMake files need the first only."""
    for path in tree.sources:
        lines = tree.text(path).splitlines()[:3]
        if lines and lines[0].startswith("#!"):
            del lines[0]
        if not lines or not re.fullmatch(r"(//|#) " + re.escape(_SPDX), lines[0]):
            yield f"{path}:1: does not start with '{_SPDX}'"
        elif path.endswith((".cmake", "CMakeLists.txt")):
            continue
        elif len(lines) < 2 or not re.fullmatch(r"(//|#) " + re.escape(_COPYRIGHT), lines[1]):
            yield f"{path}:2: '{_COPYRIGHT}' does not follow the licence"


def banned_calls(tree, policy):
    """Time, randomness and output come from the Context."""
    used = set()
    for path in tree.cpp(*policy.DETERMINISTIC):
        lines = code_only(tree.text(path)).splitlines()
        for name, patterns in BANNED_CALLS.items():
            for number, line in enumerate(lines, start=1):
                if not (found := re.search("|".join(patterns), line)):
                    continue
                used.add((path, name))
                if (path, name) not in policy.ALLOWED_CALLS:
                    yield f"{path}:{number}: {name} on the data path: {found.group().strip()}"
    for path, name in sorted(set(policy.ALLOWED_CALLS) - used):
        yield f"{path}:1: ALLOWED_CALLS in tests/layers/policy.py is stale: no {name} is left"


def notes_to_self(tree, _policy):
    """Work that is not done is not in the tree."""
    for path in tree.sources:
        for number, line in tree.lines(path):
            if found := _NOTES_TO_SELF.search(line):
                yield f"{path}:{number}: {found.group()}"


def folder_readmes(tree, policy):
    """A README.md says what lives in a folder."""
    folders = {str(folder) for path in tree.paths for folder in pathlib.PurePosixPath(path).parents} - {"."}
    for folder in sorted(folders):
        if any(is_below(folder, excused) for excused in policy.WITHOUT_README):
            continue
        if f"{folder}/README.md" not in tree.paths:
            yield f"{folder}/README.md:1: is missing"


def folder_lists(tree, policy):
    """READMEs that list folders list them all."""
    for listed in policy.LISTED_FOLDERS:
        folder = pathlib.PurePosixPath(listed)
        names = {path[len(listed) + 1 :].split("/")[0] for path in tree.paths if path.startswith(listed + "/")}
        folders = sorted(name for name in names if f"{listed}/{name}" not in tree.paths)
        rows = {
            f"{folder.parent}/README.md": rf"\| `{folder.name}/` \|.*\b%s\b",
            f"{listed}/README.md": r"\| `%s` \|",
        }
        for readme, row in rows.items():
            text = tree.text(readme)
            for name in folders:
                if not re.search("^" + row % name, text, re.MULTILINE):
                    yield f"{readme}:1: has no row with {listed}/{name}"


def top_level(tree, policy):
    """The top level holds a few folders and fewer files."""
    for name in sorted({path.split("/")[0] for path in tree.paths}):
        is_folder = f"{name}/" in {path[: len(name) + 1] for path in tree.paths}
        allowed = policy.TOP_LEVEL_FOLDERS if is_folder else policy.TOP_LEVEL_FILES
        if name not in allowed and not name.startswith("."):
            yield f"{name}:1: does not belong to the top level"


def drop_reasons(tree, policy):
    """Every drop reason can happen: the module that declares it, or one of those that share it, drops for it."""
    used = set()
    for path in tree.cpp(*policy.DROPPING):
        used.update(re.findall(r"\b\w*Drop(?:Reason)?::(\w+)", code_only(tree.text(path))))
    for definition in tree.paths:
        if not definition.endswith("/drop_reason.def"):
            continue
        for number, line in tree.lines(definition):
            if (found := re.match(r"WEFT_DROP\((\w+)", line)) and found.group(1) not in used:
                yield f"{definition}:{number}: nothing drops for {found.group(1)}"


def mirrored_tests(tree, policy):
    """A source file has a test file, at the same place."""
    untested = set()
    for path in tree.cpp(*policy.MIRRORED):
        test = f"tests/{path[: -len('.cc')]}_test.cc"
        if not path.endswith(".cc") or test in tree.paths:
            continue
        untested.add(path)
        if path not in policy.WITHOUT_TEST:
            yield f"{path}:1: has no {test}"
    for path in sorted(set(policy.WITHOUT_TEST) - untested):
        yield f"{path}:1: WITHOUT_TEST in tests/layers/policy.py is stale: the file is gone or has a test"


def cpp_files_have_known_names(tree, _policy):
    """One suffix per language, lower case with underscores: other rules find files by name."""
    for path in tree.paths:
        name = pathlib.PurePosixPath(path)
        if name.suffix in {".cpp", ".cxx", ".hpp", ".hh", ".hxx", ".C", ".H"}:
            yield f"{path}:1: C++ files end in .h and .cc"
        elif name.suffix in {".h", ".cc", ".py", ".proto"} and not re.fullmatch(r"[a-z0-9_]+", name.stem):
            yield f"{path}:1: write lower case letters, digits and underscores"


RULES = (
    include_layers,
    include_paths,
    without_dpdk,
    file_length,
    line_length,
    ascii_only,
    licence_header,
    banned_calls,
    notes_to_self,
    folder_readmes,
    folder_lists,
    top_level,
    drop_reasons,
    mirrored_tests,
    cpp_files_have_known_names,
)
