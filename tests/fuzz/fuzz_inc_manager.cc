// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Input: requests of weft.inc.v1, each with its method and its length before it; with the bit 0x40 of the first method
// the policy is `temporal`. Whatever they are, the manager and the switches agree on the groups that there are, none
// has more memory than it has, and all of it comes back.
#include <grpcpp/server_context.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>

#include "collectives/manager/inc.grpc.pb.h"
#include "collectives/manager/service.h"
#include "switch/system/clock.h"
#include "tests/collectives/manager/fake_fabric.h"
#include "tests/fuzz/require.h"

namespace weft::inc::manager {
namespace {

class Run {
 public:
  /// @param turns  groups have memory in turns
  explicit Run(bool turns) : manager_(small_fabric(), options(turns), switches_, store_, 1) {
    manager_.discover(stated_by_file(manager_.fabric()));
    require(!manager_.recover(monotonic_now()), "an empty store is read");
    running_.emplace(manager_);
    service_ = make_service(*running_);
    // The handlers look at nothing but the messages.
    calls_ = static_cast<v1::IncManager::Service*>(service_.get());
  }

  void call(std::uint8_t method, std::span<const std::uint8_t> bytes) {
    const auto parsed = [&](auto& message) {
      return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
    };
    if (method >= 0x80) {
      v1::ReportNeighboursRequest request;
      v1::ReportNeighboursReply reply;
      if (parsed(request)) calls_->ReportNeighbours(nullptr, &request, &reply);
    } else if (method % 4 < 2) {
      v1::CreateGroupRequest request;
      v1::CreateGroupReply reply;
      if (!parsed(request)) return;
      const auto status = method % 4 == 0 ? calls_->CreateGroup(nullptr, &request, &reply)
                                          : calls_->ExplainGroup(nullptr, &request, &reply);
      const bool made = status.ok() && reply.refusal() == "none" && method % 4 == 0;
      require(!made || reply.endpoints_size() == request.members_size(), "each rank has an endpoint");
    } else if (method % 4 == 2) {
      v1::RenewLeaseRequest request;
      v1::RenewLeaseReply reply;
      if (parsed(request)) calls_->RenewLease(nullptr, &request, &reply);
    } else {
      v1::DestroyGroupRequest request;
      v1::DestroyGroupReply reply;
      if (parsed(request)) calls_->DestroyGroup(nullptr, &request, &reply);
    }
    look();
  }

  void finish() {
    v1::ListGroupsRequest everything;
    v1::ListGroupsReply list;
    calls_->ListGroups(nullptr, &everything, &list);
    for (const auto& g : list.groups()) {
      v1::DestroyGroupRequest request;
      v1::DestroyGroupReply reply;
      request.set_group(g.group());
      calls_->DestroyGroup(nullptr, &request, &reply);
    }
    for (const auto& [node, groups] : switches_.groups) require(groups.empty(), "switches have all memory back");
    require(store_.records.empty(), "the store has forgotten all groups");
  }

 private:
  static ManagerOptions options(bool turns) {
    ManagerOptions out;
    if (turns) out.policy.kind = policy::PolicyKind::temporal;
    return out;
  }
  void look() {
    v1::ShowTopologyRequest everything;
    v1::ShowTopologyReply topology;
    calls_->ShowTopology(nullptr, &everything, &topology);
    for (const auto& node : topology.nodes()) {
      require(node.used_bytes() <= node.memory_bytes(), "no switch has given more memory than it has");
    }
    std::set<GroupId> on_switches, recorded;
    for (const auto& [node, groups] : switches_.groups) {
      for (const auto& [id, spec] : groups) on_switches.insert(id);
    }
    for (const auto& [id, text] : store_.records) recorded.insert(id);
    require(on_switches == recorded, "the store and the switches have the same groups");
  }

  Steps steps_;
  FakeSwitches switches_{steps_};
  FakeStore store_{steps_};
  Manager manager_;
  std::optional<RunningManager> running_;
  std::unique_ptr<grpc::Service> service_;
  v1::IncManager::Service* calls_ = nullptr;
};

}  // namespace
}  // namespace weft::inc::manager

// gRPC stays until the process ends, with what it holds.
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0";
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span<const std::uint8_t> in(data, size);
  weft::inc::manager::Run run(size > 0 && (data[0] & 0x40) != 0);
  while (in.size() >= 3) {
    const std::uint8_t method = in[0];
    const std::size_t bytes = std::min<std::size_t>(in[1] | in[2] << 8, in.size() - 3);
    run.call(method, in.subspan(3, bytes));
    in = in.subspan(3 + bytes);
  }
  run.finish();
  return 0;
}
