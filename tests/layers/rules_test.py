# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Each rule finds what it forbids in a small made-up tree, at the right place, and nothing in a clean one."""

import pathlib
import tempfile
import types
import unittest

import policy
import rules
from tree import Tree, code_only

CPP = "// SPDX-License-Identifier: Apache-2.0\n// Copyright The weft authors\n"
SCRIPT = "# SPDX-License-Identifier: Apache-2.0\n# Copyright The weft authors\n"
CMAKE = "# SPDX-License-Identifier: Apache-2.0\n"

CLEAN = {
    "CMakeLists.txt": CMAKE,
    "LICENSE": "Apache\n",
    "README.md": "weft \u2192\n",
    ".gitignore": "build*/\n",
    "build/generated.cc": "int x = rand();\n",
    "build-asan.log": "text\n",
    "switch/README.md": "# switch\n",
    "switch/api/weft.proto": CPP,
    "switch/api/service.cc": CPP + '#include "switch/api/weft.grpc.pb.h"\n#include "switch/pipeline/stage.h"\n',
    "switch/main/main.cc": CPP + '#include "switch/stages/l2.h"\nauto now = std::chrono::steady_clock::now();\n',
    "switch/pipeline/drop_reason.def": CPP + 'WEFT_DROP(no_route, warning, "No route.")\n',
    "switch/pipeline/pipeline.cc": CPP + "#include <rte_cycles.h>\nauto t = rte_rdtsc();\n",
    "switch/pipeline/stage.h": CPP + '#pragma once\n#include <vector>\n#include "switch/wire/ip.h"\n',
    "switch/stages/l2.h": CPP + "#pragma once\n// rand() and printf() are only words here.\n",
    "switch/stages/l2.cc": CPP + 'auto d = DropReason::no_route;\nconst char* s = "std::cout 1\'000 rand()";\n',
    "switch/wire/ip.h": CPP + "#pragma once\nint operand(int);\nint x = operand(3) + snprintf(b, 1, f) + a.time(0);\n",
    "tests/README.md": "# tests\n",
    "tests/switch/pipeline/pipeline_test.cc": CPP + "std::mt19937 random(1);\n",
    "tests/switch/stages/l2_test.cc": CPP + '#include "switch/stages/l2.h"\n',
    "tests/live/run": "#!/bin/sh\n" + SCRIPT,
    "tests/live/bytes.bin": "\u00e9",
    "tests/live/notes": "\u00e9, and no '#!'\n",
}

CLEAN.update(
    {
        f"{folder}/README.md": "# What it is\n"
        for folder in (
            *("switch/api", "switch/main", "switch/pipeline", "switch/stages", "switch/wire"),
            *("tests/live", "tests/switch", "tests/switch/pipeline", "tests/switch/stages"),
        )
    }
)

# A policy for CLEAN; the layers and the allowed call are those of the real one.
POLICY = types.SimpleNamespace(**{name: value for name, value in vars(policy).items() if name.isupper()})
POLICY.WITHOUT_TEST = {}
POLICY.ALLOWED_CALLS = {("switch/pipeline/pipeline.cc", "cycle counter"): "It says so."}

NOTE = "TO" "DO"


def header(text):
    """A header of a layer with one more line."""
    return CPP + "#pragma once\n" + text + "\n"


