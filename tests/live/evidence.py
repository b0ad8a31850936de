# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Keeps what a failed test has seen: logs of switches, consoles of guests.

Whoever makes something worth keeping adds a function to a Collection; when a test fails, all that live collections
have is written to a folder of the build, build/failures/TEST-PID-N, whose path is printed. The newest folders stay.
"""
import contextlib
import os
import shutil
import sys
import unittest

KEEP = 20

_collections = []


def _root():
    """build/failures, beside the folder of the programs; or $WEFT_FAILURES."""
    here = os.path.dirname(os.path.abspath(__file__))
    programs = os.environ.get("WEFT_BIN") or os.path.join(here, "../../build/bin")
    return os.environ.get("WEFT_FAILURES") or os.path.join(os.path.dirname(os.path.realpath(programs)), "failures")


def new_folder(name):
    """Makes a folder for a failure; those that are too many go, the oldest first."""
    root = _root()
    os.makedirs(root, exist_ok=True)
    old = sorted((os.path.join(root, each) for each in os.listdir(root)), key=os.path.getmtime)
    for path in old[:-KEEP]:
        shutil.rmtree(path, ignore_errors=True)
    number = 1
    while True:
        path = os.path.join(root, f"{name}-{os.getpid()}-{number}")
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)
            return path
        number += 1


class Collection:
    """What there is to keep of one test's set-up, until close()."""

    def __init__(self):
        self._writers = []
        _collections.append(self)

    def add(self, writer):
        """writer(folder) writes files to a folder. It may fail: what it was to tell of may be broken."""
        self._writers.append(writer)

    def write(self, folder):
        for writer in self._writers:
            try:
                writer(folder)
            except Exception as error:  # pylint: disable=broad-except
                sys.stderr.write(f"evidence: {type(error).__name__}: {error}\n")

    def close(self):
        with contextlib.suppress(ValueError):
            _collections.remove(self)


def save(*collections, name=None):
    """Writes all that collections have, those given or all that are alive, to one folder, and says where. Returns the
    folder; None when there is nothing to keep."""
    chosen = collections or tuple(_collections)
    if not chosen:
        return None
    try:
        folder = new_folder(name or os.path.basename(sys.argv[0]).removesuffix(".py") or "test")
    except OSError as error:
        sys.stderr.write(f"evidence: {error}\n")
        return None
    for collection in chosen:
        collection.write(folder)
    names = sorted(os.listdir(folder))
    if not names:
        os.rmdir(folder)
        return None
    sys.stderr.write(f"\nkept in {folder}: {', '.join(names)}\n")
    return folder


class Result(unittest.TextTestResult):
    """Saves when a test fails, before what it has made is taken down."""

    def addError(self, test, err):  # pylint: disable=invalid-name
        super().addError(test, err)
        save()

    def addFailure(self, test, err):  # pylint: disable=invalid-name
        super().addFailure(test, err)
        save()

    def addSubTest(self, test, subtest, err):  # pylint: disable=invalid-name
        super().addSubTest(test, subtest, err)
        if err is not None:
            save()


def runner(stream=None):
    """What runs tests so that what they have seen is kept."""
    return unittest.TextTestRunner(stream, resultclass=Result, verbosity=2)
