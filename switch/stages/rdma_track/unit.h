// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The tracker behind the rdma_track stage: what happens to the table for every RoCEv2 packet. No DPDK.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "switch/base/time.h"
#include "switch/stages/rdma_track/agent_messages.h"
#include "switch/stages/rdma_track/cm.h"
#include "switch/stages/rdma_track/counters.h"
#include "switch/stages/rdma_track/gap_naks.h"
#include "switch/stages/rdma_track/order.h"
#include "switch/stages/rdma_track/pairing.h"
#include "switch/stages/rdma_track/steer.h"
#include "switch/tables/qp_table.h"
#include "switch/wire/cm.h"
#include "switch/wire/ib.h"
#include "switch/wire/opcodes.h"
#include "switch/wire/parsed.h"

namespace weft::stages {

/// How a QpTracker behaves; the defaults are those of the stage's options.
struct TrackOptions {
  std::uint32_t max_qps = 65536;        ///< entries, one per direction
  std::uint32_t idle_timeout_s = 600;   ///< an entry without packets for so long is removed
  std::uint32_t closed_timeout_s = 30;  ///< the same after CM closed the connection
  bool pairing = true;                  ///< infer from traffic which directions belong together
};

/// An entry and, when known, the entry of the opposite direction. Valid until the tracker's next call.
struct QpView {
  const tables::QpEntry* entry = nullptr;
  const tables::QpEntry* peer = nullptr;
  std::uint32_t position = tables::QpTable::kNone;

  explicit operator bool() const noexcept { return entry != nullptr; }
};

namespace detail {

/// What the fast path has to know about an opcode.
struct PacketClass {
  static constexpr std::uint64_t ends_message = 1;  ///< last or only packet of a request message: counts as in a tally
  static constexpr std::uint64_t ack = 2;           ///< RC ACKNOWLEDGE
  static constexpr std::uint64_t plain = 4;         ///< SEND or WRITE of RC: takes one PSN
  static constexpr std::uint64_t repeat = std::uint64_t{1} << tables::QpEntry::kRepeatShift;  ///< `plain`, in a tally

  /// What of these a packet adds to a tally, by `plain` if it was seen before or has its turn, and once more if it has
  /// its turn.
  static constexpr std::array<std::uint64_t, 3> counts{0, repeat, ends_message};
};

constexpr std::array<std::uint64_t, 256> make_packet_classes() {
  std::array<std::uint64_t, 256> classes{};
  for (unsigned raw = 0; raw < 256; ++raw) {
    const auto opcode = static_cast<std::uint8_t>(raw);
    const wire::OpcodeInfo& row = wire::opcode_info(opcode);
    if (wire::transport_of(opcode) != wire::Transport::rc || !row.is_request() || !row.may_carry_payload()) continue;
    classes[raw] = PacketClass::plain | PacketClass::repeat | (row.ends_message() ? PacketClass::ends_message : 0);
  }
  classes[static_cast<std::uint8_t>(wire::Opcode::RC_ACKNOWLEDGE)] = PacketClass::ack;
  return classes;
}
inline constexpr std::array<std::uint64_t, 256> kPacketClasses = make_packet_classes();

}  // namespace detail

/// One worker's tracker.
class QpTracker {
 public:
  /// Packets of one call to track(), at most.
  static constexpr std::uint32_t kBurst = 64;

  explicit QpTracker(const TrackOptions& options);
  QpTracker(const QpTracker&) = delete;
  QpTracker& operator=(const QpTracker&) = delete;

  /// Accounts a burst of at most kBurst packets. `Access` says how to get at a `Packet` (a pointer):
  /// - `const wire::Parsed& parsed(packet)`
  /// - `const std::uint8_t* frame(packet)`: the frame's first byte; all headers lie contiguously
  /// - `const std::uint8_t* read(packet, offset, bytes, scratch)`: so many bytes of the frame, contiguous, in place or
  ///   copied to scratch; nullptr when the frame is shorter
  /// - `void set_handle(packet, handle)`: called for packets that have an entry, with position + 1
  template <typename Access, typename Packet>
  void track(TimeNs now, std::span<Packet* const> burst) noexcept;

  /// When on_timer() is next wanted; kNever while the table is empty.
  [[nodiscard]] TimeNs next_deadline() const noexcept { return next_scan_; }
  /// Ages a slice of the table.
  void on_timer(TimeNs now) noexcept;

