// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The Python module: `import weft_torch` makes the backend "weft" known to torch.distributed.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include <string>

#include "collectives/torch/process_group.h"

namespace weft::inc::pytorch {
namespace {

using Group = c10::intrusive_ptr<ProcessGroupWeft>;

pybind11::dict describe(const weft_inc_group_info& info) {
  pybind11::dict calls;
  for (int reason = 0; reason < WEFT_INC_REASONS; ++reason) {
    if (info.calls[reason] == 0) continue;
    calls[weft_inc_reason_name(static_cast<weft_inc_reason>(reason))] = info.calls[reason];
  }
  pybind11::dict out;
  out["group"] = info.group;
  out["reason"] = weft_inc_reason_name(info.reason);
  out["detail"] = info.detail;
  out["calls"] = calls;
  return out;
}

/// Of torch.distributed's creator functions. Says in Python's log what became of the group.
Group create(const c10::intrusive_ptr<::c10d::Store>& store, int rank, int size,
             const std::chrono::duration<float>& timeout) {
  Group made;
  {
    const pybind11::gil_scoped_release released;
    made = c10::make_intrusive<ProcessGroupWeft>(store, rank, size,
                                                 std::chrono::duration_cast<std::chrono::milliseconds>(timeout));
  }
  const weft_inc_group_info info = made->info();
  const pybind11::object log = pybind11::module_::import("logging").attr("getLogger")("weft_torch");
  if (info.reason == WEFT_INC_REASON_NONE) {
    log.attr("info")("group %d: collectives of %d ranks by switches", info.group, size);
  } else {
    const std::string detail = info.detail;
    log.attr("info")("collectives of %d ranks by their hosts: %s%s", size, weft_inc_reason_name(info.reason),
                     detail.empty() ? detail : ", " + detail);
  }
  return made;
}

}  // namespace
}  // namespace weft::inc::pytorch

PYBIND11_MODULE(weft_torch, m) {
  using weft::inc::pytorch::ProcessGroupWeft;
  m.doc() = "The backend \"weft\" of torch.distributed: collectives by switches, or by hosts where switches cannot.";
  const pybind11::object backends = pybind11::module_::import("torch.distributed").attr("Backend");
  pybind11::class_<ProcessGroupWeft, ::c10d::ProcessGroup, c10::intrusive_ptr<ProcessGroupWeft>>(m, "ProcessGroupWeft")
      .def(
          "info", [](const ProcessGroupWeft& group) { return weft::inc::pytorch::describe(group.info()); },
          "As of the last collective that is over: `group`, its number on the switches; `reason` for which it has\n"
          "none, or 'none', and its `detail`; `calls`, how many collectives ran by the reason for which hosts had to\n"
          "run them ('none': switches did).");
  m.def("create", &weft::inc::pytorch::create, "A process group of torch.distributed. Collective.",
        pybind11::arg("store"), pybind11::arg("rank"), pybind11::arg("size"), pybind11::arg("timeout"));
  backends.attr("register_backend")("weft", m.attr("create"));
}
