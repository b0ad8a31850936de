#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""The Debian packages: what they hold, that they install and go away, and that what they hold works."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
BUILD = os.environ.get("WEFT_BUILD") or os.path.join(ROOT, "build")
# It is built where libbpf-dev and clang are.
AGENT = ("weft-qp-agent",) if os.path.exists(BUILD + "/bin/weft-qp-agent") else ()
AGENT_FILES = ("usr/bin/weft-qp-agent", "usr/share/man/man8/weft-qp-agent.8",
               "usr/lib/systemd/system/weft-qp-agent.service") if AGENT else ()
# Drivers that DPDK loads by name, for the port types of the configuration.
DRIVERS = ("af-packet", "memif", "null", "pcap", "tap", "vhost")


def run(*command, **options):
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, **options)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def read(path):
    with open(path) as file:
        return file.read()


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for old in glob.glob(BUILD + "/weft_*.deb") + glob.glob(BUILD + "/weft-*_*.deb"):
            os.unlink(old)
        run("cmake", "--build", BUILD, "--target", "deb")
        cls.package, = glob.glob(BUILD + "/weft_*.deb")
        cls.host_package, = glob.glob(BUILD + "/weft-host_*.deb")
        cls.directory = tempfile.mkdtemp(prefix="weft-package-")
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.root = os.path.join(cls.directory, "root")
        # Where Open MPI is installed, and PyTorch.
        cls.mpi_packages = glob.glob(BUILD + "/weft-openmpi_*.deb")
        cls.torch_packages = glob.glob(BUILD + "/weft-torch_*.deb")
        cls.packages = (cls.package, cls.host_package, *cls.mpi_packages, *cls.torch_packages)
        for package in cls.packages:
            run("dpkg-deb", "-x", package, cls.root)

    def installed(self, path):
        return os.path.join(self.root, path)

    def field(self, name, package=None):
        return run("dpkg-deb", "-f", package or self.package, name).strip()

    def test_it_holds_what_a_user_needs(self):
        for path in ("usr/bin/weft-switch", "usr/bin/weftctl", "usr/lib/systemd/system/weft-switch.service",
                     "usr/lib/systemd/system/weft-switch@.service", "usr/share/bash-completion/completions/weftctl",
                     "usr/share/man/man8/weft-switch.8", "usr/share/man/man1/weftctl.1",
                     "usr/bin/weft-rnic", "usr/share/man/man1/weft-rnic.1", "usr/bin/weft-sim",
                     "usr/bin/weft-flow", "usr/share/man/man1/weft-flow.1",
                     "usr/share/man/man1/weft-sim.1", "usr/share/weft/sim/ring.yaml", "usr/bin/weft-lab",
                     "usr/share/man/man1/weft-lab.1", "usr/share/weft/conf/labs/spraying.yaml",
                     "usr/lib/systemd/system/weft-inc-manager.service",
                     "usr/bin/weft-inc-manager", "usr/share/man/man8/weft-inc-manager.8", "usr/bin/weft-inc",
                     "usr/share/man/man1/weft-inc.1", "usr/share/weft/conf/inc-manager/inc-tree.yaml",
                     "usr/share/man/man5/weft.yaml.5", "usr/share/weft/conf/l2-tor.yaml",
                     "usr/share/weft/conf/schema.json", "usr/share/weft/conf/grafana/weft.json",
                     "usr/bin/weft-incd", "usr/share/man/man8/weft-incd.8",
                     "usr/lib/systemd/system/weft-incd.service", "usr/include/weft_inc.h",
                     "usr/share/doc/weft-host/copyright", "usr/share/doc/weft/copyright", *AGENT_FILES):
            self.assertTrue(os.path.isfile(self.installed(path)), path)

    def test_everything_belongs_to_root_and_nobody_else_may_write_it(self):
        for line in [line for package in self.packages for line in run("dpkg-deb", "-c", package).splitlines()]:
            if not line.startswith("l"):
                self.assertRegex(line, r"^[-d]rw[-x]r-[-x]r-[-x] root/root ", line)

    def test_descriptions_are_their_own(self):
        self.assertTrue(self.field("Description").startswith("software top-of-rack switch for RoCEv2\n"))
        self.assertTrue(self.field("Description", self.host_package).startswith("collectives on the switches of weft"))

    def test_no_file_is_in_both(self):
        files = [{line.split()[5] for line in run("dpkg-deb", "-c", package).splitlines() if not line.startswith("d")}
                 for package in self.packages]
        self.assertEqual(len(set.union(*files)), sum(len(some) for some in files))
        self.assertIn("./usr/bin/weft-incd", files[1])

    def test_open_mpi_finds_the_installed_component(self):
        if not self.mpi_packages or shutil.which("ompi_info") is None:
            self.skipTest("Open MPI is not installed")
        self.assertIn("weft-host", self.field("Depends", self.mpi_packages[0]))
        self.assertIn("libopenmpi3", self.field("Depends", self.mpi_packages[0]))
        system = run("ompi_info", "--path", "pkglibdir", "--parsable").strip().split(":")[-1]
        component = self.installed(os.path.realpath(system)[1:] + "/mca_coll_weft.so")
        self.assertTrue(os.path.isfile(component), component)
        libraries = os.path.dirname(glob.glob(self.installed("usr/lib/**/libweftinc.so.2"), recursive=True)[0])
        says = run("ompi_info", "--param", "coll", "weft", "--level", "6",
                   env={**os.environ, "LD_LIBRARY_PATH": libraries,
                        "OMPI_MCA_mca_base_component_path": f"{os.path.dirname(component)}:{system}"})
        self.assertIn("coll_weft_use", says)

    def test_pytorch_finds_the_installed_backend(self):
        if not self.torch_packages:
            self.skipTest("PyTorch's headers were not installed when weft was built")
        depends = self.field("Depends", self.torch_packages[0])
        for package in ("weft-host", "python3-torch", "libtorch1.13"):
            self.assertIn(package, depends)
        libraries = os.path.dirname(glob.glob(self.installed("usr/lib/**/libweftinc.so.2"), recursive=True)[0])
        says = run("/usr/bin/python3", "-c", "import torch.distributed, weft_torch; print(weft_torch.__file__, "
                   "torch.distributed.Backend('weft'))",
                   env={**os.environ, "LD_LIBRARY_PATH": libraries,
                        "PYTHONPATH": self.installed("usr/lib/python3/dist-packages")})
        self.assertRegex(says, f"^{re.escape(self.root)}/.* weft$")

    def test_nccl_finds_the_installed_plugin(self):
        plugin, = glob.glob(self.installed("usr/lib/**/libnccl-net-weftinc.so"), recursive=True)
        names = run("nm", "-D", "--defined-only", plugin)
        for version in range(7, 11):
            for kind in ("Net", "CollNet"):
                self.assertIn(f" nccl{kind}Plugin_v{version}\n", names)

    def test_a_program_builds_with_the_installed_library(self):
        """A stranger's program: its header, its pkg-config file, no library of the control plane."""
        config, = glob.glob(self.installed("usr/lib/**/pkgconfig/weftinc.pc"), recursive=True)
        environment = {**os.environ, "PKG_CONFIG_PATH": os.path.dirname(config),
                       "PKG_CONFIG_SYSROOT_DIR": self.root, "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1",
                       "PKG_CONFIG_ALLOW_SYSTEM_LIBS": "1"}
        flags = run("pkg-config", "--cflags", "--libs", "weftinc", env=environment).split()
        source, program = (os.path.join(self.directory, name) for name in ("stranger.c", "stranger"))
        with open(source, "w") as file:
            file.write('#include <stdio.h>\n#include <weft_inc.h>\n'
                       'int main(void) { return puts(weft_inc_op_name(WEFT_INC_BXOR)) < 0; }\n')
        run("cc", "-Wall", "-Werror", "-o", program, source, *flags)
        libraries = os.path.dirname(os.path.dirname(config))
        self.assertEqual(run(program, env={**os.environ, "LD_LIBRARY_PATH": libraries}), "bxor\n")
        needed = run("readelf", "-d", glob.glob(libraries + "/libweftinc.so.2")[0])
        for library in ("grpc", "protobuf", "librte"):
            self.assertNotIn(library, needed)

    def test_libraries_and_drivers_are_dependencies(self):
        depends = self.field("Depends")
        for library in ("libc6", "libgrpc++", "librte-eal", "libyaml-cpp", "libprometheus-cpp-pull", "libsystemd0",
                        "librte-mempool-ring", "librte-mempool-stack",
                        *(f"librte-net-{driver}" for driver in DRIVERS)):
            self.assertIn(library, depends)
        self.assertIn("libgrpc++", self.field("Depends", self.host_package))
        self.assertNotIn("librte", self.field("Depends", self.host_package))

    def test_every_dependency_is_a_package_that_exists(self):
        known = set()
        for line in run("dpkg-query", "-W", "-f=${db:Status-Status} ${Package} ${Provides}\n").splitlines():
            if line.startswith("installed "):
                known |= set(re.findall(r"[a-z0-9][a-z0-9+.-]+", line))
        for package in self.packages:
            for dependency in self.field("Depends", package).split(", "):
                self.assertIn(dependency.split(" ")[0], known | {"weft-host"})

    def test_the_installed_program_accepts_the_installed_configurations(self):
        files = glob.glob(self.installed("usr/share/weft/conf/*.yaml"))
        self.assertGreaterEqual(len(files), 7)
        for path in files:
            self.assertIn("fine", run(self.installed("usr/bin/weft-switch"), "-c", path, "--check"))

    def test_the_installed_programs_name_the_version_of_the_package(self):
        for program in ("weft-switch", "weftctl", "weft-rnic", "weft-sim", "weft-flow", "weft-inc-manager", "weft-inc",
                        "weft-incd", *AGENT):
            self.assertIn(self.field("Version"), run(self.installed("usr/bin/" + program), "--version"))

    def test_the_installed_lab_and_simulator_read_the_installed_files(self):
        lab = run(self.installed("usr/bin/weft-lab"), "--programs", self.installed("usr/bin"), "check",
                  self.installed("usr/share/weft/conf/labs/leaf-spine.yaml"))
        self.assertIn("fine", lab)
        out = os.path.join(self.directory, "ring.json")
        # Others may run the simulator meanwhile: the name of its folder ends with the process's number.
        process = subprocess.Popen([self.installed("usr/bin/weft-sim"), "run",
                                    self.installed("usr/share/weft/sim/ring.yaml"), "--quiet",
                                    "--set", "workload.bytes=100000", "--json", out], stdout=subprocess.DEVNULL)
        self.assertEqual(process.wait(120), 0)
        self.assertGreater(json.loads(read(out))["summary"]["completion_ms"], 0)
        self.assertEqual(glob.glob(f"/var/run/dpdk/weft-sim{process.pid}*"), [], "left behind")

    def test_the_installed_experiments_find_the_files_that_they_name(self):
        examples = glob.glob(self.installed("usr/share/weft/sim/*.yaml"))
        self.assertGreaterEqual(len(examples), 5)
        for path in examples:
            # A moment of it: 5 says that not all transfers have ended.
            result = subprocess.run([self.installed("usr/bin/weft-sim"), "run", path, "--quiet", "--set",
                                     "time_limit_ms=0.01"], capture_output=True, text=True, timeout=100)
            self.assertIn(result.returncode, (0, 5), path + ": " + result.stderr)

    def test_the_manual_pages_say_what_only_the_source_trees_readmes_said_before(self):
        page = lambda path: read(self.installed("usr/share/man/" + path)).replace("\\-", "-")
        sim, lab, switch = page("man1/weft-sim.1"), page("man1/weft-lab.1"), page("man8/weft-switch.8")
        for key in ("topology", "workload", "nack_filter", "goodput_gbps", "4 packets unaccounted for",
                    "/usr/share/weft/sim"):
            self.assertIn(key, sim)
        for key in ("topology: kind: leaf_spine", "variants", "message_bytes", "/usr/share/weft/conf/labs"):
            self.assertIn(key, lab)
        self.assertIn("SIGHUP", switch)
        for text in (sim, lab):
            self.assertNotIn("`", text)

    def test_it_installs_and_goes_away_without_a_trace(self):
        if os.geteuid() != 0:
            self.skipTest("dpkg needs root")
        root = os.path.join(self.directory, "system")
        for folder in ("info", "updates", "triggers"):
            os.makedirs(os.path.join(root, "var/lib/dpkg", folder))
        with open(os.path.join(root, "var/lib/dpkg/status"), "w"):
            pass
        # The dependencies are those of this machine, not of the empty system.
        dpkg = ("dpkg", "--root=" + root, "--force-depends", "--force-script-chrootless")
        run(*dpkg, "-i", *self.packages)
        for program in ("weft-switch", "weft-incd", *AGENT):
            self.assertTrue(os.path.exists(root + "/usr/bin/" + program))
        run(*dpkg, "-i", *self.packages)
        run(*dpkg, "-r", *(self.field("Package", package) for package in self.packages))
        left = [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names
                if "/var/lib/dpkg" not in folder and "/var/log" not in folder]
        self.assertEqual(left, [])

    def test_the_manual_pages_format_without_warnings(self):
        if shutil.which("man") is None:
            self.skipTest("man is not installed")
        for page in glob.glob(self.installed("usr/share/man/man*/*")):
            result = subprocess.run(["man", "--warnings", "-l", page], capture_output=True, text=True, timeout=60,
                                    env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"})
            self.assertEqual((result.returncode, result.stderr), (0, ""), page)
            self.assertIn("NAME", result.stdout)
            self.assertIn("SEE ALSO", result.stdout)

    def test_the_manual_pages_name_every_option_and_key(self):
        for program, page, least in (("weft-switch", "man8/weft-switch.8", 8), ("weftctl", "man1/weftctl.1", 8),
                                     ("weft-rnic", "man1/weft-rnic.1", 8), ("weft-sim", "man1/weft-sim.1", 8),
                                     ("weft-flow", "man1/weft-flow.1", 8),
                                     ("weft-inc-manager", "man8/weft-inc-manager.8", 6),
                                     ("weft-inc", "man1/weft-inc.1", 8), ("weft-incd", "man8/weft-incd.8", 7),
                                     *((agent, f"man8/{agent}.8", 12) for agent in AGENT)):
            text = read(self.installed("usr/share/man/" + page)).replace("\\-", "-")
            helps = [run(self.installed("usr/bin/" + program), "--help")]
            commands = re.findall(r"^  ([a-z_]+)  ", helps[0].split("Subcommands:")[-1].split("\n\n")[0], re.M)
            helps += [run(self.installed("usr/bin/" + program), command, "--help") for command in commands
                      if "Subcommands:" in helps[0]]
            options = {option for text in helps for option in re.findall(r"^  (?:-\w,)?(--[a-z_-]+)", text, re.M)}
            self.assertGreaterEqual(len(options), least)
            for option in options - {"--help"}:
                self.assertIn(option, text, program)
        text = read(self.installed("usr/share/man/man5/weft.yaml.5"))
        schema = read(ROOT + "/conf/schema.json")
        for key in re.findall(r'"(\w+)": \{\n\s+(?:"additionalProperties": false,\n\s+)?(?:"default": .*\n\s+)?'
                              r'"description"', schema):
            self.assertIn("\\fB" + key + "\\fR", text)

    def completions(self, program, *words):
        """What <Tab> offers behind the words, of which the last one may be empty."""
        script = ("source $1; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _weft; "
                  "printf '%s\\n' \"${COMPREPLY[@]}\"")
        return run("bash", "-c", script, "bash", self.installed("usr/share/bash-completion/completions/" + program),
                   self.installed("usr/bin/" + program), *words, cwd=self.directory).split()

    def test_every_program_has_a_completion(self):
        run("bash", "-n", self.installed("usr/share/bash-completion/completions/weftctl"))
        self.assertEqual(self.completions("weft-sim", ""), ["run", "sweep"])
        self.assertIn("--trace-hash", self.completions("weft-sim", "run", "--tr"))
        self.assertEqual(self.completions("weft-flow", ""), ["explain", "run", "sweep"])
        self.assertLess({"serve", "write_bw", "verify"}, set(self.completions("weft-rnic", "")))
        self.assertEqual(self.completions("weft-rnic", "write_bw", "--loss"), ["--loss-recovery"])
        self.assertEqual(self.completions("weft-switch", "--counters"), ["--counters-out"])
        self.assertEqual(self.completions("weft-inc", "topo"), ["topology"])
        self.assertIn("--print-schema", self.completions("weft-inc-manager", "--pr"))
        self.assertEqual(self.completions("weft-incd", "--soc"), ["--socket", "--socket-mode"])
        for agent in AGENT:
            self.assertEqual(self.completions(agent, "--conn"), ["--connect"])
        # bash loads the file of a program's name, which has to speak of that program.
        folder = self.installed("usr/share/bash-completion/completions")
        self.assertLessEqual({"weft-switch", "weft-incd", "weft-inc", *AGENT}, set(os.listdir(folder)))
        for program in os.listdir(folder):
            run("bash", "-c", "source $1 && complete -p $2", "bash", os.path.join(folder, program), program)
        self.assertIn("root", self.completions("weft-switch", "-c", "ro"))
        self.assertLessEqual({"run", "up", "down"}, set(self.completions("weft-lab", "")))

    def test_the_maintainer_scripts_are_valid_and_leave_other_systems_alone(self):
        for package in (self.package, self.host_package):
            control = os.path.join(self.directory, os.path.basename(package) + "-control")
            run("dpkg-deb", "-e", package, control)
            for script in ("postinst", "prerm", "postrm"):
                run("sh", "-n", os.path.join(control, script))
                self.assertIn('[ -z "${DPKG_ROOT:-}" ]', read(os.path.join(control, script)))


if __name__ == "__main__":
    if shutil.which("dpkg-shlibdeps") is None:
        print("SKIP: the package needs dpkg-dev")
        sys.exit(77)
    unittest.main(verbosity=2)
