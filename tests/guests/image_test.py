#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""When the guests' image is built, and when the cache has it; with a mmdebstrap that makes a few files of its own."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
FILES = ("guest_image.py", "guest_packages.py", "image_contents.py", "init", "agent.pl", "image")
# Writes the tar of a kernel, two modules of which the second needs the first, and for each package a program and its
# documentation. Says in $CALLS that it ran.
MMDEBSTRAP = r"""#!/usr/bin/env python3
import io, lzma, os, re, sys, tarfile, time
include = next(word for word in sys.argv if word.startswith("--include=")).removeprefix("--include=").split(",")
with open(os.environ["CALLS"], "a") as calls:
    calls.write(" ".join(include) + "\n")
time.sleep(0.3)
if "no-such-package" in include:
    sys.exit("E: Unable to locate package no-such-package")
modules = [line.split(":") for line in os.environ["MODULES"].split()]
files = {"boot/vmlinuz-6.1": b"envelope" + lzma.compress(b"\x7fELF kernel")}
files.update({f"lib/modules/6.1/{name}.ko": f"\0depends={needs}\0".encode() for name, needs in modules})
for package in include:
    files[f"usr/bin/{package}"] = b"program"
    files[f"usr/share/{package}/data"] = b"data"
    files[f"usr/share/doc/{package}/README"] = b"read me"
with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as tar:
    for path, content in files.items():
        member = tarfile.TarInfo("./" + path)
        member.size, member.mode = len(content), 0o755
        tar.addfile(member, io.BytesIO(content))
"""


def entries(path):
    """{path: content} of a newc archive, or of several that follow each other; later ones win."""
    data, at, found = pathlib.Path(path).read_bytes(), 0, {}
    while at < len(data):
        header = data[at:at + 110]
        if header[:6] != b"070701":
            raise AssertionError(f"no entry at {at}")
        size, name_size = int(header[54:62], 16), int(header[94:102], 16)
        name = data[at + 110:at + 110 + name_size - 1].decode()
        content_at = at + (110 + name_size + 3) // 4 * 4
        found[name] = data[content_at:content_at + size]
        at = content_at + (size + 3) // 4 * 4
    return found