  /// A connected pair from the configuration: it never ages, and its pairing is certain. False when the table is full.
  bool add_configured(TimeNs now, const wire::IpAddress& a, wire::Qpn qp_a, const wire::IpAddress& b,
                      wire::Qpn qp_b) noexcept;

  /// What first_psn() says of the requests from one host to a queue pair of another, both of which are in the table.
  void set_first_psn(const wire::IpAddress& from, const wire::IpAddress& to, wire::Qpn qp, wire::Psn first) noexcept;

  /// An agent says that a queue pair of its host is connected. Does nothing where CM or the configuration have said so.
  /// A direction whose packets pass already keeps its counters; that the agent came late is counted, unless it only
  /// repeats itself (`told_again`).
  /// @return false when the table has no room for both directions
  bool on_agent_up(TimeNs now, const AgentQp& qp, bool told_again) noexcept;
  /// It says that one is gone: both directions are closed, and do not belong together any more.
  void on_agent_down(const AgentQp& qp) noexcept;

  /// With `steer: qp`, before the first packet: connections are spread over workers through `steering`, which outlives
  /// the tracker.
  void steer_with(QpSteering& steering) noexcept { steering_ = &steering; }
  /// Other workers may send something.
  [[nodiscard]] bool takes_mail() const noexcept { return steering_ != nullptr; }
  [[nodiscard]] bool has_mail() const noexcept { return steering_ != nullptr && steering_->has_mail(); }
  /// Reads what other workers have sent. Called before track() and on_timer() when has_mail().
  void read_mail(TimeNs now) noexcept;
  /// New timeouts; the rest of `options` cannot change.
  void set_timeouts(const TrackOptions& options) noexcept;
  /// All configured pairs become ordinary ones, which age. O(slots).
  void release_configured() noexcept;

  /// The entry of a packet. `handle` is what set_handle() gave for it (PacketMeta::qp_handle), 0 if nothing; it may be
  /// stale. `l3` is the packet's IP header.
  [[nodiscard]] QpView view(std::uint32_t handle, const wire::Parsed& parsed, const std::uint8_t* l3) const noexcept;

  /// PSN of the first request of the direction at a position of the table, as CM or the configuration gave it.
  [[nodiscard]] std::optional<wire::Psn> first_psn(std::uint32_t position) const noexcept {
    const tables::QpDetail& detail = table_.detail(position);
    if (detail.first_psn_known == 0) return std::nullopt;
    return wire::Psn(detail.first_psn);
  }
  /// Notes that the receiver of the requests of this direction keeps no early packets, until another connection begins.
  void set_in_order(std::uint32_t position) noexcept { table_.entry(position).set_in_order(); }
  [[nodiscard]] const tables::QpTable& table() const noexcept { return table_; }
  [[nodiscard]] const TrackCounters& counters() const noexcept { return counters_; }
  /// Service ID of a connection whose CM messages were seen (QpDetail::service); 0 when unknown.
  [[nodiscard]] std::uint64_t service_id(std::uint16_t service) const noexcept { return cm_.service_id(service); }
  /// Memory of the table, and of pairing and CM beside it.
  [[nodiscard]] std::size_t memory_bytes() const noexcept;

 private:
  // Entries that one timer call looks at.
  static constexpr std::uint32_t kScanSlice = 512;
  // ACKs have something to tell that the fast path has not counted.
  static constexpr std::uint8_t kListens = tables::ResponseFlag::watch | tables::ResponseFlag::evidence;
  // Entries that an insertion into a full table looks at for one that has aged, and positions: in a small table, and
  // when the address pairs have run out, many positions hold few entries.
  static constexpr std::uint32_t kEvictionTries = 16, kEvictionReach = 128;

