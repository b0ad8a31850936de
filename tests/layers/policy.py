# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""What the rules of rules.py allow, in this tree: change it here, with a reason."""

# Entries of the top level besides dotfiles and build folders.
TOP_LEVEL_FILES = {"CMakeLists.txt", "LICENSE", "README.md"}
TOP_LEVEL_FOLDERS = {"switch", "nic", "collectives", "conf", "tests", "bench", "tools"}

# Folders that, with all below them, need no README.md, and why.
WITHOUT_README = {"tests/fuzz/corpus": "A fuzzer takes every file for a seed; tests/fuzz/README.md speaks of them."}

# Folders of which two READMEs list every folder in them: their own, with a row for each, and that of the folder above,
# with one row for all.
LISTED_FOLDERS = ("switch/stages",)

# Folder -> folders whose headers it may include, besides its own. The longest matching folder decides. A folder of
# switch/, nic/ or collectives/ that no entry matches is a mistake.
LAYERS = {
    "switch/base": (),
    # A clock, seeds, files. What runs the same each time may not include it.
    "switch/system": ("switch/base",),
    "switch/wire": ("switch/base",),
    "switch/qos": ("switch/base", "switch/wire"),
    # Values and schemas: below the engine, because stages describe their options with them.
    "switch/config/schema": ("switch/base", "switch/wire"),
    "switch/pipeline": ("switch/base", "switch/wire", "switch/qos", "switch/config/schema"),
    "switch/tables": ("switch/base", "switch/wire", "switch/pipeline"),
    "switch/stages": ("switch/base", "switch/wire", "switch/qos", "switch/config/schema", "switch/pipeline",
                      "switch/tables"),
    "switch/ports": ("switch/base", "switch/wire", "switch/qos", "switch/config/schema", "switch/pipeline",
                     "switch/tables"),
    "switch/capture": ("switch/base", "switch/wire", "switch/config/schema", "switch/pipeline"),
    "switch/kernel": ("switch/base", "switch/wire", "switch/config/schema", "switch/pipeline", "switch/tables",
                      "switch/stages"),
    "switch/config": ("switch/base", "switch/wire", "switch/qos", "switch/pipeline", "switch/capture"),
    "switch/api": ("switch/base", "switch/wire", "switch/config", "switch/pipeline", "switch/capture"),
    "switch/observe": ("switch/base", "switch/wire", "switch/qos", "switch/pipeline", "switch/tables", "switch/capture",
                       "switch/config", "switch/api", "switch/ports", "switch/system"),
    "switch/runtime": ("switch",),
    "switch/main": ("switch", "collectives/stage"),
    "nic": ("switch/base", "switch/system", "switch/wire", "switch/qos"),
    "nic/rnic": ("switch/base", "switch/wire", "switch/qos"),
    "collectives": ("nic", "switch/base", "switch/wire", "switch/qos", "switch/config/schema", "switch/pipeline",
                    "switch/tables", "switch/stages/rdma_track"),
    "collectives/comm": ("collectives/engine", "nic/rnic", "nic/host", "switch/base", "switch/system", "switch/wire"),
    # The core of the manager (manager.h) has a target of its own, which links neither of the two.
    "collectives/manager": ("collectives/policy", "collectives/engine", "nic/rnic", "switch/base", "switch/wire",
                            "switch/config", "switch/api", "switch/system"),
    # A host's daemon is a client of the manager, and of its connection's certificates.
    "collectives/daemon": ("collectives/comm", "collectives/manager", "nic/host", "switch/base", "switch/wire",
                           "switch/config"),
    "collectives/policy": ("collectives/engine", "nic/rnic", "switch/base", "switch/wire"),
    "tools": ("switch", "nic", "collectives"),
    "bench": ("switch", "nic", "collectives", "tools", "tests/support"),
    "tests": ("switch", "nic", "collectives", "tools", "bench"),
}

# Folders that build without DPDK, so that other programs can link them.
WITHOUT_DPDK = ("switch/base", "switch/system", "switch/wire", "switch/qos", "switch/config/schema", "nic/rnic",
                "nic/host", "collectives/engine", "collectives/policy")

MAX_LINES = 600
MAX_COLUMNS = 120

# Folders where time, randomness and output come from the Context only.
DETERMINISTIC = ("switch/base", "switch/wire", "switch/pipeline", "switch/tables", "switch/stages", "switch/qos",
                 "switch/capture", "nic/rnic", "collectives/engine", "collectives/policy", "collectives/stage")

# (file, name of a banned call) that is allowed all the same, and why.
ALLOWED_CALLS = {
    ("switch/pipeline/pipeline.cc", "cycle counter"): "Measures the cycles that each stage takes; decides nothing.",
}

# Folders with stages and engines, which drop packets for the reasons that drop_reason.def files declare.
DROPPING = ("switch", "collectives")

# Folders whose every name.cc has a name_test.cc at the same place under tests/.
MIRRORED = ("switch/system", "switch/wire", "switch/config/schema", "switch/pipeline", "switch/tables", "switch/stages",
            "switch/qos", "switch/capture")

# Files of those folders that need no test of their own, and why.
WITHOUT_TEST = {
    "switch/pipeline/stage.cc": "Aborts where a stage names a table and does not list it; nothing else.",
    "switch/stages/impair/flip.cc": "Needs packets: impair_test.cc corrupts through it, shared buffers too.",
}
