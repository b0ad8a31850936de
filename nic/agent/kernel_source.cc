// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/agent/kernel_source.h"

#include "nic/agent/bpf_objects.h"

namespace weft::agent {

std::string KernelSource::open() {
  if (std::string error = programs_.load(kernel_watch_object(), "weft_kernel"); !error.empty()) return error;
  for (const char* program : {"kernel_modify_qp_of_program", "kernel_modify_qp", "kernel_destroy_qp"}) {
    if (std::string error = programs_.attach(program); !error.empty()) {
      programs_.detach_to(0);
      return error;
    }
  }
  return "";
}

}  // namespace weft::agent
