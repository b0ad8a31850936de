// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// DPDK's environment for a program with one device, or with packet buffers alone; any number of them side by side.
#pragma once

#include <string>

namespace weft::nic {

/// Starts DPDK in this process, with the memory that one port needs and nothing that others could see. PCI devices need
/// hugepages, others do not. Returns what went wrong, or an empty string. Once per process.
/// @param devargs the device; empty where there is none
[[nodiscard]] std::string start_eal(const std::string& program, const std::string& devargs);

/// The CPUs that this process may use, as a list for --lcores ("0,2"). DPDK binds the thread to a CPU of its choice
/// unless it is told all that the thread may use.
[[nodiscard]] std::string allowed_cpus();

/// The last thing that a process does with DPDK, with all devices closed: removes the files that it keeps for it. Its
/// memory stays until the process ends, because its interrupt thread, which goes on, looks at its list of devices once
/// more after the last one was closed. rte_eal_cleanup() would take the memory from under it.
void stop_eal();

/// True for device strings of a PCI function, "0000:3b:00.1,..." or "pci:...".
[[nodiscard]] bool is_pci_device(const std::string& devargs);

}  // namespace weft::nic
