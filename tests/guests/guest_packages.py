# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Turns Debian packages into the parts of an image that do not depend on our own files: Debian's kernel, and an archive
of what the packages install. Takes a minute and the network, so guest_image.py keeps the result.

The kernel is taken out of its compressed envelope: QEMU enters it by PVH, and unpacking xz in an emulated CPU takes
longer than the rest of the boot. Packages are unpacked, not installed: no maintainer script runs, root is not needed,
nothing is mounted.
"""
import lzma
import os
import re
import stat
import subprocess
import tarfile
import tempfile

SUITE = "bookworm"
PACKAGES = (
    "linux-image-amd64",  # the cloud flavour has no rdma_rxe
    "perl-base", "dash", "coreutils", "mount", "util-linux", "grep", "sed", "libc-bin", "kmod", "procps",
    "iproute2", "iputils-ping", "ethtool", "tcpdump",
    "rdma-core", "ibverbs-utils", "ibverbs-providers", "rdmacm-utils", "perftest", "qperf",
    "libisal2",  # our own programs compute ICRCs with it
)
# In an order that satisfies soft dependencies; hard ones are followed. The crc32 implementations serve rxe's ICRC.
MODULES = ("virtio_pci", "virtio_console", "virtio_net", "virtio_rng", "crc32_generic", "crc32_pclmul", "ib_uverbs",
           "rdma_ucm", "rdma_rxe", "ib_umad")
_NEVER = r"boot|var|lib/(systemd|udev|modules)|etc/(apt|cron|init|rc|systemd|pam|security|selinux|udev)[^/]*"
# What the packages above bring and do not need here.
_UNUSED = re.compile(rf"({_NEVER}|usr/share|usr/include|usr/lib/x86_64-linux-gnu/(gconv|perl)|etc/perl)(/|$)")
# What no program needs, whatever it is.
_UNUSED_BY_ALL = re.compile(rf"({_NEVER}|usr/include|usr/share/(doc|doc-base|info|lintian|locale|man))(/|$)")
_XZ_MAGIC = b"\xfd7zXZ\x00"
KERNEL, ARCHIVE = "vmlinux", "packages.cpio"


class Archive:
    """A cpio archive in the format that the kernel unpacks (newc: Documentation/driver-api/early-userspace). Several
    make one when they follow each other: files of a later one replace those of an earlier one."""

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


def load_order(modules, wanted):
    """Names of the wanted modules and of those that they need, each after what it needs."""
    order = []

    def visit(name):
        if name in order:
            return
        if name not in modules:
            raise RuntimeError(f"the kernel has no module {name} (it may be built in)")
        needed = re.search(rb"\0depends=([^\0]*)\0", modules[name]).group(1).decode()
        for dependency in filter(None, needed.split(",")):
            visit(dependency.replace("-", "_"))
        order.append(name)

    for name in wanted:
        visit(name)
    return order


def unpack_kernel(image):
    """The ELF file inside a bzImage."""
    start = image.index(_XZ_MAGIC)
    kernel = lzma.LZMADecompressor(format=lzma.FORMAT_XZ).decompress(image[start:])
    if not kernel.startswith(b"\x7fELF"):
        raise RuntimeError("the kernel's xz stream holds no ELF file")
    return kernel


def convert(packages, folder, wanted_modules, unused):
    """Writes KERNEL and ARCHIVE from a tar stream of unpacked packages."""
    kernel = None
    modules = {}
    with open(os.path.join(folder, ARCHIVE), "wb") as file, tarfile.open(fileobj=packages, mode="r|") as tar:
        archive = Archive(file)
        hard_links = {}
        for member in tar:
            path = member.name.removeprefix("./").strip("/")
            content = tar.extractfile(member).read() if member.isreg() else b""
            if path.startswith("boot/vmlinuz-"):
                kernel = unpack_kernel(content)
            elif path.endswith(".ko"):
                modules[module_name(path)] = content
            elif not path or unused.match(path):
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
            if not unused.match(target):
                archive.add(path, stat.S_IFLNK | 0o777, b"/" + target.encode())
        order = load_order(modules, wanted_modules)
        for name in order:
            archive.add(f"lib/modules/{name}.ko", stat.S_IFREG | 0o644, modules[name])
        archive.add("lib/modules/order", stat.S_IFREG | 0o644, "\n".join(order).encode() + b"\n")
        archive.close()
    if kernel is None:
        raise RuntimeError("the packages hold no kernel")
    with open(os.path.join(folder, KERNEL), "wb") as file:
        file.write(kernel)


def build(folder, extra_packages=(), extra_modules=()):
    """Writes KERNEL and ARCHIVE of these packages and modules, beside those that every guest has, to a folder."""
    include = ",".join((*PACKAGES, *extra_packages))
    unused = _UNUSED_BY_ALL if extra_packages else _UNUSED
    command = ["mmdebstrap", "--quiet", "--variant=extract", "--format=tar", "--include=" + include, SUITE, "-"]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
        try:
            convert(process.stdout, folder, (*MODULES, *extra_modules), unused)
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