  [[nodiscard]] std::uint32_t resolve(TimeNs now, const tables::QpKey& key, const wire::Parsed& p,
                                      const std::uint8_t* frame) noexcept;
  [[nodiscard]] std::uint32_t insert(TimeNs now, const tables::QpKey& key) noexcept;
  [[nodiscard]] std::uint32_t learn(TimeNs now, tables::QpKey key, const std::uint8_t* l3,
                                    TrackCounter reason) noexcept;
  // What a burst adds to the counters.
  struct Sums {
    std::uint64_t bytes = 0;
    std::uint64_t tallies = 0;  // as QpEntry::tally
  };
  // Whether a packet was an ordinary one; if not, what is left to do with it.
  enum class Account : std::uint8_t {
    done,
    elsewhere,  // its entry is not where it was expected, or there is none
    other,      // count(), on_other()
    wrapped,    // QpEntry::repeats() began anew at 0
  };
  // A burst on its way through account_all().
  template <typename Packet>
  struct Burst {
    Packet* const* packets;
    const std::uint32_t* at;  // positions where the packets' entries are expected
    std::uint32_t tick;
    std::uint32_t next = 0;  // packet that is looked at
    Sums sums{};
  };
  template <typename Access, typename Packet>
  [[nodiscard]] Account account_all(Burst<Packet>& burst, std::uint32_t end) noexcept;
  template <typename Access, typename Packet>
  [[nodiscard]] bool account_one(TimeNs now, Burst<Packet>& burst, Account why) noexcept;
  static void count(tables::QpEntry& e, const wire::Parsed& p, std::uint32_t tick, Sums& sums) noexcept;
  [[nodiscard]] static Account account(tables::QpEntry& e, const wire::Parsed& p, std::uint32_t tick,
                                       Sums& sums) noexcept;
  template <typename Access, typename Packet>
  [[nodiscard]] std::uint32_t unexpected(TimeNs now, std::uint32_t position, std::uint64_t v6_addresses,
                                         Packet* packet) noexcept;
  void on_other(std::uint32_t position, const wire::Parsed& p, const std::uint8_t* frame) noexcept;
  void on_request(std::uint32_t position, const wire::Parsed& p, const std::uint8_t* frame) noexcept;
  void on_response(std::uint32_t position, const wire::Parsed& p) noexcept;
  void on_ack(std::uint32_t position, const wire::Parsed& p) noexcept;
  void on_datagram(std::uint32_t position, const wire::Parsed& p) noexcept;
  void on_cnp(std::uint32_t position, const wire::Parsed& p) noexcept;
  void count_nak(std::uint32_t position, wire::Syndrome syndrome) noexcept;
  void learn_pmtu(std::uint32_t position, std::uint32_t payload_bytes) noexcept;
  void responder_got(std::uint32_t requests, wire::Psn psn) noexcept;
  void responder_wants(std::uint32_t requests, wire::Psn psn, wire::Syndrome syndrome) noexcept;
  void set_gap(std::uint32_t requests, wire::Psn waits_for) noexcept;

  void on_management(TimeNs now, const wire::Parsed& p, const std::uint8_t* frame, const std::uint8_t* mad) noexcept;
  void on_cm(TimeNs now, const wire::Parsed& p, const std::uint8_t* l3, const wire::CmMessage& message) noexcept;
  void on_req(TimeNs now, tables::QpKey key, const std::uint8_t* l3, const wire::CmReq& req) noexcept;
  bool connect(TimeNs now, const CmConnection& connection) noexcept;
  [[nodiscard]] bool connect_direction(TimeNs now, const tables::QpKey& key, wire::Psn first,
                                       const CmConnection& connection) noexcept;
  void close(const tables::QpKey& key) noexcept;

  // A queue pair as an agent tells of it, and the keys of its packets and of those to it.
  struct AgentPair {
    const AgentQp& qp;
    tables::QpKey there, back;
    bool told_again;
  };
  [[nodiscard]] bool is_open_pair(const tables::QpKey& there, const tables::QpKey& back) const noexcept;
  [[nodiscard]] bool is_in_use(const tables::QpKey& key) const noexcept;
  [[nodiscard]] bool connect_agent(TimeNs now, const AgentPair& pair) noexcept;
  [[nodiscard]] bool open_direction(TimeNs now, const tables::QpKey& key, const AgentQp& qp) noexcept;
  void begin_at(std::uint32_t position, const std::optional<wire::Psn>& first) noexcept;

  void set_first_psn(std::uint32_t position, wire::Psn first) noexcept {
    table_.detail(position).first_psn = first.value() & wire::Psn::kMask;
    table_.detail(position).first_psn_known = 1;
  }

  [[nodiscard]] tables::QpKey acquire_key(const wire::IpAddress& from, const wire::IpAddress& to,
                                          wire::Qpn qp) noexcept;
  void release_key(const tables::QpKey& key) noexcept;
  [[nodiscard]] SteeredQp steered(const tables::QpKey& key) const noexcept;
  void place(TimeNs now, const CmConnection& connection) noexcept;
  [[nodiscard]] bool is_fixed(const tables::QpKey& key) const noexcept;
  [[nodiscard]] bool close_elsewhere(const tables::QpKey& key) noexcept;
  [[nodiscard]] bool adopt(TimeNs now, const tables::QpKey& there, const QpMail& mail) noexcept;
  void unsteer(std::uint32_t position) noexcept;

