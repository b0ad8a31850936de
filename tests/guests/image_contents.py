# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""What the guests of tests have beside what every guest has: Debian packages and kernel modules."""
HARNESS_PACKAGES, HARNESS_MODULES = ("iperf3",), ("nvme_rdma",)
# weft-incd's libraries, and a remote shell: mpirun needs one.
MPI_PACKAGES = ("openmpi-bin", "socat", "libgrpc++1.51", "libprotobuf32", "libspdlog1.10", "libsystemd0")
# weft-qp-agent's libraries.
QP_AGENT_PACKAGES = ("libbpf1", "libgrpc++1.51", "libprotobuf32", "libspdlog1.10", "libfmt9", "libsystemd0")
# Users of queue pairs in the kernel: both ends of NVMe over fabrics, and of NFS.
QP_AGENT_MODULES = ("nvme_rdma", "nvmet_rdma", "rpcrdma", "nfsd", "nfsv4")

# (packages, modules) of each image that tests boot, but for those that only tests with the label `full` boot.
ALL = (((), ()), (HARNESS_PACKAGES, HARNESS_MODULES), (MPI_PACKAGES, ()), (QP_AGENT_PACKAGES, QP_AGENT_MODULES))
