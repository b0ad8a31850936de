# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""tools/fuzz: which fuzzers run beside each other, and what is said of those that break; with fuzzers of its own."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Leaves NAME.begun, NAME.arguments and NAME.seeds in $STATE.
FUZZER = r"""#!/bin/bash
name=${0##*/fuzz_}
touch "$STATE/$name.begun"
printf '%s\n' "$@" >"$STATE/$name.arguments"
for argument; do [[ $argument != -seed_inputs=@* ]] || cp "${argument#-seed_inputs=@}" "$STATE/$name.seeds"; done
"""
# Ends well, with NAME.ended, only if it saw that another ran beside it or before it; says so when it saw three.
MEETS = r"""
for i in $(seq 100); do
  begun=$(find "$STATE" -name '*.begun' | wc -l)
  running=$((begun - $(find "$STATE" -name '*.ended' | wc -l)))
  [ "$running" -le 2 ] || echo "$running" >"$STATE/too_many"
  [ "$begun" -lt 2 ] || break
  sleep 0.1
done
[ "$begun" -ge 2 ] || exit 3
echo "stat::number_of_executed_units: 42"
touch "$STATE/$name.ended"
"""
BREAKS = r"""
echo "what is wrong with $name"
echo "artifact_prefix='build/'; Test unit written to build/sanitize/fuzz_$name-crash-0123"
exit 77
"""
SLEEPS = r"""
echo $$ >"$STATE/$name.pid"
exec sleep 60
"""


class Fuzz(unittest.TestCase):
    def setUp(self):
        self.tree = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="weft-fuzz-")))
        self.state = self.tree / "state"
        for folder in ("tools", "bin", "state", "build/sanitize/fuzzers"):
            (self.tree / folder).mkdir(parents=True)
        shutil.copy(ROOT / "tools/fuzz", self.tree / "tools")
        for tool in ("cmake", "ninja"):
            self.program(self.tree / "bin" / tool, "#!/bin/sh\n")
        self.environment = {**os.environ, "STATE": str(self.state), "PATH": f"{self.tree}/bin:{os.environ['PATH']}"}

    @staticmethod
    def program(path, text):
        path.write_text(text, encoding="ascii")
        path.chmod(0o755)

    def fuzzer(self, name, what):
        self.program(self.tree / f"build/sanitize/fuzzers/fuzz_{name}", FUZZER + what)
        corpus = self.tree / "tests/fuzz/corpus" / name
        corpus.mkdir(parents=True)
        (corpus / "seed").write_text(name, encoding="ascii")

    def fuzz(self, *arguments):
        return subprocess.run([self.tree / "tools/fuzz", *arguments], env=self.environment, capture_output=True,
                              text=True, timeout=50, check=False)

    def test_two_run_at_a_time_each_with_seeds_of_its_own(self):
        names = ("cm", "lldp", "packet", "rnic")
        for name in names:
            self.fuzzer(name, MEETS)
        result = self.fuzz(*names)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(sorted(result.stdout.splitlines()), [f"fuzz_{name}: 42 inputs" for name in names])
        self.assertFalse((self.state / "too_many").exists(), "more than two")
        for name in names:
            self.assertEqual((self.state / f"{name}.seeds").read_text().strip(), f"tests/fuzz/corpus/{name}/seed")

    def test_times_multiplies_the_inputs_and_seconds_replace_them(self):
        self.fuzzer("rnic", 'echo "stat::number_of_executed_units: 1"')
        arguments = self.state / "rnic.arguments"
        for asked, said in ((("rnic",), "-runs=20000"), (("--times", "3", "rnic"), "-runs=60000"),
                            (("--seconds", "7", "rnic"), "-max_total_time=7")):
            self.assertEqual(self.fuzz(*asked).returncode, 0)
            self.assertIn(said, arguments.read_text().splitlines())
        self.assertNotIn("-runs", arguments.read_text())

    def test_those_that_break_are_said_at_the_end_and_the_others_run(self):
        self.fuzzer("cm", BREAKS)
        self.fuzzer("lldp", MEETS)
        self.fuzzer("packet", "exit 5")
        result = self.fuzz("cm", "lldp", "packet")
        self.assertEqual(result.returncode, 1)
        self.assertIn("fuzz_lldp: 42 inputs\n", result.stdout)
        self.assertIn("what is wrong with cm\n", result.stdout)
        self.assertEqual(sorted(line.removeprefix("fuzz: ") for line in result.stderr.splitlines()),
                         ["fuzz_cm found an input that breaks it: build/sanitize/fuzz_cm-crash-0123",
                          "fuzz_packet ended with status 5"])

    def test_none_outlives_it(self):
        names = ("cm", "rnic")
        for name in names:
            self.fuzzer(name, SLEEPS)
        pids = [self.state / f"{name}.pid" for name in names]
        with subprocess.Popen([self.tree / "tools/fuzz", *names], env=self.environment) as fuzz:
            deadline = time.monotonic() + 30
            while not all(path.exists() and path.read_text().endswith("\n") for path in pids):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)
            fuzz.send_signal(signal.SIGTERM)
        for path in pids:
            stat = pathlib.Path("/proc", path.read_text().strip(), "stat")
            while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z":
                self.assertLess(time.monotonic(), deadline, "a fuzzer still runs")
                time.sleep(0.02)


if __name__ == "__main__":
    unittest.main()
