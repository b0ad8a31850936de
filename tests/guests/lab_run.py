# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""A lab of conf/labs, changed by a test, run by weft-lab with guests."""
import json
import os
import pathlib
import subprocess
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = os.environ.get("WEFT_BIN") or str(ROOT / "build/bin")


def variants(name, change, limit_s):
    """What weft-lab reports of each variant, by its name. Raises AssertionError when it cannot run.

    name     of a file in conf/labs
    change   is called with what the file says, and changes it
    limit_s  of the run, in seconds"""
    lab = yaml.safe_load((ROOT / "conf/labs" / name).read_text(encoding="utf-8"))
    lab["name"] = f"r{os.getpid() % 1000000}"
    change(lab)
    with tempfile.TemporaryDirectory(prefix="weft-guest-lab-") as folder:
        file, out = pathlib.Path(folder, "lab.yaml"), pathlib.Path(folder, "out.json")
        file.write_text(yaml.safe_dump(lab), encoding="utf-8")
        weft_lab = [str(ROOT / "tools/lab/weft-lab"), "--programs", BIN]
        try:
            done = subprocess.run([*weft_lab, "run", str(file), "--json", str(out), "--html",
                                   str(pathlib.Path(folder, "out.html"))],
                                  capture_output=True, text=True, timeout=limit_s, check=False)
        finally:
            subprocess.run([*weft_lab, "down", lab["name"]], capture_output=True, timeout=60, check=False)
        print(done.stdout + done.stderr)
        if done.returncode != 0:
            raise AssertionError(f"weft-lab ended with {done.returncode}")
        return {variant["name"]: variant for variant in json.loads(out.read_text(encoding="utf-8"))["variants"]}
