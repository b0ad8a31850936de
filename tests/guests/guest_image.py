# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Builds the image that all guests boot: Debian's kernel, and a root file system that lives in memory.

The image is a folder with two files: `vmlinux`, the kernel taken out of its compressed envelope (QEMU enters it by
PVH; unpacking xz in an emulated CPU takes longer than the rest of the boot), and `root.cpio`, an initial RAM file
system with everything that a guest runs. Guests share the files and write to none of them.

Packages are unpacked, not installed: no maintainer script runs, root is not needed, nothing is mounted.
"""
import contextlib
import fcntl
import hashlib
import lzma
import os
import re
import shutil
import stat
import subprocess
import tarfile
import tempfile
import time

SUITE = "bookworm"
PACKAGES = (
    "linux-image-amd64",  # the cloud flavour has no rdma_rxe
    "perl-base", "dash", "coreutils", "mount", "util-linux", "grep", "sed", "libc-bin", "kmod", "procps",
    "iproute2", "iputils-ping", "ethtool", "tcpdump",
    "rdma-core", "ibverbs-utils", "ibverbs-providers", "rdmacm-utils", "perftest", "qperf",
)
# In an order that satisfies soft dependencies; hard ones are followed. The crc32 implementations serve rxe's ICRC.
MODULES = ("virtio_pci", "virtio_console", "virtio_net", "virtio_rng", "crc32_generic", "crc32_pclmul", "ib_uverbs",
           "rdma_ucm", "rdma_rxe", "ib_umad")
UNUSED = re.compile(r"(boot|usr/share|usr/include|usr/lib/x86_64-linux-gnu/(gconv|perl)|var|lib/(systemd|udev|modules)|"
                    r"etc/(apt|cron|init|rc|systemd|pam|security|selinux|udev|perl)[^/]*)(/|$)")
HERE = os.path.dirname(os.path.abspath(__file__))
OWN_FILES = {"init": "init", "sbin/weft-agent": "agent.pl"}
KEEP_S = 7 * 86400
XZ_MAGIC = b"\xfd7zXZ\x00"


def cache_folder():
    """Where images are kept: $WEFT_GUEST_CACHE, or weft/guests in the user's cache, so that clones share them."""
    default = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "weft/guests")
    return os.environ.get("WEFT_GUEST_CACHE") or default


