#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The remote shell of guests, on this host."""
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import remote_shell

PORT = 22990


class RemoteShell(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="weft-shell-"))
        self.client = self.script("client", remote_shell.client(PORT))
        slow = self.script("slow", "#!/bin/sh\nsleep 1\nexec /bin/sh\n")
        server = subprocess.Popen(["sh", "-c", remote_shell.server(PORT, slow)])
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        while subprocess.run(["sh", "-c", f"socat -u OPEN:/dev/null TCP:127.0.0.1:{PORT} 2>/dev/null"],
                             check=False).returncode != 0:
            time.sleep(0.1)

    def script(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def test_a_shell_that_is_slow_runs_its_command_to_the_end(self):
        found = subprocess.run([self.client, "127.0.0.1", "echo began; sleep 1; echo ended"], capture_output=True,
                               text=True, timeout=60, check=True)
        self.assertEqual(found.stdout, "began\nended\n")


if __name__ == "__main__":
    if shutil.which("socat") is None:
        print("SKIP: socat is not installed (tools/install-deps check)")
        sys.exit(77)
    unittest.main()
