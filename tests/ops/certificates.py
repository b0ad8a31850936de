# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Authorities and certificates made with openssl, valid for a day."""
import os
import subprocess


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)


class Authority:
    """An authority of its own; every file lies in `folder`."""

    def __init__(self, folder, name):
        self.folder = folder
        self.name = name
        self.certificate = self.path(name + ".crt")
        self.key = self.path(name + ".key")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
                "-subj", "/CN=" + name, "-addext", "keyUsage=critical,keyCertSign", "-keyout", self.key,
                "-out", self.certificate)

    def path(self, name):
        return os.path.join(self.folder, name)

    def sign(self, name, subject_names="DNS:" + "nobody.example", subject=None):
        """Paths of a certificate and its key. Its subject is the name, unless another is given; "": no other names."""
        certificate, key, request, extra = (self.path(name + end) for end in (".crt", ".key", ".csr", ".ext"))
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
                subject or "/CN=" + name, "-keyout", key, "-out", request)
        with open(extra, "w") as file:
            file.write(f"subjectAltName={subject_names}\n" if subject_names else "basicConstraints=CA:FALSE\n")
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial",
                "-days", "1", "-extfile", extra, "-out", certificate)
        return certificate, key
