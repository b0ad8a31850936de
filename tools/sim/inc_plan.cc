// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/inc_plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

namespace weft::sim {
namespace {

using config::Value;
using inc::ControlMessage;
using inc::Primitive;

// Queue pairs of switches: a number of their own for each group, and for each end in it.
constexpr std::uint32_t kEndsPerGroup = 256;

ControlMessage message(Primitive primitive, std::uint32_t group, std::uint16_t sequence, std::uint64_t bytes,
                       std::uint32_t root) {
  ControlMessage m;
  m.primitive = primitive;
  m.group = inc_group_id(group);
  m.sequence = sequence;
  if (primitive == Primitive::barrier) {
    m.op = {};
    m.type = {};
    return m;
  }
  m.type = inc::DataType::uint32;
  m.root = static_cast<std::uint16_t>(root);
  m.bytes = bytes;
  return m;
}

/// A switch that all these can reach by the fewest hops; of several, groups take turns.
std::uint32_t root_of(const Topology& t, const std::vector<std::uint32_t>& leaves, std::uint32_t group) {
  if (leaves.size() == 1) return leaves.front();
  std::vector<std::uint32_t> best;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (std::uint32_t s = 0; s < t.switches().size(); ++s) {
    std::size_t worst = 0;
    for (const std::uint32_t leaf : leaves) {
      std::size_t hops = 0;
      for (std::uint32_t at = leaf; at != s; ++hops) {
        const auto next = t.next_hops(at, s);
        if (next.empty()) {
          hops = least;
          break;
        }
        at = t.switches()[at].ports[next.front()].peer;
      }
      worst = std::max(worst, hops);
    }
    if (worst > least || worst == std::numeric_limits<std::size_t>::max()) continue;
    if (worst < least) best.clear();
    least = worst;
    best.push_back(s);
  }
  return best[group % best.size()];
}

class TreeMaker {
 public:
  TreeMaker(const Topology& t, std::uint32_t group) : topology_(t), group_(group) {}

  std::vector<IncNode> make(const std::vector<std::uint32_t>& hosts, const std::vector<IncRankQp>& qps) {
    std::vector<std::uint32_t> leaves;
    for (const std::uint32_t h : hosts) leaves.push_back(topology_.hosts()[h].tor);
    std::sort(leaves.begin(), leaves.end());
    leaves.erase(std::unique(leaves.begin(), leaves.end()), leaves.end());
    root_ = root_of(topology_, leaves, group_);
    node(root_);
    for (const std::uint32_t leaf : leaves) climb(leaf, qps.front().loss_recovery);
    for (std::uint32_t rank = 0; rank < hosts.size(); ++rank) add_rank(hosts[rank], rank, qps[rank]);
    return std::move(nodes_);
  }

 private:
  std::size_t node(std::uint32_t at) {
    const auto [found, fresh] = index_.try_emplace(at, nodes_.size());
    if (fresh) nodes_.push_back({at, {}});
    return found->second;
  }
  std::uint32_t next_qp(std::size_t n) const {
    return (group_ + 1) * kEndsPerGroup + static_cast<std::uint32_t>(nodes_[n].ends.size());
  }
  /// Connects a switch, and those above it, with the root. They repair losses as RNICs do.
  void climb(std::uint32_t at, const std::string& loss_recovery) {
    if (at == root_ || index_.contains(at)) return;
    const auto ways = topology_.next_hops(at, root_);
    const PortPlan& port = topology_.switches()[at].ports[ways[group_ % ways.size()]];
    climb(port.peer, loss_recovery);
    const std::size_t below = node(at), above = node(port.peer);
    IncEnd up, down;
    up.address = down.peer = port.address;
    up.peer = down.address = port.peer_address;
    up.qp = down.peer_qp = next_qp(below);
    up.peer_qp = down.qp = next_qp(above);
    // Any will do; these wrap early in a run.
    up.first_tx = down.first_rx = 0xfffff0 - at;
    up.first_rx = down.first_tx = 0xffff00 - at;
    up.loss_recovery = down.loss_recovery = loss_recovery;
    up.is_parent = true;
    parent_[at] = {port.peer, nodes_[above].ends.size()};
    nodes_[below].ends.push_back(up);
    nodes_[above].ends.push_back(down);
  }
  void add_rank(std::uint32_t host, std::uint32_t rank, const IncRankQp& qp) {
    const HostPlan& h = topology_.hosts()[host];
    const PortPlan& port = topology_.switches()[h.tor].ports[h.port];
    const std::size_t n = node(h.tor);
    IncEnd end;
    end.address = port.address;
    end.peer = h.address;
    end.qp = next_qp(n);
    end.peer_qp = qp.qpn;
    end.first_rx = qp.first_psn;
    end.first_tx = qp.expects_psn;
    end.loss_recovery = qp.loss_recovery;
    end.is_host = true;
    end.ranks = {rank};
    nodes_[n].ends.push_back(end);
    for (std::uint32_t at = h.tor; at != root_;) {
      const auto [above, child] = parent_.at(at);
      nodes_[index_.at(above)].ends[child].ranks.push_back(rank);
      at = above;
    }
  }