def fingerprint():
    """Names the image by all that goes into it."""
    digest = hashlib.sha256(repr((SUITE, PACKAGES, MODULES, UNUSED.pattern)).encode())
    for name in ("guest_image.py", *OWN_FILES.values()):
        with open(os.path.join(HERE, name), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()[:16]


class Archive:
    """A cpio archive in the format that the kernel unpacks (newc: Documentation/driver-api/early-userspace)."""

    def __init__(self, file):
        self.file = file
        self.inode = 0
        self.folders = set()

    def add(self, path, mode, data=b""):
        """Adds a file, symbolic link (data is its target) or folder (mode says which), and the folders above it."""
        parent = os.path.dirname(path)
        if parent and parent not in self.folders:
            self.add(parent, stat.S_IFDIR | 0o755)
        if stat.S_ISDIR(mode):
            if path in self.folders:
                return
            self.folders.add(path)
        self._entry(path, mode, data)

    def _entry(self, path, mode, data):
        self.inode += 1
        name = path.encode() + b"\0"
        fields = (self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
        header = b"070701" + "".join(f"{field:08x}" for field in fields).encode()
        for part in (header + name, data):
            self.file.write(part + b"\0" * (-len(part) % 4))

    def close(self):
        self._entry("TRAILER!!!", 0, b"")


def module_name(path):
    return os.path.basename(path)[:-len(".ko")].replace("-", "_")


def load_order(modules):
    """Names of the wanted modules and of those that they need, each after what it needs."""
    order = []

    def visit(name):
        if name in order:
            return
        needed = re.search(rb"\0depends=([^\0]*)\0", modules[name]).group(1).decode()
        for dependency in filter(None, needed.split(",")):
            visit(dependency.replace("-", "_"))
        order.append(name)

    for name in MODULES:
        visit(name)
    return order


def unpack_kernel(image):
    """The ELF file inside a bzImage."""
    start = image.index(XZ_MAGIC)
    kernel = lzma.LZMADecompressor(format=lzma.FORMAT_XZ).decompress(image[start:])
    if not kernel.startswith(b"\x7fELF"):
        raise RuntimeError("the kernel's xz stream holds no ELF file")
    return kernel


def convert(packages, folder):
    """Writes the image's files from a tar stream of unpacked packages."""
    kernel = None
    modules = {}
    with open(os.path.join(folder, "root.cpio"), "wb") as file, tarfile.open(fileobj=packages, mode="r|") as tar:
        archive = Archive(file)
        hard_links = {}
        for member in tar:
            path = member.name.removeprefix("./").strip("/")
            content = tar.extractfile(member).read() if member.isreg() else b""
            if path.startswith("boot/vmlinuz-"):
                kernel = unpack_kernel(content)
            elif path.endswith(".ko"):
                modules[module_name(path)] = content
            elif not path or UNUSED.match(path):
                continue
            elif member.issym():
                archive.add(path, stat.S_IFLNK | 0o777, member.linkname.encode())
            elif member.isdir():
                archive.add(path, stat.S_IFDIR | 0o755)
            elif member.isreg():
                archive.add(path, stat.S_IFREG | member.mode & 0o755, content)
            elif member.islnk():
                hard_links[path] = member.linkname.removeprefix("./").strip("/")
        for path, target in hard_links.items():
            if not UNUSED.match(target):
                archive.add(path, stat.S_IFLNK | 0o777, b"/" + target.encode())
        order = load_order(modules)
        for name in order:
            archive.add(f"lib/modules/{name}.ko", stat.S_IFREG | 0o644, modules[name])
        archive.add("lib/modules/order", stat.S_IFREG | 0o644, "\n".join(order).encode() + b"\n")
        for path, source in OWN_FILES.items():
            with open(os.path.join(HERE, source), "rb") as own:
                archive.add(path, stat.S_IFREG | 0o755, own.read())
        for path in ("dev", "proc", "sys", "run", "tmp", "root"):
            archive.add(path, stat.S_IFDIR | 0o755)
        archive.close()
    if kernel is None:
        raise RuntimeError("the packages hold no kernel")
    with open(os.path.join(folder, "vmlinux"), "wb") as file:
        file.write(kernel)


def build(folder):
    command = ["mmdebstrap", "--quiet", "--variant=extract", "--format=tar", "--include=" + ",".join(PACKAGES), SUITE,
               "-"]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
        try:
            convert(process.stdout, folder)
        except tarfile.TarError as error:
            failure = error
        else:
            failure = None
        finally:
            process.stdout.close()
            if process.wait() != 0:
                errors.seek(0)
                raise RuntimeError(f"{' '.join(command)} failed:\n{errors.read().decode(errors='replace')}")
        if failure:
            raise failure


def remove_old(cache):
    """Removes builds that were cut short, and images that nobody asked for in a week: one image is 130 MB."""
    for name in os.listdir(cache):
        path = os.path.join(cache, name)
        if name.endswith(".new") or (os.path.isdir(path) and time.time() - os.stat(path).st_mtime > KEEP_S):
            shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def exclusive(path):
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def ensure():
    """Returns the folder of the image, which is built first if the cache has none of these inputs."""
    cache = cache_folder()
    folder = os.path.join(cache, fingerprint())
    if os.path.isdir(folder):
        os.utime(folder)
        return folder
    os.makedirs(cache, exist_ok=True)
    with exclusive(os.path.join(cache, "lock")):
        if os.path.isdir(folder):
            return folder
        remove_old(cache)
        unfinished = folder + ".new"
        os.mkdir(unfinished)
        try:
            build(unfinished)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        os.rename(unfinished, folder)
    return folder