  [[nodiscard]] bool has_aged(std::uint32_t position, std::uint32_t tick) const noexcept;
  [[nodiscard]] bool idle_since(std::uint32_t position, std::uint32_t tick) const noexcept;
  bool evict_aged(std::uint32_t tick) noexcept;
  void remove(std::uint32_t position) noexcept;
  void erase(std::uint32_t position) noexcept;
  [[nodiscard]] TimeNs scan_interval() const noexcept;

  TrackOptions options_;
  std::uint32_t idle_ticks_, closed_ticks_;
  tables::QpTable table_;
  TrackCounters counters_;
  QpPairing pairing_;
  GapNaks gap_naks_;
  CmConnections cm_;
  QpSteering* steering_ = nullptr;
  TimeNs next_scan_ = kNever;
  std::uint32_t scan_at_ = 0;
  std::array<std::uint64_t, kBurst> v6_addresses_{};  // of the keys of a burst's IPv6 packets
};

template <typename Access, typename Packet>
void QpTracker::track(TimeNs now, std::span<Packet* const> burst) noexcept {
  std::array<std::uint32_t, kBurst> at;  // hash of the key, then the entry's position
  const auto size = static_cast<std::uint32_t>(burst.size());
  std::uint64_t not_v4 = 0;  // bit i: packet i is no RoCEv2 over IPv4
  std::uint32_t no_roce = 0;
  for (std::uint32_t i = 0; i < size; ++i) {
    const wire::Parsed& p = Access::parsed(burst[i]);
    if (p.is_roce_v4()) [[likely]] {
      at[i] = tables::QpTable::hash_of({p.address_key, p.dest_qp.value()});
      continue;
    }
    not_v4 |= std::uint64_t{1} << i;
    if (p.kind == wire::FrameKind::roce) {
      const tables::QpKey key = table_.key_of(p, Access::frame(burst[i]) + p.l3_offset);
      v6_addresses_[i] = key.addresses;
      at[i] = tables::QpTable::hash_of(key);
    } else {
      at[i] = 0;
      ++no_roce;
    }
  }
  if (no_roce == size) return;
  table_.candidates({at.data(), size});

  // Ordinary packets over IPv4 pass in runs, and what is between them one by one, in order.
  Burst<Packet> run{.packets = burst.data(), .at = at.data(), .tick = tables::tick_of(now)};
  std::uint32_t untracked = 0;
  for (;;) {
    const std::uint64_t left = run.next < kBurst ? not_v4 >> run.next : 0;
    const std::uint32_t end = left == 0 ? size : run.next + static_cast<std::uint32_t>(std::countr_zero(left));
    const Account why = account_all<Access>(run, end);
    if (run.next == size) break;
    if (!account_one<Access>(now, run, why)) ++untracked;
    ++run.next;
  }
  const Sums& sums = run.sums;
  const std::uint64_t repeats = sums.tallies >> tables::QpEntry::kRepeatShift;
  counters_.add(TrackCounter::packets, size - untracked);
  counters_.add(TrackCounter::bytes, sums.bytes);
  counters_.add(TrackCounter::messages, sums.tallies & (detail::PacketClass::repeat - 1));
  counters_.add(TrackCounter::retransmitted, repeats);
  counters_.add(TrackCounter::duplicates, repeats);
}

// Packets over IPv4 until one is not ordinary, or `end`. It calls nothing, so that the compiler has all registers for
// the loop.
template <typename Access, typename Packet>
[[gnu::noinline]] QpTracker::Account QpTracker::account_all(Burst<Packet>& burst, std::uint32_t end) noexcept {
  Packet* const* const packets = burst.packets;
  const std::uint32_t* const at = burst.at;
  const std::uint32_t tick = burst.tick;
  Sums sums = burst.sums;
  tables::QpEntry* const entries = &table_.entry(0);
  Account result = Account::elsewhere;
  std::size_t i = burst.next;
  for (const std::size_t stop = end; i < stop; ++i) {
    const wire::Parsed& p = Access::parsed(packets[i]);
    const std::uint32_t position = at[i];
    tables::QpEntry& e = entries[position];
    result = Account::elsewhere;
    if (e.addresses != p.address_key || (e.qp & tables::QpEntry::kKeyMask) != p.dest_qp.value()) [[unlikely]]
      break;
    Access::set_handle(packets[i], position + 1);
    result = account(e, p, tick, sums);
    if (result != Account::done) [[unlikely]]
      break;
  }
  burst.next = static_cast<std::uint32_t>(i);
  burst.sums = sums;
  return i == end ? Account::elsewhere : result;
}

// The packet at which account_all() has stopped. False when it is not tracked.
template <typename Access, typename Packet>
bool QpTracker::account_one(TimeNs now, Burst<Packet>& burst, Account why) noexcept {
  Packet* const packet = burst.packets[burst.next];
  const wire::Parsed& p = Access::parsed(packet);
  std::uint32_t position = burst.at[burst.next];
  if (why == Account::elsewhere) {
    position = unexpected<Access>(now, position, v6_addresses_[burst.next], packet);
    if (position == tables::QpTable::kNone) return false;
    Access::set_handle(packet, position + 1);
    why = account(table_.entry(position), p, burst.tick, burst.sums);
  }
  if (why == Account::other) {
    count(table_.entry(position), p, burst.tick, burst.sums);
    on_other(position, p, Access::frame(packet));
  } else if (why == Account::wrapped) {
    tables::count_repeats(table_.entry(position), table_.detail(position), tables::QpEntry::kMostRepeats + 1);
  }
  return true;
}

[[gnu::always_inline]] inline void QpTracker::count(tables::QpEntry& e, const wire::Parsed& p, std::uint32_t tick,
                                                    Sums& sums) noexcept {
  const std::uint32_t length = std::uint32_t{p.l3_offset} + p.l3_length;
  e.packets += 1;
  e.bytes += length;
  e.last_seen = tick;
  sums.bytes += length;
}

// Counts a packet. It is done with what nearly all packets are: a request at its turn, one that was seen before, or an
// ACK that has nothing to tell. They come mixed at random, so what differs between them is computed, as numbers, and
// not branched on. Saves 8 of 22 cycles per packet (micro_track --mixed; bench/results/plain_forms.json). An `other`
// packet has changed nothing.
[[gnu::always_inline]] inline QpTracker::Account QpTracker::account(tables::QpEntry& e, const wire::Parsed& p,
                                                                    std::uint32_t tick, Sums& sums) noexcept {
  using detail::PacketClass;
  const std::uint64_t kind = detail::kPacketClasses[p.opcode];
  const std::uint32_t behind = e.request.raw() - p.psn.value();  // any flag makes it large
  // Bit 2 of the result is that of the packet; beyond the window there is none.
  const std::uint64_t seen = (e.window << 3 | 4) >> std::min(behind, 63u);
  const std::uint64_t fits = ((seen & PacketClass::plain) | PacketClass::ack) & kind;
  const bool marked = (~p.tos & 3) == 0;
  if (fits == 0 || marked) [[unlikely]]
    return Account::other;
  const bool talks = (p.syndrome & wire::Syndrome::kKindMask) != 0 || (e.response.high() & kListens) != 0;
  if (talks && fits == PacketClass::ack) [[unlikely]]
    return Account::other;

  count(e, p, tick, sums);
  // Seen before, while the responder waits for nothing that came before, unless it is its turn.
  const std::uint64_t known = fits / PacketClass::plain;
  const std::uint64_t turn = known & (std::uint64_t{behind} - 1) >> 63;
  const std::uint64_t tally = kind & PacketClass::counts[known + turn];
  e.request.advance(static_cast<std::uint32_t>(turn));
  e.window = e.window << turn | turn;
  sums.tallies += tally;
  return e.count(tally) ? Account::done : Account::wrapped;
}

// A packet that is not plain, or not at the position where its key was expected: the position of its entry, kNone when
// it has none.
template <typename Access, typename Packet>
std::uint32_t QpTracker::unexpected(TimeNs now, std::uint32_t position, std::uint64_t v6_addresses,
                                    Packet* packet) noexcept {
  const wire::Parsed& p = Access::parsed(packet);
  if (p.kind != wire::FrameKind::roce) return tables::QpTable::kNone;
  tables::QpKey key{p.address_key, p.dest_qp.value()};
  if (p.has(wire::ParsedFlag::ipv6)) {
    key = {v6_addresses, p.dest_qp.value() | tables::QpEntry::kV6};
    if (table_.matches(position, key)) return position;
  }
  position = resolve(now, key, p, Access::frame(packet));
  if (position == tables::QpTable::kNone && p.dest_qp == wire::kGsiQpn) {
    std::array<std::uint8_t, wire::kMadBytes> scratch;
    const std::uint8_t* mad = Access::read(packet, CmConnections::mad_offset(p), wire::kMadBytes, scratch.data());
    on_management(now, p, Access::frame(packet), mad);
  }
  return position;
}

}  // namespace weft::stages
