#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Writes a copy of a source file with one expression exchanged. Usage: mutate.py SOURCE TARGET FROM TO"""
import os
import sys


def main():
    source, target, old, new = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        text = file.read()
    if text.count(old) != 1:
        sys.exit(f"mutate.py: '{old}' stands {text.count(old)} times in {source}, not once")
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "w", encoding="utf-8") as file:
        file.write(text.replace(old, new))


if __name__ == "__main__":
    main()
