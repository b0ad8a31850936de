# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""switch/config/command_line.cc: what every program says about a command line that it does not take."""
import os
import subprocess
import unittest

BIN = os.environ["WEFT_BIN"]

# What is typed, and all that is said: the program, what is wrong, and what was meant or where that stands.
REFUSED = {
    "weft-switch --chek": "unknown option '--chek'; did you mean '--check'?",
    "weft-switch --duration-s x": "--duration-s: expected seconds from 0 on, found 'x'; weft-switch --help explains",
    "weft-switch weft.yaml": "unknown word 'weft.yaml'; weft-switch --help explains",
    "weftctl shw": "unknown command 'shw'; did you mean 'show'?",
    "weftctl show ports --wach": "unknown option '--wach'; did you mean '--watch'?",
    "weftctl show ports --jsn": "unknown option '--jsn'; did you mean '--json'?",
    "weftctl --switch leaf1 show ports": "option '--switch' belongs behind its command; weftctl show --help explains",
    "weft-inc --generation 1 group show 3":
        "option '--generation' belongs behind its command; weft-inc group show --help explains",
    "weftctl record --count 0": "--count: expected a whole number from 1 on, found '0'; weftctl record --help explains",
    "weft-incd --soket x": "unknown option '--soket'; did you mean '--socket'?",
    "weft-inc-manager --chek": "unknown option '--chek'; did you mean '--check'?",
    "weft-qp-agent --soket=x": "unknown option '--soket'; did you mean '--socket'?",
    "weft-inc topologie": "unknown command 'topologie'; did you mean 'topology'?",
    "weft-inc group shwo 3": "unknown command 'shwo'; did you mean 'show'?",
    "weft-inc group":
        "a command is needed; known: list, show, explain, destroy, create; weft-inc group --help explains",
    "weft-inc group show 3 --generatin 1": "unknown option '--generatin'; did you mean '--generation'?",
    "weft-inc group list --sokcet x": "unknown option '--sokcet'; did you mean '--socket'?",
    "weft-inc group show 3 4": "unknown word '4'; weft-inc group show --help explains",
    "weft-rnic wirte_bw 10.0.0.1": "unknown command 'wirte_bw'; did you mean 'write_bw'?",
    "weft-rnic write_bw 10.0.0.1 --report-gbits": "unknown option '--report-gbits'; did you mean '--report_gbits'?",
    "weft-rnic rping": "rping: takes -s or -c; weft-rnic rping --help explains",
    "weft-sim rnu x": "unknown command 'rnu'; did you mean 'run'?",
    "weft-sim": "a command is needed; known: run, sweep; weft-sim --help explains",
    "weft-flow run x --jsno=y": "unknown option '--jsno'; did you mean '--json'?",
}


class CommandLine(unittest.TestCase):
    def test_what_is_wrong_and_what_was_meant(self):
        for line, said in REFUSED.items():
            program, *words = line.split()
            if not os.path.exists(os.path.join(BIN, program)):
                self.assertEqual(program, "weft-qp-agent", "only this one may be left out of a build")
                continue
            with self.subTest(line):
                done = subprocess.run([os.path.join(BIN, program), *words], capture_output=True, text=True, timeout=20,
                                      check=False)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", f"{program}: {said}\n"))

    def test_help_and_version_are_no_mistakes(self):
        for program in sorted({line.split()[0] for line in REFUSED}):
            for option in ("--help", "--version"):
                if not os.path.exists(os.path.join(BIN, program)):
                    continue
                with self.subTest(f"{program} {option}"):
                    done = subprocess.run([os.path.join(BIN, program), option], capture_output=True, text=True,
                                          timeout=20, check=False)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    self.assertNotEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main()
