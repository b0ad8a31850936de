#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Prints the ten slowest tests, and the skipped ones with their reasons, of a CTest JUnit file."""
import re
import sys
import xml.etree.ElementTree as ElementTree


def main(path):
    cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    print("\nslowest tests:")
    for case in sorted(cases, key=lambda c: -float(c.get("time", 0)))[:10]:
        print(f"  {float(case.get('time', 0)):7.1f} s  {case.get('name')}")
    skipped = [case for case in cases if case.get("status") == "notrun" or case.find("skipped") is not None]
    for case in skipped:
        output = case.findtext("system-out") or ""
        reason = re.search(r"SKIP: (.*)", output)
        print(f"  skipped: {case.get('name')}: {reason.group(1) if reason else 'no reason given'}")


if __name__ == "__main__":
    main(sys.argv[1])
