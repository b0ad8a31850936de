// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Themis-D (Liu et al., APNET 2025, 3.3 and 3.4) as a protocol unit: decides for one queue pair which NACKs of its
// receiver are about packets that are really lost. No DPDK.
//
// the paper                  here
// N                          NackQp::paths
// PSN queue                  the ring (`ring_first`, `ring_scan`)
// tPSN                       the entry of the ring that on_nack() finds
// eq. 3                      PathCount::class_of() of both PSNs is equal
// BePSN                      NackState::blocked
// Valid                      NackFlag::armed
// flow table entry           NackState
// NACK compensation          DataVerdict::compensate
//
// Four checks. `ring_first` is the paper's: the first PSN behind the expected one in the queue of what left on the last
// hop is taken for the one that triggered the NACK. `ring_scan` looks for any packet behind it on its path, `hwm` asks
// whether the highest PSN of that path is behind it. All three take a packet for lost that is still under way on the
// last hop, or whose copy is, and all but the last miss some that are lost. `gap`, the default, is exact for losses in
// the fabric: every path delivers in order, so a PSN is lost when its own path has delivered a later one and not it.
//
// gap, by packet:
// - data x on path p: what lies between the highest PSN of p so far and x, on p, is lost; x is not.
// - NACK(e): e is lost: valid. Else, when p = path(e) has delivered e or more, e has left already and the NACK crossed
//   it: blocked, and only the guard waits for a loss on the last hop. Else e is still to come: blocked and armed; a
//   packet that skips e on p compensates, e itself disarms.
// - A packet that this switch drops after its queue is lost as soon as that happens.
// - The first PSN seen on a path says nothing about earlier ones, unless the first PSN of the connection is known.
// - READ requests take PSNs that are never sent: these count as lost nowhere and do no harm, as no receiver asks for
//   them; they are left out where their number is known, so that the set of what is lost stays small.
//
// The guard is what no packet can prove: a loss at the end of a burst or on the last hop. Every blocked NACK starts it;
// proof of receipt (an ACK of e or later, a NACK or RNR NAK of a later PSN), a valid NACK of e, and a compensation end
// it; when it expires the NACK is sent on. At most one NACK per PSN is blocked, and only the last one matters: a
// receiver that asks for e has all PSNs before.
//
// Where packets come in matters: a class of PSNs whose packets begin to arrive through another uplink has another path
// now. Then nothing is judged (NACKs pass) until the new mapping has been learned, and packets of each path have come
// without a gap for a while. PSNs that come in through one uplink are a multiple of N apart: N is what divides all
// these distances, also while other uplinks are slow and have not delivered anything newer yet. Where uplinks stand for
// several paths, N is the sum of the weights of those in use.
//
// NACKs for PSNs from before the new mapping are not judged either. They pass, as those while it is learned: where a
// path is gone, its packets have been lost. But when packets come in through an uplink that was not in use before, a
// path has come back, which loses nothing: packets that wait in the queues of the old paths come later than those of
// the new one, and of all these NACKs the guard alone decides. While PSNs from before an earlier mapping are awaited,
// NACKs pass nevertheless: it may have lost some.
//
// An uplink of this switch that is down delivers nothing any more: what a class of PSNs that comes in through it has
// not delivered is lost, or will be until the sender's ToR takes another path. One that an operator has excluded is
// taken for down, though what is under way may well arrive: nobody excludes a path because it is good.
//
// Receivers that keep no early packets (go-back-N) are found, unless `detect_gbn` is off. Two signs say that a packet
// has reached the receiver and was dropped there:
// - x leaves for the first time, x + 1 has left once, and before x; then NACK(x + 1) comes. A receiver that keeps early
//   packets acknowledges x + 1 together with x. One that does so shows the opposite.
// - The guard expires for a packet that has left: nothing acknowledges it.
// A loss on the last hop, which delivers in order, looks the same: therefore it takes `gbn_proofs` such signs, each
// of another PSN, without the opposite in between. From then on the NACKs of this receiver pass, and nothing is judged:
// to it a packet that comes too early is lost. The first sign is looked for only after a NACK was blocked, so that the
// packets of other queue pairs take the fast path; kKeptProofs signs of the opposite settle the question for the
// connection.
//
// Where arrivals say nothing (no arrival check), N changes when it is told to: then NACKs pass until the receiver asks
// for a PSN further ahead than a whole window, which is more than can be under way by the mapping before.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "switch/stages/lb/psn_paths.h"
#include "switch/wire/types.h"

