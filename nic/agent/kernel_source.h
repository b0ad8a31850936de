// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Sees queue pairs where the kernel changes them: those of its own users, and the end of those whose process died, too.
#pragma once

#include "nic/agent/bpf_programs.h"

namespace weft::agent {

class KernelSource : public QpEventSource {
 public:
  /// "" or what is wrong: the kernel has no type information (BTF), or no RDMA.
  [[nodiscard]] std::string open();

  [[nodiscard]] int descriptor() const override { return programs_.descriptor(); }
  void read(const Sink& sink) override { programs_.read(sink); }
  [[nodiscard]] std::uint64_t lost() const override { return programs_.lost(); }
  [[nodiscard]] std::string name() const override { return "the kernel's queue pairs"; }

 private:
  BpfPrograms programs_;
};

}  // namespace weft::agent
