// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weft-qp-agent/capabilities.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace weft::agent {
namespace {

using Sets = std::array<__user_cap_data_struct, 2>;

void keep(Sets& sets, unsigned capability, const Sets& before) {
  const std::uint32_t bit = 1u << capability % 32;
  sets[capability / 32].permitted |= before[capability / 32].permitted & bit;
  sets[capability / 32].effective |= before[capability / 32].effective & bit;
}

}  // namespace

std::string drop_capabilities(bool keep_bpf) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  Sets before{}, after{};
  if (syscall(SYS_capget, &header, before.data()) != 0) return std::string("capget: ") + std::strerror(errno);
  // Another user's maps and root are readable with these two.
  keep(after, CAP_DAC_READ_SEARCH, before);
  keep(after, CAP_SYS_PTRACE, before);
  // A library that a process opens later is watched later.
  if (keep_bpf) {
    for (const unsigned each : {CAP_SYS_ADMIN, CAP_BPF, CAP_PERFMON}) keep(after, each, before);
  }
  if (syscall(SYS_capset, &header, after.data()) != 0) return std::string("capset: ") + std::strerror(errno);
  return "";
}

}  // namespace weft::agent