namespace weft::stages {

/// How NACKs are judged.
enum class NackCheck : std::uint8_t { ring_first, ring_scan, hwm, gap };

/// What all queue pairs of a filter have in common.
struct NackRules {
  static constexpr std::uint32_t kMaxPaths = 256;
  static constexpr std::uint32_t kMaxUplinks = 64;

  NackCheck check = NackCheck::gap;
  std::uint8_t ring_entry_bits = 8;  ///< 8: the low byte of each PSN, as in the paper; 24: all of it
  std::uint32_t ring_entries = 100;  ///< of the PSN queue; the oldest entry makes room
  std::uint32_t window_psns = 1024;  ///< PSNs back to which losses are remembered; a power of two, 64 to 65536
  std::uint32_t paths = 2;           ///< N at first, up to kMaxPaths
  bool arrival_check = true;         ///< judge nothing while packets arrive where they did not before
  std::uint64_t guard_ns = 0;        ///< 0: no guard
  bool detect_gbn = true;            ///< find receivers that keep no early packets
  std::uint8_t gbn_proofs = 3;       ///< signs of one, without a sign of the opposite, that are enough; at least 1
  std::uint32_t uplinks = 2;         ///< how many there are, up to kMaxUplinks
  std::array<std::uint8_t, kMaxUplinks> weights{};  ///< by uplink: paths that it stands for

  [[nodiscard]] bool has_ring() const noexcept {
    return check == NackCheck::ring_first || check == NackCheck::ring_scan;
  }
  /// N while these uplinks (a bit each) are excluded, by the weights of the others; `paths` where that is no multiple
  /// of the weights' sum.
  [[nodiscard]] std::uint32_t paths_without(std::uint64_t excluded) const noexcept;
  /// Most paths that any set of uplinks gives.
  [[nodiscard]] std::uint32_t most_paths() const noexcept;
};

/// Flags of NackState. Any of them sends data packets to the slow path.
struct NackFlag {
  static constexpr std::uint8_t lost = 1;        ///< PSNs are known to be lost
  static constexpr std::uint8_t pending = 2;     ///< a NACK was blocked, and nothing has settled it yet
  static constexpr std::uint8_t armed = 4;       ///< of that NACK: a later packet of its path compensates
  static constexpr std::uint8_t learning = 8;    ///< the mapping changed: watching which uplinks are in use
  static constexpr std::uint8_t probation = 16;  ///< a new mapping is being tried
  static constexpr std::uint8_t watching = 64;   ///< looking for signs whether the receiver keeps early packets
  static constexpr std::uint8_t in_order = 128;  ///< it does not: its NACKs pass
  static constexpr std::uint8_t grown = 32;      ///< it has paths that the one before, whose PSNs are awaited, had not
};

/// Of one queue pair, the direction of its requests.
struct alignas(64) NackState {
  static constexpr std::uint32_t kEvery = 0xffffffff;
  static constexpr std::uint32_t kNone = 0xffffffff;
  /// Signs that the receiver keeps early packets after which nothing more is looked for.
  static constexpr std::uint8_t kKeptProofs = 8;

  std::uint64_t address_key = 0;  ///< Parsed::address_key of its packets
  std::uint32_t dest_qp = 0;      ///< 0: nobody's
  std::uint8_t flags = 0;         ///< NackFlag
  std::uint8_t epsn_known = 0;
  std::uint16_t learned = 0;  ///< packets that learning has seen, or that probation has seen follow without a gap
  PathCount paths{};
  std::uint32_t blocked = kNone;  ///< PSN of the NACK that is pending, or was last
  std::uint32_t epsn = 0;         ///< what the receiver waits for, or more, when epsn_known
  std::uint32_t top = 0;          ///< highest PSN, while `lost` is set
  std::uint32_t lost_count = 0;   ///< PSNs that are lost
  std::uint64_t guard_at = 0;     ///< when the guard expires, 0: it does not run
  std::uint64_t uplinks_seen = 0;
  std::uint32_t ring_next = 0, ring_size = 0;
  std::array<std::uint32_t, 2> read_first{}, read_count{};  ///< PSNs that the last READs take without sending them
  std::uint32_t judged_from = kEvery;                       ///< earlier PSNs were sent by another mapping
  std::uint32_t stride = 0;           ///< learning: greatest common divisor of distances within uplinks, 0: of none
  std::uint32_t blocked_msn = 0;      ///< MSN of the NACK that is pending, or was last
  std::uint32_t early = kNone;        ///< watching: a PSN that left once, and before the one in front of it
  std::uint32_t watch_from = kNone;   ///< only of later PSNs is it certain whether they have left; kNone: of none yet
  std::uint32_t dropped_psn = kNone;  ///< of the last sign that the receiver drops early packets
  std::uint8_t dropped_proofs = 0, kept_proofs = 0;  ///< signs that the receiver drops or keeps early packets
};
static_assert(sizeof(NackState) == 128);

/// One path of a queue pair.
struct NackPath {
  /// No packet yet. Otherwise `last` is uplink << 24 | PSN.
  static constexpr std::uint32_t kUnknown = 0xff000000;
  /// Learning: no packet yet of an uplink that does not say by being used that a path has come back.
  static constexpr std::uint32_t kExpected = 0xff000001;
  /// The uplink of a mark that was derived from the connection's first PSN, before any packet.
  static constexpr std::uint32_t kAnyUplink = 0xfe;