# (rule, files that replace or extend CLEAN (None removes one), beginnings of the expected violations in order)
CASES = [
    ("include_layers", {"switch/wire/ip.h": header('#include "switch/pipeline/stage.h"')}, ["switch/wire/ip.h:4: "]),
    (
        "include_layers",
        {"switch/pipeline/stage.h": header('#include "switch/tables/a.h"')},
        ["switch/pipeline/stage.h:4"],
    ),
    ("include_layers", {"switch/tables/a.h": header('#include "switch/stages/l2.h"')}, ["switch/tables/a.h:4: "]),
    ("include_layers", {"switch/stages/l2.h": header('#include "switch/ports/p.h"')}, ["switch/stages/l2.h:4: "]),
    ("include_layers", {"switch/stages/l2.h": header('#  include "nic/rnic/qp.h"')}, ["switch/stages/l2.h:4: "]),
    ("include_layers", {"switch/ports/p.h": header('#include "switch/stages/l2.h"')}, ["switch/ports/p.h:4: "]),
    ("include_layers", {"switch/api/c.h": header('#include "switch/stages/l2.h"')}, ["switch/api/c.h:4: "]),
    ("include_layers", {"switch/main/m.h": header('#include "collectives/engine/e.h"')}, ["switch/main/m.h:4: "]),
    ("include_layers", {"switch/main/m.h": header('#include "tools/weftctl/format.h"')}, ["switch/main/m.h:4: "]),
    ("include_layers", {"switch/main/m.h": header('#include "tests/support/harness.h"')}, ["switch/main/m.h:4: "]),
    ("include_layers", {"nic/rnic/qp.h": header('#include "switch/pipeline/stage.h"')}, ["nic/rnic/qp.h:4: "]),
    ("include_layers", {"switch/wired/x.h": header("")}, ["switch/wired/x.h:1: lies in no layer"]),
    ("include_paths", {"switch/stages/l2.h": header('#include "ip.h"')}, ["switch/stages/l2.h:4: write the path"]),
    (
        "include_paths",
        {"switch/stages/l2.h": header("#include <switch/wire/ip.h>")},
        ["switch/stages/l2.h:4: write our"],
    ),
    ("include_paths", {"switch/stages/l2.h": header('#include "switch/wire/op.h"')}, ["switch/stages/l2.h:4: no such"]),
    ("include_paths", {"switch/api/weft.proto": None}, ["switch/api/service.cc:3: no such file"]),
    ("without_dpdk", {"switch/wire/ip.h": header("#include <rte_ip.h>")}, ["switch/wire/ip.h:4: "]),
    ("without_dpdk", {"nic/rnic/qp.h": header("#include <rte_mbuf.h>")}, ["nic/rnic/qp.h:4: "]),
    ("file_length", {"switch/wire/ip.h": CPP + "\n" * 599}, ["switch/wire/ip.h:601: 601 lines"]),
    ("file_length", {"tests/live/lab.py": SCRIPT + "\n" * 598}, []),
    ("line_length", {"switch/wire/ip.h": CPP + "// " + "x" * 118}, ["switch/wire/ip.h:3: 121 columns"]),
    ("line_length", {"switch/wire/ip.h": CPP + "// " + "x" * 117}, []),
    ("line_length", {"tests/live/run": "#!/bin/sh\n" + SCRIPT + "#" * 121}, ["tests/live/run:4: 121 columns"]),
    ("ascii_only", {"switch/wire/ip.h": CPP + "// 5 \u00b5s\n"}, ["switch/wire/ip.h:3: column 6: U+00B5"]),
    ("ascii_only", {"switch/CMakeLists.txt": CMAKE + "\u2013"}, ["switch/CMakeLists.txt:2: column 1: U+2013"]),
    ("ascii_only", {"switch/wire/ip.h": CPP + "\x1b\n"}, ["switch/wire/ip.h:3: column 1: U+001B"]),
    ("licence_header", {"switch/wire/ip.h": "#pragma once\n" + CPP}, ["switch/wire/ip.h:1: "]),
    ("licence_header", {"switch/wire/ip.h": CPP.splitlines()[0] + "\n#pragma once\n"}, ["switch/wire/ip.h:2: "]),
    ("licence_header", {"switch/wire/ip.h": ""}, ["switch/wire/ip.h:1: "]),
    ("licence_header", {"switch/CMakeLists.txt": "add_library(x)\n"}, ["switch/CMakeLists.txt:1: "]),
    ("licence_header", {"tests/live/run": "#!/bin/sh\nset -eu\n"}, ["tests/live/run:1: "]),
    ("licence_header", {"tests/live/run": "#!/bin/sh\n" + CMAKE}, ["tests/live/run:2: "]),
    ("licence_header", {"tests/live/lab.py": '"""Text."""\n'}, ["tests/live/lab.py:1: "]),
    (
        "banned_calls",
        {"switch/stages/l2.h": header("auto t = std::chrono::steady_clock::now();")},
        ["switch/stages/l2.h:4: clock"],
    ),
    ("banned_calls", {"switch/stages/l2.h": header("auto t = Clock::now();")}, ["switch/stages/l2.h:4: clock"]),
    (
        "banned_calls",
        {"switch/tables/a.h": header("clock_gettime(CLOCK_MONOTONIC, &t);")},
        ["switch/tables/a.h:4: clock"],
    ),
    ("banned_calls", {"switch/wire/ip.h": header("gettimeofday(&t, nullptr);")}, ["switch/wire/ip.h:4: clock"]),
    ("banned_calls", {"switch/wire/ip.h": header("auto t = std::time(nullptr);")}, ["switch/wire/ip.h:4: clock"]),
    ("banned_calls", {"switch/stages/l2.h": header("auto t = rte_rdtsc();")}, ["switch/stages/l2.h:4: cycle counter"]),
    (
        "banned_calls",
        {"switch/stages/l2.h": header("auto t = rte_get_timer_cycles();")},
        ["switch/stages/l2.h:4: cycle"],
    ),
    ("banned_calls", {"nic/rnic/qp.h": header("int x = rand();")}, ["nic/rnic/qp.h:4: random source"]),
    ("banned_calls", {"nic/rnic/qp.h": header("int x = std::rand();")}, ["nic/rnic/qp.h:4: random source"]),
    ("banned_calls", {"nic/rnic/qp.h": header("std::random_device d;")}, ["nic/rnic/qp.h:4: random source"]),
    ("banned_calls", {"nic/rnic/qp.h": header("std::mt19937_64 g;")}, ["nic/rnic/qp.h:4: random source"]),
    ("banned_calls", {"nic/rnic/qp.h": header('printf("x");')}, ["nic/rnic/qp.h:4: output"]),
    ("banned_calls", {"nic/rnic/qp.h": header('std::fprintf(stdout, "x");')}, ["nic/rnic/qp.h:4: output"]),
    ("banned_calls", {"nic/rnic/qp.h": header("std::cout << 1;")}, ["nic/rnic/qp.h:4: output"]),
    ("banned_calls", {"nic/rnic/qp.h": header('fprintf(stderr, "x");')}, []),
    ("banned_calls", {"nic/rnic/qp.h": header("/* one\n two */ int x = rand();")}, ["nic/rnic/qp.h:5: random"]),
    ("banned_calls", {"nic/rnic/qp.h": header("int x = 1'000 + rand() + '\\'';")}, ["nic/rnic/qp.h:4: random"]),
    ("banned_calls", {"switch/pipeline/pipeline.cc": CPP}, ["switch/pipeline/pipeline.cc:1: ALLOWED_CALLS"]),
    ("notes_to_self", {"switch/wire/ip.h": CPP + f"// {NOTE}: more\n"}, [f"switch/wire/ip.h:3: {NOTE}"]),
    ("notes_to_self", {"tests/live/run": "#!/bin/sh\n" + SCRIPT + "# FIX" "ME\n"}, ["tests/live/run:4: "]),
    ("notes_to_self", {"switch/wire/ip.h": CPP + 'auto t = "/tmp/XXXXXX";\n'}, []),
    ("top_level", {"Makefile": "all:\n"}, ["Makefile:1: does not belong"]),
    ("top_level", {"docs/README.md": "# docs\n"}, ["docs:1: does not belong"]),
    ("folder_readmes", {"bench/CMakeLists.txt": CMAKE}, ["bench/README.md:1: is missing"]),
    ("folder_readmes", {"switch/README.md": None}, ["switch/README.md:1: is missing"]),
    ("folder_readmes", {"switch/wire/README.md": None}, ["switch/wire/README.md:1: is missing"]),
    ("folder_readmes", {"tests/fuzz/corpus/cm/rep": "x"}, ["tests/fuzz/README.md:1: is missing"]),
    (
        "folder_lists",
        {"switch/stages/lb/unit.h": header("")},
        ["switch/README.md:1: has no row with switch/stages/lb", "switch/stages/README.md:1: has no row with "],
    ),
    (
        "folder_lists",
        {
            "switch/stages/lb/unit.h": header(""),
            "switch/README.md": "| `stages/` | lb_tag |\n| `main/` | lb |\n",
            "switch/stages/README.md": "| `lb_tag` | tags for lb |\n",
        },
        ["switch/README.md:1: has no row with switch/stages/lb", "switch/stages/README.md:1: has no row with "],
    ),
    (
        "folder_lists",
        {
            "switch/stages/lb/unit.h": header(""),
            "switch/README.md": "| `stages/` | l2, lb |\n",
            "switch/stages/README.md": "| `lb` | balances |\n",
        },
        [],
    ),
    (
        "drop_reasons",
        {"switch/stages/l2.cc": CPP + "// DropReason::no_route\n"},
        ["switch/pipeline/drop_reason.def:3: "],
    ),
    (
        "drop_reasons",
        {"switch/stages/l2.cc": CPP + "auto d = DropReason::no_routes;\n"},
        ["switch/pipeline/drop_reason.def:3"],
    ),
    (
        "drop_reasons",
        {"collectives/engine/drop_reason.def": CPP + 'WEFT_DROP(group_unknown, warning, "No such group.")\n'},
        ["collectives/engine/drop_reason.def:3: nothing drops for group_unknown"],
    ),
    (
        "drop_reasons",
        {
            "collectives/engine/drop_reason.def": CPP + 'WEFT_DROP(group_unknown, warning, "No such group.")\n',
            "collectives/engine/inc.cc": CPP + "auto d = IncDrop::group_unknown;\n",
        },
        [],
    ),
    (
        "mirrored_tests",
        {"tests/switch/stages/l2_test.cc": None},
        ["switch/stages/l2.cc:1: has no tests/switch/stages/l2_"],
    ),
    ("mirrored_tests", {"switch/qos/wred.cc": CPP}, ["switch/qos/wred.cc:1: has no tests/switch/qos/wred_test.cc"]),
    ("cpp_files_have_known_names", {"switch/wire/ip.cpp": CPP}, ["switch/wire/ip.cpp:1: "]),
    ("cpp_files_have_known_names", {"switch/wire/Ip.h": CPP}, ["switch/wire/Ip.h:1: "]),
]


