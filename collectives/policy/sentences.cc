// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/policy/policy.h"

namespace weft::inc::policy {
namespace {

std::string count(std::uint64_t n, const std::string& what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

std::string describe(const Topology& topology, const Blocker& b) {
  const std::string link = b.link == kNoLink ? "" : "the link " + topology.link_name(b.link);
  const std::string node = b.node == kNoNode ? "" : topology.node(b.node).name;
  switch (b.reason) {
    case Reason::links_taken:
      return "Group " + std::to_string(b.holder) + " has " + link + ".";
    case Reason::no_bandwidth:
      return "Of " + link + " " + std::to_string(b.available) + " Mbit/s are left, and the group needs " +
             std::to_string(b.needed) + ".";
    case Reason::no_memory:
      return node + " has " + std::to_string(b.available) + " bytes left, and the group needs " +
             std::to_string(b.needed) + " there.";
    case Reason::no_share:
      return node + " has " + std::to_string(b.available) + " bytes that nobody has, the group needs " +
             std::to_string(b.needed) + ", and memory to share is busy for too much of the time.";
    case Reason::unsupported:
      return node + " does not have the mode or a type of the group.";
    case Reason::too_many_children:
      return node + " would have " + std::to_string(b.needed) + " children, and takes " + std::to_string(b.available) +
             ".";
    case Reason::host_down:
      return node + " has no link to a switch that is up.";
    case Reason::none:
    case Reason::bad_request:
    case Reason::group_exists:
    case Reason::no_path:
    case Reason::no_gain:
      break;
  }
  return "";
}

std::string headline(const Request& request, const Decision& d) {
  const std::string no = "Group " + std::to_string(request.group) + " gets no tree: ";
  switch (d.reason) {
    case Reason::none:
      break;
    case Reason::bad_request:
      return no + d.detail + ".";
    case Reason::group_exists:
      return no + "there is a group with that number.";
    case Reason::host_down:
      return no + "hosts have no way into the fabric.";
    case Reason::no_path:
      return no + "no switch reaches all of its hosts.";
    case Reason::unsupported:
      return no + "the switches that can do what it needs do not connect its hosts.";
    case Reason::links_taken:
      return no + "every tree needs links that other groups have.";
    case Reason::no_bandwidth:
      return no + "every tree needs links with too little bandwidth left.";
    case Reason::no_memory:
      return no + "every tree needs switches with too little memory left.";
    case Reason::no_share:
      return no + "in every tree memory has to be shared that is busy for too much of the time.";
    case Reason::too_many_children:
      return no + "in every tree a switch has more children than it takes.";
    case Reason::no_gain:
      return no + "its ring sends hardly more than a tree would.";
  }
  return "";
}

}  // namespace

std::vector<std::string> sentences(const Topology& topology, const Request& request, const Decision& d) {
  std::vector<std::string> out;
  if (!d.admitted()) {
    out.push_back(headline(request, d));
    for (const Blocker& b : d.blockers) out.push_back(describe(topology, b));
    if (d.more_blockers > 0) out.push_back("So it is at " + count(d.more_blockers, "more place") + ".");
    return out;
  }
  const std::size_t switches = d.tree.switches.size();
  out.push_back("Group " + std::to_string(request.group) + " of " + count(request.hosts.size(), "host") +
                " gets a tree of " + std::to_string(switches) + (switches == 1 ? " switch" : " switches") + " under " +
                topology.node(d.tree.root).name + ", " + std::to_string(d.width_mbps) + " Mbit/s wide.");
  out.push_back("Its window is " + count(d.units, "message") + " of the " + std::to_string(request.memory.units) +
                " that it asks for.");
  for (const Candidate& c : d.frontier) {
    if (c.root == d.tree.root) continue;
    out.push_back("A tree under " + topology.node(c.root).name + " would be " + count(c.depth, "link") + " deep and " +
                  std::to_string(c.width_mbps) + " Mbit/s wide.");
  }
  if (d.staggered) {
    const std::string begin = "its bursts begin " + std::to_string(d.offset_ns) + " ns into the period of " +
                              std::to_string(request.period_ns);
    out.push_back(d.shares_memory ? "It shares memory with groups of its job: " + begin + " ns, when they have none."
                                  : "Groups of its job may come to share its memory: " + begin + " ns.");
  } else if (d.shares_memory) {
    out.push_back("It shares memory with other groups: a collective that finds it locked is left to the hosts.");
  }
  return out;
}

}  // namespace weft::inc::policy