  std::uint32_t last;     ///< highest PSN that left on the last hop
  std::uint32_t packets;  ///< wraps

  [[nodiscard]] bool known() const noexcept { return last >> 24 != 0xff; }
  [[nodiscard]] std::uint32_t uplink() const noexcept { return last >> 24; }
  [[nodiscard]] wire::Psn psn() const noexcept { return wire::Psn(last); }
};
static_assert(sizeof(NackPath) == 8);

/// The memory of one queue pair, as NackFilterUnit::view() gives it: a NackState, NackRules::most_paths() times
/// NackPath, a bit per PSN of the window, the ring.
class NackQp {
 public:
  NackQp(std::byte* memory, std::uint32_t lost_at, std::uint32_t ring_at) noexcept
      : memory_(memory), lost_at_(lost_at), ring_at_(ring_at) {}
  [[nodiscard]] NackState& state() const noexcept { return *reinterpret_cast<NackState*>(memory_); }
  [[nodiscard]] NackPath& path(std::uint32_t i) const noexcept {
    return reinterpret_cast<NackPath*>(memory_ + sizeof(NackState))[i];
  }
  [[nodiscard]] std::uint64_t& lost_word(std::uint32_t i) const noexcept {
    return reinterpret_cast<std::uint64_t*>(memory_ + lost_at_)[i];
  }
  [[nodiscard]] std::byte* ring() const noexcept { return memory_ + ring_at_; }

 private:
  std::byte* memory_;
  std::uint32_t lost_at_, ring_at_;
};

/// What a data packet brought about.
struct DataVerdict {
  bool compensate = false;   ///< the blocked NACK is due now: send it
  bool release = false;      ///< nothing can be judged any more, and no guard waits: the blocked NACK is to be sent
  bool spurious = false;     ///< it had passed before and was not lost: a retransmission in vain
  bool mismatch = false;     ///< it came in where packets of its class did not come in before
  bool after_block = false;  ///< spurious, and of the PSN of the last blocked NACK or a later one

  [[nodiscard]] bool any() const noexcept { return compensate || release || spurious || mismatch; }
};

/// What becomes of a NACK.
enum class NackVerdict : std::uint8_t {
  valid,      ///< its packet is lost: let it pass
  path_down,  ///< its packet has not come in through an uplink that is down: let it pass
  unknown,    ///< cannot be judged: let it pass
  in_order,   ///< the receiver keeps no early packets, so that it needs this one again: let it pass
  stored,     ///< no sign of a loss: it must not reach the sender, and is the one that may be sent later
  blocked,    ///< a late copy of a NACK that is settled: it must not reach the sender, and nothing has changed
};

/// The NACK must not reach the sender now.
[[nodiscard]] constexpr bool stops(NackVerdict verdict) noexcept {
  return verdict == NackVerdict::stored || verdict == NackVerdict::blocked;
}

/// The rules at work. Has no state but N: that of a queue pair comes with every call.
class NackFilterUnit {
 public:
  explicit NackFilterUnit(const NackRules& rules) noexcept;
  [[nodiscard]] const NackRules& rules() const noexcept { return rules_; }
  /// N of queue pairs that begin from now on, at first that of the rules.
  [[nodiscard]] std::uint32_t paths() const noexcept { return paths_; }
  /// @param paths  1 to rules().most_paths()
  void set_paths(std::uint32_t paths) noexcept { paths_ = paths; }

  /// Memory of one queue pair, a multiple of 8.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// @param memory  bytes() of it, aligned to 64, zero at first
  [[nodiscard]] NackQp view(std::byte* memory) const noexcept { return {memory, lost_at_, ring_at_}; }
  /// What the paper's equation 4 has for one queue pair: 20 bytes and the PSN queue.
  [[nodiscard]] std::size_t paper_bytes() const noexcept { return 20 + rules_.ring_entries; }

