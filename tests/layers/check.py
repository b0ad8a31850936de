#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Check the source rules of the tree. Usage: check.py [ROOT]. Prints violations; exits 1 when there are any."""

import pathlib
import sys

import policy
from rules import RULES
from tree import Tree


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
    tree = Tree(root)
    if not tree.sources:
        print(f"check.py: no sources below {root}", file=sys.stderr)
        return 1
    count = 0
    for rule in RULES:
        violations = list(rule(tree, policy))
        count += len(violations)
        if violations:
            print(f"{rule.__name__}: {rule.__doc__.splitlines()[0]}")
            for violation in violations:
                print(f"  {violation}")
    print(f"{len(tree.sources)} sources, {len(RULES)} rules, {count} violations")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