class RulesTest(unittest.TestCase):
    def violations(self, rule, changes, its_policy=POLICY):
        """What a rule says of CLEAN with changes."""
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**CLEAN, **changes}.items():
                if text is not None:
                    file = pathlib.Path(root) / path
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(text, encoding="utf-8")
            return list(getattr(rules, rule)(Tree(root), its_policy))

    def test_every_rule_accepts_a_clean_tree(self):
        for rule in rules.RULES:
            with self.subTest(rule=rule.__name__):
                self.assertEqual(self.violations(rule.__name__, {}), [])

    def test_every_rule_finds_what_it_forbids_and_nothing_else(self):
        for rule, changes, expected in CASES:
            with self.subTest(rule=rule, changes=changes):
                found = self.violations(rule, changes)
                self.assertEqual(len(found), len(expected), found)
                for violation, beginning in zip(found, expected):
                    self.assertTrue(violation.startswith(beginning), f"{violation!r} is not {beginning!r}")

    def test_every_rule_has_a_case_in_which_it_fails(self):
        failing = {rule for rule, _, expected in CASES if expected}
        self.assertEqual(failing, {rule.__name__ for rule in rules.RULES})

    def test_an_exception_that_nothing_needs_is_a_violation(self):
        stale = types.SimpleNamespace(**vars(POLICY))
        stale.WITHOUT_TEST = {"switch/stages/l2.cc": "It has one.", "switch/stages/gone.cc": "It is gone."}
        found = self.violations("mirrored_tests", {}, stale)
        paths = [violation.split(":")[0] for violation in found]
        self.assertEqual(paths, ["switch/stages/gone.cc", "switch/stages/l2.cc"])

    def test_an_exception_excuses_its_file(self):
        excused = types.SimpleNamespace(**vars(POLICY))
        excused.WITHOUT_TEST = {"switch/stages/l2.cc": "For this test."}
        self.assertEqual(self.violations("mirrored_tests", {"tests/switch/stages/l2_test.cc": None}, excused), [])

    def test_every_exception_of_the_tree_has_a_reason(self):
        for reason in (*policy.ALLOWED_CALLS.values(), *policy.WITHOUT_TEST.values(), *policy.WITHOUT_README.values()):
            self.assertRegex(reason, r"^[A-Z].{10,}\.$")

    def test_code_only_keeps_line_numbers(self):
        text = 'a /* 1\n2 */ b "c\\"d" // e\nR"x(\n)x" f\n'
        self.assertEqual(code_only(text).count("\n"), text.count("\n"))
        self.assertEqual(code_only(text).split(), ["a", "b", "f"])


if __name__ == "__main__":
    unittest.main()