class Image(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="weft-image-")))
        self.tree = self.folder / "tree"
        self.tree.mkdir()
        for name in FILES:
            shutil.copy(HERE / name, self.tree / name)
        sys.path.insert(0, str(HERE))
        self.addCleanup(sys.path.remove, str(HERE))
        import guest_packages  # pylint: disable=import-outside-toplevel
        import image_contents  # pylint: disable=import-outside-toplevel
        programs = self.folder / "bin"
        programs.mkdir()
        (programs / "mmdebstrap").write_text(MMDEBSTRAP, encoding="ascii")
        (programs / "mmdebstrap").chmod(0o755)
        self.cache = self.folder / "cache"
        needs = {name: "" for name in (*guest_packages.MODULES, *image_contents.QP_AGENT_MODULES)}
        needs |= {"base_of_nvme": "", "nvme_rdma": "base-of-nvme"}
        modules = " ".join(f"{name}:{needed}" for name, needed in needs.items())
        self.environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "MODULES": modules,
                            "WEFT_GUEST_CACHE": str(self.cache), "CALLS": str(self.folder / "calls")}

    def start(self, arguments=""):
        """Asks for an image in another process."""
        code = f"import guest_image; print(guest_image.ensure({arguments}))"
        return subprocess.Popen([sys.executable, "-B", "-c", code], cwd=self.tree, env=self.environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def ensure(self, arguments=""):
        process = self.start(arguments)
        out, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 0, errors)
        return pathlib.Path(out.strip())

    def calls(self):
        """What mmdebstrap was asked for, call by call."""
        path = self.folder / "calls"
        return [line.split() for line in path.read_text(encoding="ascii").splitlines()] if path.exists() else []

    def test_the_second_time_the_cache_has_it(self):
        first = self.ensure()
        self.assertEqual(self.ensure(), first)
        self.assertEqual(len(self.calls()), 1)
        self.assertEqual((first / "vmlinux").read_bytes(), b"\x7fELF kernel")
        found = entries(first / "root.cpio")
        self.assertEqual(found["init"], (HERE / "init").read_bytes())
        self.assertEqual(found["sbin/weft-agent"], (HERE / "agent.pl").read_bytes())
        self.assertIn("usr/bin/perftest", found)
        self.assertNotIn("usr/share/perftest/data", found)
        self.assertNotIn("lib/modules/nvme_rdma.ko", found)

    def test_another_agent_makes_another_image_of_the_same_packages(self):
        first = self.ensure()
        with open(self.tree / "agent.pl", "a", encoding="ascii") as agent:
            agent.write("# changed\n")
        second = self.ensure()
        self.assertNotEqual(first, second)
        self.assertTrue(entries(second / "root.cpio")["sbin/weft-agent"].endswith(b"# changed\n"))
        self.assertEqual(len(self.calls()), 1, "packages were unpacked again")

    def test_another_list_of_packages_is_unpacked_anew(self):
        first = self.ensure()
        source = (self.tree / "guest_packages.py").read_text(encoding="ascii")
        (self.tree / "guest_packages.py").write_text(source.replace('"qperf",', '"qperf", "infiniband-diags",'),
                                                     encoding="ascii")
        self.assertNotEqual(self.ensure(), first)
        self.assertEqual([("infiniband-diags" in call) for call in self.calls()], [False, True])

    def test_extra_packages_make_an_image_of_their_own_which_is_kept_too(self):
        plain = self.ensure()
        extra = self.ensure("['openmpi-bin', 'nfs-common']")
        self.assertNotEqual(plain, extra)
        self.assertEqual(self.ensure("('nfs-common', 'openmpi-bin')"), extra)
        self.assertEqual(self.ensure(), plain)
        self.assertEqual(len(self.calls()), 2)
        self.assertEqual(set(self.calls()[1]) - set(self.calls()[0]), {"openmpi-bin", "nfs-common"})
        found = entries(extra / "root.cpio")
        self.assertIn("usr/share/openmpi-bin/data", found, "programs read what they have there")
        self.assertNotIn("usr/share/doc/openmpi-bin/README", found)

    def test_extra_modules_come_with_what_they_need_and_are_loaded_behind_the_others(self):
        found = entries(self.ensure("modules=['nvme_rdma']") / "root.cpio")
        order = found["lib/modules/order"].decode().split()
        self.assertEqual(order[-2:], ["base_of_nvme", "nvme_rdma"])
        self.assertIn("lib/modules/base_of_nvme.ko", found)

    def test_two_that_ask_at_the_same_time_build_it_once(self):
        processes = [self.start(), self.start()]
        found = {process.communicate(timeout=30)[0] for process in processes}
        self.assertEqual((len(found), len(self.calls())), (1, 1))

    def test_all_are_those_that_tests_boot(self):
        command = [sys.executable, "-B", self.tree / "image", "--all"]
        run = lambda: subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60,
                                     check=False)
        done = run()
        self.assertEqual(done.returncode, 0, done.stderr)
        folders = done.stdout.splitlines()
        self.assertEqual(len(set(folders)), 4)
        self.assertTrue(all(os.path.isdir(folder) for folder in folders))
        usual = set.intersection(*map(set, self.calls()))
        extra = [set(call) - usual for call in self.calls()]
        self.assertEqual(extra[:2], [set(), {"iperf3"}])
        self.assertLessEqual({"openmpi-bin"}, extra[2])
        self.assertLessEqual({"libbpf1"}, extra[3])
        self.assertEqual(run().stdout.splitlines(), folders)
        self.assertEqual(len(self.calls()), 4)

    def test_a_build_that_fails_leaves_nothing_and_says_why(self):
        for arguments, why in (("['no-such-package']", "Unable to locate package no-such-package"),
                               ("modules=['no_such_module']", "no module no_such_module")):
            process = self.start(arguments)
            errors = process.communicate(timeout=30)[1]
            self.assertNotEqual(process.returncode, 0)
            self.assertIn(why, errors)
            self.assertEqual([name for name in os.listdir(self.cache) if name != "lock"], [])

    def test_what_nobody_asked_for_in_a_week_goes_when_something_is_built(self):
        old = self.ensure()
        (self.cache / "packages-cut-short.new").mkdir()
        week_ago = time.time() - 8 * 86400
        for path in self.cache.iterdir():
            if path.is_dir():
                os.utime(path, (week_ago, week_ago))
        new = self.ensure("['extra']")
        self.assertFalse(old.exists())
        self.assertTrue(new.exists())
        self.assertEqual(len(os.listdir(self.cache)), 3, "lock, packages, image")


if __name__ == "__main__":
    unittest.main(verbosity=2)
