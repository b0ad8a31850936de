// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Input: what etcd answers to the manager's first questions, a TxnResponse of etcd.proto; with 0x40 in the byte before
// it the policy is `temporal`, with 0x80 `edge_disjoint`. The manager refuses it in words, or has groups that fit into
// the switches and leave nothing behind when they end.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/manager/etcd.pb.h"
#include "collectives/manager/etcd_replies.h"
#include "tests/collectives/manager/fake_fabric.h"
#include "tests/fuzz/require.h"

namespace weft::inc::manager {
namespace {

constexpr const char* kPrefix = "/weft/inc-manager";
constexpr TimeNs kNow = 1'000'000'000;

/// Has what was read, as it was.
class ReadStore : public FakeStore {
 public:
  ReadStore(Steps& steps, Content content) : FakeStore(steps), content_(std::move(content)) {}
  std::optional<std::string> load(Content& content) override {
    content = content_;
    return std::nullopt;
  }

 private:
  Content content_;
};

void look(const Manager& manager) {
  const policy::Topology& topology = manager.fabric().topology;
  for (policy::NodeId node = 0; node < topology.nodes().size(); ++node) {
    require(manager.policy().ledger().at(node).bytes <= topology.node(node).abilities.memory_bytes,
            "no switch has given more memory than it has");
  }
  for (const auto& [id, group] : manager.groups()) {
    const GroupRecord& r = group.record;
    require(r.id == id, "a group has its number");
    require(group.ending != Ending::none || rank_endpoints(r).size() == r.members.size(), "each rank has an endpoint");
    for (std::size_t at = 0; at < r.switches.size(); ++at) require(!switch_spec(r, at).empty(), "a switch is told");
    const auto back = from_text(to_text(r, topology), topology);
    require(back && *back == r, "a record is read back as it is");
  }
}

void end_all(Manager& manager, FakeSwitches& switches) {
  std::vector<std::pair<GroupId, std::uint64_t>> all;
  for (const auto& [id, group] : manager.groups()) all.emplace_back(id, group.record.generation);
  for (const auto& [id, generation] : all) static_cast<void>(manager.destroy(kNow, id, generation));
  for (TimeNs now = kNow; now < 4 * kNow; now += kNow) manager.tick(now);
  require(manager.groups().empty(), "all groups end");
  for (const auto& [node, groups] : switches.groups) require(groups.empty(), "switches have nothing");
  for (policy::NodeId node = 0; node < manager.fabric().topology.nodes().size(); ++node) {
    require(manager.policy().ledger().at(node).bytes == 0, "all memory comes back");
  }
}

void run(std::uint8_t kind, const etcdserverpb::TxnResponse& reply) {
  static_cast<void>(etcd_version_mistake(reply, kPrefix));
  Store::Content content;
  if (read_etcd_content(reply, kPrefix, content)) return;
  ManagerOptions options;
  if ((kind & 0x40) != 0) options.policy.kind = policy::PolicyKind::temporal;
  if ((kind & 0x80) != 0) options.policy.kind = policy::PolicyKind::edge_disjoint;
  Steps steps;
  FakeSwitches switches(steps);
  ReadStore store(steps, std::move(content));
  Manager manager(small_fabric(), options, switches, store, 1);
  manager.discover(stated_by_file(manager.fabric()));
  if (manager.recover(kNow)) return;
  look(manager);
  end_all(manager, switches);
}

}  // namespace
}  // namespace weft::inc::manager

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  etcdserverpb::TxnResponse reply;
  if (size == 0 || !reply.ParseFromArray(data + 1, static_cast<int>(size - 1))) return 0;
  weft::inc::manager::run(data[0], reply);
  return 0;
}