  /// The queue pair begins, anew. `first`: the PSN of its first packet, when that is known.
  void start(NackQp qp, std::optional<wire::Psn> first) const noexcept;

  /// A request packet leaves on the last hop. `uplink` is where it came in, 0 without arrival check.
  /// @param psns  PSNs that it takes: more than one for a READ request
  DataVerdict on_data(NackQp qp, wire::Psn psn, std::uint32_t uplink, std::uint32_t psns = 1) const noexcept {
    if (psns == 1 && on_next_data(qp, psn, uplink)) [[likely]]
      return {};
    return on_other_data(qp, psn, uplink, psns);
  }
  /// The same for a packet of one PSN, if it is the next one of its path and nothing is going on; false, and nothing
  /// has happened, otherwise.
  bool on_next_data(NackQp qp, wire::Psn psn, std::uint32_t uplink) const noexcept {
    if (!try_next(qp, psn, uplink)) return false;
    if (rules_.has_ring()) push_ring(qp, psn);
    return true;
  }
  /// The switch dropped a request packet on its way to the last hop.
  DataVerdict on_dropped(NackQp qp, wire::Psn psn) const noexcept;

  /// A NACK of the receiver. After `stored`, state().guard_at says when the guard expires; if that is not 0 and was
  /// not set before, the caller sees to it that on_guard() is called then. Whenever a call says that the blocked NACK
  /// is to be sent, it is the one with state().blocked and state().blocked_msn.
  /// @param msn           that of its AETH
  /// @param uplinks_down  a bit per uplink; only with arrival check
  NackVerdict on_nack(NackQp qp, std::uint64_t now_ns, wire::Psn epsn, std::uint32_t msn,
                      std::uint64_t uplinks_down = 0) const noexcept;
  /// Uplinks went down. True when that is where the packet of the blocked NACK was: send it.
  bool on_uplinks_down(NackQp qp, std::uint64_t uplinks_down) const noexcept;
  /// The sender's ToR has another N, that of set_paths(), and arrivals do not tell. True when something was pending:
  /// send the blocked NACK.
  bool on_new_paths(NackQp qp) const noexcept;
  /// The receiver has everything up to `psn`: an ACK, a READ or ATOMIC response.
  void on_receipt(NackQp qp, wire::Psn psn) const noexcept;
  /// An RNR NAK: `psn` has arrived, but the receiver could not take it and waits for it again.
  void on_not_ready(NackQp qp, wire::Psn psn) const noexcept;
  /// True when the guard expires at this time: send the blocked NACK.
  bool on_guard(NackQp qp, std::uint64_t now_ns) const noexcept;
  /// Ends what is pending. True when there was something: send the blocked NACK.
  bool release(NackQp qp) const noexcept;

  /// Feeds everything that decides future behaviour to `h(std::uint64_t)`: no statistics, and of the guard whether it
  /// runs.
  template <class Hash>
  void hash_state(NackQp qp, Hash&& h) const {
    const NackState& s = qp.state();
    h(s.flags | std::uint64_t{s.learned} << 8 | std::uint64_t{s.epsn_known} << 24 | std::uint64_t{s.epsn} << 32);
    const bool watching = (s.flags & NackFlag::watching) != 0;
    h((s.flags & NackFlag::pending) != 0 ? std::uint64_t{s.blocked_msn} << 32 | s.blocked : watching ? s.blocked : 0);
    h(s.guard_at != 0 ? 1 : 0);
    h(s.judged_from);
    h(s.paths.value() | std::uint64_t{s.lost_count} << 32);
    h(s.uplinks_seen);
    h(s.stride);
    h(s.dropped_proofs | std::uint64_t{s.kept_proofs} << 8 |
      std::uint64_t{s.dropped_proofs != 0 ? s.dropped_psn : 0} << 32);
    h(std::uint64_t{watching ? s.early : 0} << 32 | s.watch_from);
    if (s.lost_count != 0) {
      h(s.top);
      for (std::uint32_t i = 0; i < rules_.window_psns / 64; ++i) h(qp.lost_word(i));
    }
    // While the mapping is learned, there is one for each uplink.
    const bool learning = (s.flags & NackFlag::learning) != 0;
    const std::uint32_t paths = learning ? std::max(s.paths.value(), rules_.uplinks) : s.paths.value();
    for (std::uint32_t i = 0; i < paths; ++i) h(qp.path(i).last);
    for (std::size_t i = 0; i < s.read_first.size(); ++i) h(std::uint64_t{s.read_count[i]} << 32 | s.read_first[i]);
    if (!rules_.has_ring()) return;
    h(s.ring_size);
    for (std::uint32_t i = 0; i < s.ring_size; ++i) h(ring_at(qp, i, wire::Psn(0)).value());
  }

