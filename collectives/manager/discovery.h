// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A topology from what agents hear by LLDP, beside what the manager's file states. A link that is stated stays what it
// is, and what contradicts it is said. A link that was found once stays known: it is down while nobody hears of it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collectives/manager/fabric.h"
#include "collectives/manager/neighbours.h"

namespace weft::inc::manager {

/// What a file states.
struct StatedFabric {
  policy::Topology topology;                        ///< with its links, before finish()
  std::vector<LinkAddresses> ends;                  ///< of its links; `lower` is the end that was named first
  std::map<policy::NodeId, wire::IpAddress> hosts;  ///< addresses, of hosts without a link, too
};

/// A link that is not stated.
struct FoundLink {
  policy::NodeId a = policy::kNoNode, b = policy::kNoNode;
  wire::IpAddress a_address{}, b_address{};
  std::uint32_t rate_mbps = 0;

  /// Whether both lead from the same end to the same end; `o` has them in the same order.
  [[nodiscard]] bool same_ends(const FoundLink& o) const {
    return a == o.a && b == o.b && a_address == o.a_address && b_address == o.b_address;
  }
};

/// The fabric with links that were found, which come after the stated ones. An error in words.
/// @param lone_switches  see Topology::finish()
[[nodiscard]] std::optional<std::string> assemble(const StatedFabric& stated, const std::vector<FoundLink>& found,
                                                  bool lone_switches, Fabric& out);

class Discovery {
 public:
  explicit Discovery(StatedFabric stated) : stated_(std::move(stated)), heard_(stated_.ends.size()) {}

  struct Answer {
    std::vector<std::string> sentences;  ///< for whoever reports: what of it is of no use, and why
  };
  /// Takes a report in place of the node's last one.
  Answer report(const NeighbourReport& report);

  [[nodiscard]] const StatedFabric& stated() const noexcept { return stated_; }
  [[nodiscard]] const std::vector<FoundLink>& found() const noexcept { return found_; }
  /// Of a found link: somebody hears of it, or nobody has said anything since it was restored.
  [[nodiscard]] bool is_up(std::size_t found) const noexcept { return up_[found]; }
  /// "configuration", "configuration, lldp" or "lldp".
  [[nodiscard]] std::string source_of(policy::LinkId link) const;
  /// Between the file and what is heard, and between what two switches hear.
  [[nodiscard]] const std::vector<std::string>& contradictions() const noexcept { return contradictions_; }

  /// The links that were found, for a store, and back. What the file does not have any more is left out; false: it is
  /// no such text.
  [[nodiscard]] std::string to_text() const;
  [[nodiscard]] bool restore(const std::string& text);

 private:
  /// An end of a link, as it is heard.
  struct End {
    policy::NodeId node = policy::kNoNode;
    std::string port;  ///< "": of a host that does not report
    std::vector<wire::IpPrefix> addresses;
    std::uint32_t rate_mbps = 0;
  };
  void look(const std::string& reporter, Answer& answer);
  [[nodiscard]] bool may_be_linked(policy::NodeId a, policy::NodeId b) const;
  [[nodiscard]] policy::NodeId node_of(const Neighbour& n) const;
  [[nodiscard]] std::optional<End> own_end(const NeighbourReport& report, const Neighbour& n) const;
  [[nodiscard]] std::optional<End> other_end(policy::NodeId node, const Neighbour& n) const;
  /// Takes a link that is heard of; false: something contradicts it, which has been said.
  bool take(const FoundLink& link, const std::string& words, std::vector<FoundLink>& seen);
  [[nodiscard]] std::string contradicted_by_file(const FoundLink& link, bool& stated);
  [[nodiscard]] std::string end_text(policy::NodeId node, const wire::IpAddress& address) const;

  StatedFabric stated_;
  std::map<policy::NodeId, NeighbourReport> reports_;
  std::vector<FoundLink> found_;
  std::vector<bool> up_;     ///< of found ones
  std::vector<bool> heard_;  ///< of stated ones
  std::vector<std::string> contradictions_;
};

}  // namespace weft::inc::manager
