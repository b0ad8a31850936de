# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The images that guests boot, kept in the user's cache for all builds and clones.

An image is a folder with two files: `vmlinux`, and `root.cpio`, an initial RAM file system with everything that a guest
runs. Guests share the files and write to none of them. It is put together from two layers, each named by a hash of all
that goes into it:

- packages-HASH: what guest_packages.py makes of a list of packages and kernel modules. A minute, and the network.
- image-HASH: that, and our own files (`init`, `agent.pl`, the text files below). A second.
"""
import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
import time

import guest_packages

HERE = os.path.dirname(os.path.abspath(__file__))
OWN_FILES = {"init": "init", "sbin/weft-agent": "agent.pl"}
# Programs look users and hosts up; tcpdump looks for a user of its own.
OWN_TEXTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\ntcpdump:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nservices: files\n",
}
EXTRA_MARK = "etc/weft-extra"
EMPTY_FOLDERS = ("dev", "proc", "sys", "run", "tmp", "root", "var/lib", "var/log", "var/tmp")
KEEP_S = 7 * 86400


def cache_folder():
    """Where images are kept: $WEFT_GUEST_CACHE, or weft/guests in the user's cache, so that clones share them."""
    default = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "weft/guests")
    return os.environ.get("WEFT_GUEST_CACHE") or default


def _digest(values, *paths):
    digest = hashlib.sha256(repr(values).encode())
    for path in paths:
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()[:16]


def packages_name(extra_packages=(), modules=()):
    """Names the layer of packages by all that goes into it; the order of extra packages does not matter."""
    return "packages-" + _digest((sorted(set(extra_packages)), modules), os.path.join(HERE, "guest_packages.py"))


def image_name(extra_packages=(), modules=()):
    """Names an image by all that goes into it."""
    own = [os.path.join(HERE, name) for name in ("guest_image.py", *OWN_FILES.values())]
    return "image-" + _digest(packages_name(extra_packages, modules), *own)


def _write_image(folder, packages, extra):
    """The kernel is a link to that of the packages; the file system is theirs with our own files behind it. `extra`:
    init is told that there are extra packages."""
    kernel = os.path.join(folder, guest_packages.KERNEL)
    os.link(os.path.join(packages, guest_packages.KERNEL), kernel)
    with open(os.path.join(folder, "root.cpio"), "wb") as file:
        with open(os.path.join(packages, guest_packages.ARCHIVE), "rb") as first:
            shutil.copyfileobj(first, file, 1 << 20)
        archive = guest_packages.Archive(file)
        for path, source in OWN_FILES.items():
            with open(os.path.join(HERE, source), "rb") as own:
                archive.add(path, stat.S_IFREG | 0o755, own.read())
        for path, text in {**OWN_TEXTS, **({EXTRA_MARK: ""} if extra else {})}.items():
            archive.add(path, stat.S_IFREG | 0o644, text.encode())
        for path in EMPTY_FOLDERS:
            archive.add(path, stat.S_IFDIR | 0o755)
        archive.close()


def _remove_old(cache):
    """Removes builds that were cut short, and what nobody asked for in a week: one image is 130 MB."""
    for name in os.listdir(cache):
        path = os.path.join(cache, name)
        if name.endswith(".new") or (os.path.isdir(path) and time.time() - os.stat(path).st_mtime > KEEP_S):
            shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _exclusive(path):
    with open(path, "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _layer(cache, name, write):
    """The folder of a layer, which `write` fills first if it does not exist. The cache is locked."""
    folder = os.path.join(cache, name)
    if not os.path.isdir(folder):
        unfinished = folder + ".new"
        os.mkdir(unfinished)
        try:
            write(unfinished)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        os.rename(unfinished, folder)
    os.utime(folder)
    return folder


def ensure(extra_packages=(), modules=()):
    """Returns the folder of the image with these Debian packages and kernel modules beside those that every guest has.
    What the cache does not have is built first. Modules are loaded when the guest boots, in this order."""
    modules = tuple(modules)
    cache = cache_folder()
    name = image_name(extra_packages, modules)
    folder = os.path.join(cache, name)
    if os.path.isdir(folder):
        os.utime(folder)
        return folder
    os.makedirs(cache, exist_ok=True)
    with _exclusive(os.path.join(cache, "lock")):
        _remove_old(cache)
        packages = _layer(cache, packages_name(extra_packages, modules),
                          lambda path: guest_packages.build(path, sorted(set(extra_packages)), modules))
        return _layer(cache, name, lambda path: _write_image(path, packages, bool(extra_packages)))
