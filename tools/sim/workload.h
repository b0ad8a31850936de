// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What is to be sent: transfers between hosts over queue pairs, and which of them wait for which. Collectives are
// nothing but transfers with dependencies.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "switch/base/rng.h"
#include "switch/base/time.h"

namespace weft::sim {

/// One message from one host to another.
struct Transfer {
  std::uint32_t from = 0, to = 0;  ///< hosts
  std::uint64_t bytes = 0;
  std::uint32_t group = 0;                      ///< whose completion it belongs to
  TimeNs start = 0;                             ///< not before this, and not before what it waits for
  std::uint32_t channel = 0;                    ///< index in Plan::channels
  std::vector<std::uint32_t> after_received{};  ///< transfers that wait until this one has arrived
  std::vector<std::uint32_t> after_sent{};      ///< transfers that wait until this one is acknowledged
  std::uint32_t waits_for = 0;                  ///< how many transfers this one waits for
};

/// A queue pair between two hosts, used in one direction.
struct Channel {
  std::uint32_t from = 0, to = 0;
  std::uint32_t transfers = 0;  ///< that use it
  std::uint64_t packets = 0;    ///< of these; 0 before Plan::count_packets()
};

struct Plan {
  std::vector<Channel> channels;
  std::vector<Transfer> transfers;
  std::uint32_t groups = 1;

  [[nodiscard]] std::uint64_t bytes() const noexcept;
  /// Sets Channel::packets of all channels, for packets of up to `mtu` bytes of payload.
  void count_packets(std::uint32_t mtu) noexcept;
};

/// Hosts of each group.
using Groups = std::vector<std::vector<std::uint32_t>>;

/// Group g has the hosts g, g + groups, g + 2 * groups, ...: with as many groups as hosts per leaf, every host of a
/// group is at another leaf, and with fewer, neighbours are.
[[nodiscard]] Groups interleaved_groups(std::uint32_t hosts, std::uint32_t groups);

/// Every host sends `bytes` to the next one of its group.
[[nodiscard]] Plan ring_permutation(const Groups& groups, std::uint64_t bytes);
/// 2 (n - 1) steps of bytes / n to the next host; a host sends step k + 1 when step k has arrived from its predecessor.
[[nodiscard]] Plan ring_allreduce(const Groups& groups, std::uint64_t bytes);
/// n - 1 such steps: a ReduceScatter, or an AllGather, which moves the same bytes the same way.
[[nodiscard]] Plan ring_reducescatter(const Groups& groups, std::uint64_t bytes);
/// All hosts but the first of each group send it a byte, and when it has all, it sends one to each.
[[nodiscard]] Plan barrier_rank0(const Groups& groups);
/// log2(n) steps that halve what is exchanged with host r xor 2^k, and as many that double it. n is a power of two.
[[nodiscard]] Plan halving_doubling_allreduce(const Groups& groups, std::uint64_t bytes);
/// bytes / n to each other host: all at once, or one after the other, at distance 1, 2, ...
[[nodiscard]] Plan alltoall(const Groups& groups, std::uint64_t bytes, bool rotated);
/// All hosts but the first of each group send `bytes` to the first.
[[nodiscard]] Plan incast(const Groups& groups, std::uint64_t bytes);

/// A flow of a list.
struct Flow {
  std::uint32_t from = 0, to = 0;
  std::uint64_t bytes = 0;
  TimeNs start = 0;
};
/// Every flow has a queue pair of its own.
[[nodiscard]] Plan flow_list(const std::vector<Flow>& flows);

/// Flow sizes as a piecewise linear distribution function.
class SizeDistribution {
 public:
  /// @param points  bytes and cumulative percent, both ascending, ending at 100
  explicit SizeDistribution(std::vector<std::pair<double, double>> points) : points_(std::move(points)) {}
  [[nodiscard]] double mean() const noexcept;
  [[nodiscard]] std::uint64_t draw(Rng& rng) const noexcept;

 private:
  std::vector<std::pair<double, double>> points_;
};

struct PoissonSpec {
  double load = 0.5;             ///< of each host's link
  std::uint64_t link_bps = 0;    ///< of a host
  TimeNs duration = 10'000'000;  ///< in which flows begin
};
/// Each host sends to others, chosen uniformly, at exponential intervals. Sorted by start.
/// @param seeds  one for each host
[[nodiscard]] std::vector<Flow> poisson_flows(const std::vector<std::uint64_t>& seeds, const SizeDistribution& sizes,
                                              const PoissonSpec& spec);

struct IncastSpec {
  std::uint32_t senders = 1;     ///< of one incast, fewer than there are hosts
  std::uint64_t bytes = 0;       ///< of each
  TimeNs every = 1'000'000;      ///< from one incast to the next; the first is so late
  TimeNs duration = 10'000'000;  ///< in which they begin
};
/// Ever again, hosts drawn at random send to one that is drawn as well, all at the same time.
[[nodiscard]] std::vector<Flow> incast_flows(std::uint64_t seed, std::uint32_t hosts, const IncastSpec& spec);

}  // namespace weft::sim
