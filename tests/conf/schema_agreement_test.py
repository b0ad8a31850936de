#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""conf/schema.json and the loader agree: both take the examples, both refuse what is structurally wrong.

Usage: schema_agreement_test.py LOADER_VERDICTS SCHEMA
"""

import json
import os
import random
import re
import subprocess
import sys

SKIPPED = 77  # what CTest takes for "skipped"
MUTANTS = 420

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: {missing} (apt install python3-jsonschema python3-yaml)")
    sys.exit(SKIPPED)


class Yaml12(yaml.SafeLoader):
    """The core schema of YAML 1.2, which editors use: `off` and 1:30 are text."""


Yaml12.yaml_implicit_resolvers = {}
for tag, pattern, first in (
    ("null", r"^(~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"^(true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("int", r"^[-+]?[0-9]+$", list("-+0123456789")),
    ("float", r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$", list("-+.0123456789")),
):
    Yaml12.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), first)


def main():
    verdicts_program, schema_path = sys.argv[1:]
    seed = int(os.environ.get("WEFT_SEED", random.SystemRandom().randrange(2**32)))
    print(f"WEFT_SEED={seed}")
    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)

    output = subprocess.run([verdicts_program, str(MUTANTS), str(seed)], check=True, capture_output=True, text=True)
    cases = [json.loads(line) for line in output.stdout.splitlines()]
    failures = 0
    counts = {"accepted by both": 0, "refused by both": 0, "refused by the loader alone": 0}
    for case in cases:
        valid = validator.is_valid(yaml.load(case["text"], Yaml12))
        if valid and case["accepted"]:
            counts["accepted by both"] += 1
        elif not valid and not case["accepted"]:
            counts["refused by both"] += 1
        elif valid and not case["structural"]:
            counts["refused by the loader alone"] += 1
        else:
            failures += 1
            print(f"the schema {'accepts' if valid else 'refuses'}, the loader "
                  f"{'accepts' if case['accepted'] else 'refuses'}: {case['name']}\n{case['text']}")
    for name, count in counts.items():
        print(f"{count} {name}")
        if count == 0:
            failures += 1
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
