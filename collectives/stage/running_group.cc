// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/stage/running_group.h"

#include <utility>

#include "switch/wire/builder.h"
#include "switch/wire/parse.h"

namespace weft::inc {

wire::Parsed parsed_between(const wire::IpAddress& source, const wire::IpAddress& destination) {
  // By the parser itself, so that its hash may change without anybody noticing.
  const auto frame =
      wire::FrameBuilder().ip(source, destination).bth(wire::Opcode::RC_SEND_ONLY, wire::Qpn(2), wire::Psn(0)).build();
  wire::Parsed parsed;
  const auto bytes = static_cast<std::uint32_t>(frame.size());
  wire::parse_frame(frame.data(), bytes, bytes, parsed);
  return parsed;
}

std::uint64_t address_key(const wire::IpAddress& source, const wire::IpAddress& destination) {
  return parsed_between(source, destination).address_key;
}

Ownership::Ownership(pipeline::OwnerTable* table, const GroupSpec& spec, std::uint16_t worker) : table_(table) {
  if (table_ == nullptr) return;
  group_ = table_->make_group(worker);
  if (!group_) {
    error_ = "the switch has as many groups as it can have";
    return;
  }
  for (const EdgeSpec& e : spec.edges) {
    const std::uint64_t key = address_key(e.peer, e.address);
    if (!table_->bind(key, e.qp, *group_)) {
      error_ = "the switch's table of flows is full";
      return;
    }
    flows_.emplace_back(key, e.qp);
  }
}

Ownership::~Ownership() {
  if (!group_) return;
  for (const auto& [key, qp] : flows_) table_->unbind(key, qp, *group_);
  table_->remove_group(*group_);
}

RunningGroup::RunningGroup(GroupSpec s, MemoryPool::Region region, std::unique_ptr<BlockKey> of_block,
                           std::uint32_t gen, std::uint16_t on_worker, bool command, pipeline::OwnerTable* owners)
    : spec(std::move(s)),
      generation(gen),
      worker(on_worker),
      from_command(command),
      memory(std::move(region)),
      key(std::move(of_block)),
      ownership(owners, spec, worker),
      unit(key != nullptr      ? IncEngine(spec.config, key->memory(), key.get())
           : memory != nullptr ? IncEngine(spec.config, *memory)
                               : IncEngine(spec.config)),
      edges(spec.edges.size()) {
  for (std::size_t e = 0; e < edges.size(); ++e) {
    const EdgeSpec& from = spec.edges[e];
    nic::Path path;
    path.source = from.address;
    path.destination = from.peer;
    path.source_port = from.source_port;
    edges[e].head.set(path);
    edges[e].flow = pipeline::kOwnFlow | static_cast<std::uint32_t>(generation * kMaxEndpoints + e);
    edges[e].peer_qp = from.peer_qp;
  }
}

}  // namespace weft::inc