  const Topology& topology_;
  std::uint32_t group_, root_ = 0;
  std::vector<IncNode> nodes_;
  std::map<std::uint32_t, std::size_t> index_;                             ///< by switch
  std::map<std::uint32_t, std::pair<std::uint32_t, std::size_t>> parent_;  ///< switch and its end for this one
};

}  // namespace

std::vector<ControlMessage> invocations_of(const IncSpec& spec, std::uint32_t group, std::uint16_t sequence) {
  const IncGroup& g = spec.groups[group];
  const auto ranks = static_cast<std::uint32_t>(g.hosts.size());
  const auto one = [&](Primitive p) { return std::vector{message(p, group, sequence, g.bytes, g.root)}; };
  switch (g.operation) {
    case Operation::allreduce:
      return one(Primitive::allreduce);
    case Operation::reduce:
      return one(Primitive::reduce);
    case Operation::broadcast:
      return one(Primitive::broadcast);
    case Operation::barrier:
      return one(Primitive::barrier);
    case Operation::reducescatter:
    case Operation::allgather:
      break;
  }
  const Primitive each = g.operation == Operation::reducescatter ? Primitive::reduce : Primitive::broadcast;
  std::vector<ControlMessage> all;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    all.push_back(message(each, group, static_cast<std::uint16_t>(sequence + r), g.bytes / ranks, r));
  }
  return all;
}

std::vector<IncNode> inc_tree(const Topology& topology, const std::vector<std::uint32_t>& hosts, std::uint32_t group,
                              const std::vector<IncRankQp>& qps) {
  return TreeMaker(topology, group).make(hosts, qps);
}

const IncEnd& inc_end_of_rank(const std::vector<IncNode>& tree, std::uint32_t rank) {
  for (const IncNode& node : tree) {
    for (const IncEnd& end : node.ends) {
      if (end.is_host && end.ranks.front() == rank) return end;
    }
  }
  std::abort();  // every rank has one
}

Value inc_group_value(const IncSpec& spec, std::uint32_t group, const IncNode& node, std::uint32_t mtu) {
  Value::List endpoints;
  for (const IncEnd& e : node.ends) {
    Value::Map end{{"address", Value(e.address.to_string())}, {"qp", Value(e.qp)},
                   {"peer", Value(e.peer.to_string())},       {"peer_qp", Value(e.peer_qp)},
                   {"first_rx", Value(e.first_rx)},           {"first_tx", Value(e.first_tx)},
                   {"loss_recovery", Value(e.loss_recovery)}};
    if (e.is_parent) {
      end.emplace_back("parent", Value(true));
    } else if (e.is_host) {
      end.emplace_back("rank", Value(e.ranks.front()));
    } else {
      Value::List ranks;
      for (const std::uint32_t r : e.ranks) ranks.emplace_back(r);
      end.emplace_back("ranks", Value(std::move(ranks)));
    }
    endpoints.emplace_back(std::move(end));
  }
  Value out = spec.options.is_map() ? spec.options : Value(Value::Map{});
  out.set("id", Value(inc_group_id(group)));
  out.set("ranks", Value(static_cast<std::uint32_t>(spec.groups[group].hosts.size())));
  out.set("mtu", Value(mtu));
  out.set("window", Value(spec.window));
  out.set("message_packets", Value(spec.message_packets));
  // The class of data, as that of other RNICs.
  out.set("dscp", Value(3));
  out.set("endpoints", Value(std::move(endpoints)));
  return out;
}

}  // namespace weft::sim