 private:
  // The packet that comes next on its path, while nothing is going on: all that nearly every packet needs. Its path's
  // last packet came in through the same uplink and had the PSN N before: one comparison.
  static bool try_next(NackQp qp, wire::Psn psn, std::uint32_t uplink) noexcept {
    const NackState& s = qp.state();
    NackPath& path = qp.path(s.paths.class_of(psn));
    const std::uint32_t word = uplink << 24 | psn.value();
    if (s.flags != 0 || psn.value() < s.paths.value() || path.last != word - s.paths.value()) return false;
    path.last = word;
    ++path.packets;
    return true;
  }
  DataVerdict on_other_data(NackQp qp, wire::Psn psn, std::uint32_t uplink, std::uint32_t psns) const noexcept;
  bool follow(NackQp qp, wire::Psn psn, std::uint32_t uplink, DataVerdict& verdict) const noexcept;
  void declare_skipped(NackQp qp, wire::Psn before, wire::Psn psn) const noexcept;
  void compensate(NackQp qp, wire::Psn psn, DataVerdict& verdict) const noexcept;

  // Whether the receiver keeps early packets.
  void watch(NackQp qp, wire::Psn psn, std::uint32_t psns, bool spurious) const noexcept;
  [[nodiscard]] bool has_left(NackQp qp, wire::Psn psn) const noexcept;
  void start_watching(NackQp qp) const noexcept;
  bool learn_from(NackQp qp, wire::Psn epsn, bool waits) const noexcept;
  bool has_dropped(NackQp qp, wire::Psn psn) const noexcept;

  // The mapping of PSNs to paths.
  void reset_paths(NackQp qp, std::uint32_t paths) const noexcept;
  void lose_track(NackQp qp, wire::Psn psn, DataVerdict& verdict) const noexcept;
  void judge_from(NackQp qp, wire::Psn psn) const noexcept;
  void start_learning(NackQp qp, bool may_grow) const noexcept;
  void learn(NackQp qp, wire::Psn psn, std::uint32_t uplink) const noexcept;
  [[nodiscard]] std::uint32_t paths_learned(const NackState& s) const noexcept;
  [[nodiscard]] bool follows(const NackState& s, wire::Psn before, wire::Psn psn) const noexcept;
  [[nodiscard]] bool from_before(const NackState& s, wire::Psn psn) const noexcept;
  void restart(NackQp qp, DataVerdict& verdict) const noexcept;

  // The set of PSNs that are lost.
  [[nodiscard]] wire::Psn highest(NackQp qp) const noexcept;
  [[nodiscard]] bool is_lost(NackQp qp, wire::Psn psn) const noexcept;
  void raise_top(NackQp qp, wire::Psn psn) const noexcept;
  void add_lost(NackQp qp, wire::Psn psn) const noexcept;
  bool remove_lost(NackQp qp, wire::Psn psn) const noexcept;
  void prune_lost(NackQp qp, wire::Psn until) const noexcept;
  void forget_lost(NackQp qp) const noexcept;
  static void note_read(NackState& s, wire::Psn psn, std::uint32_t psns) noexcept;
  [[nodiscard]] static bool never_sent(const NackState& s, wire::Psn psn) noexcept;

  // NACKs, and by check.
  static void heard_of(NackState& s, wire::Psn epsn) noexcept;
  [[nodiscard]] bool on_path_down(NackQp qp, wire::Psn psn, std::uint64_t uplinks_down) const noexcept;
  [[nodiscard]] NackVerdict judge_gap(NackQp qp, wire::Psn epsn, bool& arm) const noexcept;
  [[nodiscard]] bool ring_proves(NackQp qp, wire::Psn epsn) const noexcept;
  static void settle(NackState& s) noexcept;

  void push_ring(NackQp qp, wire::Psn psn) const noexcept;
  /// Entry i, 0 for the oldest. Of one that is cut short, the PSN nearest to `near`.
  [[nodiscard]] wire::Psn ring_at(NackQp qp, std::uint32_t i, wire::Psn near) const noexcept;
  static void pop_ring(NackState& s) noexcept { --s.ring_size; }

  NackRules rules_;
  std::uint32_t paths_;
  std::uint32_t lost_at_, ring_at_;
  std::size_t bytes_;
};

}  // namespace weft::stages
