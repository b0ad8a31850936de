// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "tools/sim/experiment_builder.h"
#include "tools/sim/inc_run.h"

namespace weft::sim {
namespace {

using config::Value;

constexpr std::array<std::pair<std::string_view, Operation>, 6> kOperations{{
    {"allreduce", Operation::allreduce},
    {"reduce", Operation::reduce},
    {"broadcast", Operation::broadcast},
    {"barrier", Operation::barrier},
    {"reducescatter", Operation::reducescatter},
    {"allgather", Operation::allgather},
}};

Operation operation_from(std::string_view name) {
  return std::find_if(kOperations.begin(), kOperations.end(), [&](const auto& o) { return o.first == name; })->second;
}

}  // namespace

void ExperimentBuilder::build_inc(const Value& w, Experiment& out) {
  if (w["operation"].is_null() || w["bytes"].is_null() || w["groups"].is_null()) return;
  IncSpec spec;
  spec.groups = groups_of(w, out);
  if (spec.groups.empty()) return;
  spec.operation = operation_from(w["operation"].string());
  spec.bytes = w["bytes"].unsigned_integer();
  spec.times = static_cast<std::uint32_t>(w["times"].integer());
  spec.window = static_cast<std::uint32_t>(w["window"].integer());
  spec.message_packets = static_cast<std::uint32_t>(w["message_packets"].integer());
  spec.options = w["group"];
  const auto ranks = static_cast<std::uint32_t>(spec.groups[0].size());
  const bool scattered = spec.operation == Operation::reducescatter || spec.operation == Operation::allgather;
  const std::uint64_t unit = scattered ? 4 * ranks : 4;
  if (spec.operation == Operation::barrier ? spec.bytes != 0 : spec.bytes == 0 || spec.bytes % unit != 0) {
    const std::string asked = spec.operation == Operation::barrier ? "0 of a barrier" : "a multiple of ";
    return error(w["bytes"].mark(), "bytes: expected " + asked +
                                        (unit > 0 && spec.operation != Operation::barrier ? std::to_string(unit) : "") +
                                        ", found " + std::to_string(spec.bytes));
  }
  if (std::uint64_t{spec.times} * (scattered ? ranks : 1) > UINT16_MAX) {
    return error(w["times"].mark(), "times: a run has at most 65535 collectives of a group");
  }
  if (!nic::is_path_mtu(out.qp.path_mtu)) {
    return error(w.mark(), "workload: collectives need a 'nic.mtu' of 256, 512, 1024, 2048 or 4096, found " +
                               std::to_string(out.qp.path_mtu));
  }
  if (out.datagrams || out.qp.loss_recovery == nic::LossRecovery::ideal) {
    return error(w.mark(), "workload: collectives need a 'nic.transport' of gbn, nic_sr or irn");
  }
  out.plan = inc_transfers(spec);
  out.inc = std::move(spec);
}

}  // namespace weft::sim
