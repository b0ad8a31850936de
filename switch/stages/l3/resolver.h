// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Address resolution of one worker: asks for neighbours whose MAC address is unknown or in doubt, and holds the packets
// that wait for an answer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "switch/pipeline/context.h"
#include "switch/pipeline/port_map.h"
#include "switch/stages/kernel_punt/kernel_punt.h"
#include "switch/stages/l3/counters.h"
#include "switch/tables/interfaces.h"
#include "switch/tables/neighbour_table.h"

namespace weft::stages {

/// Sends a message of the switch's own through a port; false, counted, when there is no packet buffer.
bool send_message(pipeline::Context& context, L3Counters& counters, std::span<const std::uint8_t> frame,
                  pipeline::PortIndex port) noexcept;

/// A neighbour is asked at once, then each second, three times in all (RFC 4861 10; RFC 826 leaves it open): by
/// broadcast or multicast while it is unknown, by unicast while a known address is checked.
///
/// Order: once a packet waits, all later ones to that neighbour wait behind it, until on_timer() lets all of them go.
/// Hence packets of one worker never overtake each other, even if the answer comes in the same burst as more packets.
class L3Resolver {
 public:
  using Index = tables::NeighbourTable::Index;
  static constexpr TimeNs kRetryNs = 1'000'000'000;
  static constexpr std::uint8_t kAttempts = 3;
  /// Neighbours that one worker can ask for at the same time.
  static constexpr std::size_t kAtOnce = 256;

  /// Whom to ask.
  struct Neighbour {
    Index index = 0;
    pipeline::PortIndex port = 0;
    wire::IpAddress address{};
  };
  /// Takes back packets that no longer wait.
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void resolved(pipeline::Context& context, rte_mbuf* m, pipeline::PortIndex port,
                          tables::NeighbourWord word) noexcept = 0;
    virtual void failed(pipeline::Context& context, rte_mbuf* m) noexcept = 0;
  };

  /// @param pending_packets  packets that may wait for one neighbour
  L3Resolver(const tables::Interfaces& interfaces, tables::NeighbourTable& neighbours, L3Counters& counters,
             std::size_t pending_packets);

  /// Has the kernel ask from now on, whose answers end up in the neighbour table.
  void ask_through(L3Kernel& kernel, std::uint16_t worker) noexcept {
    kernel_ = &kernel;
    worker_ = worker;
  }

  /// Nobody is being asked.
  [[nodiscard]] bool idle() const noexcept { return active_.empty(); }
  /// Packets wait for this neighbour.
  [[nodiscard]] bool waits(Index index) const noexcept {
    const std::uint16_t slot = slot_of_[index];
    return slot != kNoSlot && records_[slot].count != 0;
  }

  /// Holds a packet until the neighbour is known, and asks for it. False when there is no room: the packet stays the
  /// caller's.
  [[nodiscard]] bool hold(pipeline::Context& context, const Neighbour& neighbour, rte_mbuf* m) noexcept;
  /// Checks whether a neighbour in state probe is still there.
  void probe(pipeline::Context& context, const Neighbour& neighbour) noexcept;

  /// Asks for a neighbour that no packet waits for yet, unless it is being asked for.
  void resolve(pipeline::Context& context, const Neighbour& neighbour) noexcept { probe(context, neighbour); }

  /// When on_timer() has something to do; kNever when nobody is asked.
  [[nodiscard]] TimeNs deadline() const noexcept { return active_.empty() ? kNever : deadline_; }
  /// The same, for the caller to set its timer to; see unarmed().
  [[nodiscard]] TimeNs arm() noexcept {
    armed_ = true;
    return deadline();
  }
  /// The deadline has come closer since arm(): `lb` holds packets here, too, and the timer is l3's.
  [[nodiscard]] bool unarmed() const noexcept { return !armed_; }
  /// on_timer() has something to do before its deadline: the neighbours have changed, perhaps by another worker.
  [[nodiscard]] bool has_news() const noexcept { return !active_.empty() && neighbours_.generation() != generation_; }
  void on_timer(pipeline::Context& context, Sink& sink) noexcept;

  [[nodiscard]] std::size_t held() const noexcept { return held_; }
  void flush(pipeline::Context& context) noexcept;
  /// Takes over the packets of another resolver. Those whose neighbour is known by now go to `sink`; for the others the
  /// neighbour is asked anew. Packets of ports that are gone are dropped.
  void adopt(pipeline::Context& context, L3Resolver& old, const pipeline::PortMap& ports, Sink& sink) noexcept;

 private:
  void adopt_one(pipeline::Context& context, const Neighbour& neighbour, rte_mbuf* m, Sink& sink) noexcept;

  static constexpr std::uint16_t kNoSlot = 0xffff;
  struct Record {
    Neighbour neighbour{};
    TimeNs deadline = 0;
    std::uint32_t count = 0;  ///< packets that wait
    std::uint8_t attempts = 0;
  };

  Record* start(pipeline::Context& context, const Neighbour& neighbour) noexcept;
  void ask(pipeline::Context& context, Record& record) noexcept;
  void ask_v4(pipeline::Context& context, const Record& record, tables::NeighbourWord word) noexcept;
  void ask_v6(pipeline::Context& context, const Record& record, tables::NeighbourWord word) noexcept;
  bool advance(pipeline::Context& context, std::uint16_t slot, Sink& sink) noexcept;
  std::uint32_t close(Record& record) noexcept;
  void come_closer(TimeNs deadline) noexcept {
    armed_ &= deadline_ <= deadline;
    deadline_ = std::min(deadline_, deadline);
  }
  [[nodiscard]] rte_mbuf** packets(std::uint16_t slot) noexcept { return packets_.get() + slot * pending_packets_; }

  const tables::Interfaces& interfaces_;
  tables::NeighbourTable& neighbours_;
  L3Counters& counters_;
  std::size_t pending_packets_;
  L3Kernel* kernel_ = nullptr;
  std::uint16_t worker_ = 0;
  std::vector<Record> records_;
  std::unique_ptr<rte_mbuf*[]> packets_;  ///< pending_packets_ for each record
  std::vector<std::uint16_t> slot_of_;    ///< record of each neighbour, kNoSlot for none
  std::vector<std::uint16_t> active_;     ///< records in use, oldest first; never grows beyond kAtOnce
  std::vector<std::uint16_t> free_;
  TimeNs deadline_ = kNever;
  bool armed_ = true;             ///< the timer is not later than deadline_
  std::uint32_t generation_ = 0;  ///< of the neighbour table when the records were looked at
  std::size_t held_ = 0;
};

}  // namespace weft::stages
