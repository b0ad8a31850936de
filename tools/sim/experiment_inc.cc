// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <algorithm>
#include <array>
#include <cmath>
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

// What a group's hosts run at the same time, a group of the switches for each: the operation or, with a group for each
// root, its Reduces or Broadcasts; and another operation beside it.
void ExperimentBuilder::add_inc_groups(const Value& w, const std::vector<std::uint32_t>& hosts, IncSpec& spec) {
  const auto ranks = static_cast<std::uint32_t>(hosts.size());
  const std::uint64_t bytes = w["bytes"].unsigned_integer();
  for (const char* key : {"operation", "beside"}) {
    if (!w.has(key)) continue;
    const Operation operation = operation_from(w[key].string());
    const bool scattered = operation == Operation::reducescatter || operation == Operation::allgather;
    const bool barrier = operation == Operation::barrier;
    const std::uint64_t unit = scattered ? 4 * ranks : 4;
    if (barrier ? bytes != 0 : bytes == 0 || bytes % unit != 0) {
      return error(w["bytes"].mark(), "bytes: expected " +
                                          (barrier ? "0 of a barrier" : "a multiple of " + std::to_string(unit)) +
                                          ", found " + std::to_string(bytes));
    }
    if (std::uint64_t{spec.times} * (scattered ? ranks : 1) > UINT16_MAX) {
      return error(w["times"].mark(), "times: a run has at most 65535 collectives of a group");
    }
    if (!scattered || !w["group_per_root"].boolean()) {
      spec.groups.push_back({hosts, operation, bytes, 0});
      continue;
    }
    const Operation each = operation == Operation::reducescatter ? Operation::reduce : Operation::broadcast;
    for (std::uint32_t r = 0; r < ranks; ++r) spec.groups.push_back({hosts, each, bytes / ranks, r});
  }
}

void ExperimentBuilder::build_inc(const Value& w, Experiment& out) {
  for (const char* key : {"operation", "bytes", "groups", "times", "group_per_root"}) {
    if (w[key].is_null()) return;
  }
  IncSpec spec;
  spec.times = static_cast<std::uint32_t>(w["times"].integer());
  spec.window = static_cast<std::uint32_t>(w["window"].integer());
  spec.message_packets = static_cast<std::uint32_t>(w["message_packets"].integer());
  spec.options = w["group"];
  if (spec.options["ack_dscp"].is_null() && out.qp.ack_dscp) spec.options.set("ack_dscp", Value(*out.qp.ack_dscp));
  for (const auto& hosts : groups_of(w, out)) {
    if (diagnostics_.ok()) add_inc_groups(w, hosts, spec);
  }
  if (spec.groups.empty()) return;
  if (!nic::is_path_mtu(out.qp.path_mtu)) {
    return error(w.mark(), "workload: collectives need a 'nic.mtu' of 256, 512, 1024, 2048 or 4096, found " +
                               std::to_string(out.qp.path_mtu));
  }
  if (out.datagrams || out.qp.loss_recovery == nic::LossRecovery::ideal) {
    return error(w.mark(), "workload: collectives need a 'nic.transport' of gbn, nic_sr or irn");
  }
  for (const Value& host : w["late"].list_or_empty()) {
    const auto number = static_cast<std::uint32_t>(host["host"].unsigned_integer());
    const bool takes_part = std::any_of(spec.groups.begin(), spec.groups.end(), [&](const IncGroup& g) {
      return std::find(g.hosts.begin(), g.hosts.end(), number) != g.hosts.end();
    });
    const auto by = static_cast<TimeNs>(std::llround(host["by_us"].number() * 1000));
    if (!takes_part || !spec.late.emplace(number, by).second) {
      return error(host.mark(), "late: host " + std::to_string(number) +
                                    (takes_part ? " is named twice" : " takes part in no collective"));
    }
  }
  for (const Value& flow : w["background"].list_or_empty()) {
    const std::uint64_t from = flow["from"].unsigned_integer(), to = flow["to"].unsigned_integer();
    if (from == to || std::max(from, to) >= out.topology.hosts().size()) {
      return error(flow.mark(), "background: expected two different hosts from 0 to " +
                                    std::to_string(out.topology.hosts().size() - 1));
    }
    if (out.payload_values) return error(flow.mark(), "background: needs 'payload: elided'");
    out.background.push_back({static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to)});
  }
  out.plan = inc_transfers(spec);
  out.inc = std::move(spec);
}

}  // namespace weft::sim
