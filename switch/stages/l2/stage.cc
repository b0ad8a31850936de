// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/l2/stage.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "switch/base/counter_set.h"
#include "switch/stages/kernel_punt/drops.h"
#include "switch/stages/l2/drops.h"
#include "switch/stages/l2/forward_memo.h"

namespace weft::stages {
namespace {

using config::Value;
using pipeline::Batch;
using pipeline::Context;
using pipeline::DropReason;
using pipeline::PacketMeta;
using pipeline::PortIndex;
using tables::Fdb;
using tables::FdbKey;
using wire::ParsedFlag;

constexpr std::uint16_t kNoVid = 0xffff;
constexpr std::uint32_t kTagBytes = 4;

std::uint32_t seconds(TimeNs now) noexcept {
  return static_cast<std::uint32_t>(now / 1'000'000'000);
}

// The two addresses of an Ethernet header as integers, first wire byte most significant.
struct MacPair {
  std::uint64_t destination;
  std::uint64_t source;
};
MacPair mac_pair(const std::uint8_t* frame) noexcept {
  std::uint64_t first;
  std::uint64_t second;
  std::memcpy(&first, frame, sizeof first);
  std::memcpy(&second, frame + 4, sizeof second);
  return {__builtin_bswap64(first) >> 16, __builtin_bswap64(second) & 0xffffffffffff};
}

// 01:80:c2:00:00:00 to :0f are for the bridge itself (IEEE 802.1Q 8.6.3).
bool is_link_local(std::uint64_t mac) noexcept {
  return (mac & ~std::uint64_t{0xf}) == 0x0180c2000000;
}

// A limit on flooded packets per ingress port: at most `rate` a second, with a tenth of a second's worth at once.
class StormLimit {
 public:
  explicit StormLimit(std::uint64_t rate) : rate_(rate), tokens_(burst()) {}

  bool allow(TimeNs now) noexcept {
    if (rate_ == 0) return true;
    const TimeNs elapsed = std::min<TimeNs>(now - last_, kSecond);
    const std::uint64_t earned = elapsed * rate_ + fraction_;
    tokens_ = std::min(tokens_ + earned / kSecond, burst());
    fraction_ = earned % kSecond;
    last_ = now;
    if (tokens_ == 0) return false;
    --tokens_;
    return true;
  }

 private:
  [[nodiscard]] std::uint64_t burst() const noexcept { return std::max<std::uint64_t>(rate_ / 10, 1); }
  std::uint64_t rate_;
  std::uint64_t tokens_;
  std::uint64_t fraction_ = 0;  // of a token, in 1/kSecond
  TimeNs last_ = 0;
};

// 802.1Q membership, arranged for lookups by port and by VLAN.
class VlanTable {
 public:
  explicit VlanTable(const pipeline::SwitchInfo& info)
      : access_(info.ports.size()), ports_(info.ports.size()), members_(pipeline::kMaxVid + 1) {
    for (const std::uint16_t vid : info.vlans) exists_.set(vid);
    for (const auto& port : info.ports) {
      Port& p = ports_[port.index];
      Access& a = access_[port.index];
      a.native = port.vlans.native.value_or(kNoVid);
      p.tagged = port.vlans.tagged;
      p.allowed = port.vlans.tagged;
      if (a.native != kNoVid) {
        p.allowed.set(a.native);
        p.tagged.reset(a.native);
      }
      a.trunk = p.tagged.any();
      for (const std::uint16_t vid : info.vlans) {
        if (p.allowed[vid]) members_[vid].push_back(port.index);
      }
    }
  }

  // The fields of a port that every packet needs, kept apart from the rarely used ones so that they share cache lines.
  struct Access {
    std::uint16_t native = kNoVid;
    bool trunk = false;  // sends any VLAN with a tag
  };
  struct Port {
    std::bitset<4096> tagged;   // sent and accepted with a tag
    std::bitset<4096> allowed;  // all VLANs of the port
  };
  [[nodiscard]] Access access(PortIndex index) const noexcept { return access_[index]; }
  [[nodiscard]] const Port& port(PortIndex index) const noexcept { return ports_[index]; }
  [[nodiscard]] const std::vector<PortIndex>& members(std::uint16_t vid) const noexcept { return members_[vid]; }
  [[nodiscard]] bool exists(std::uint16_t vid) const noexcept { return exists_[vid]; }

 private:
  std::vector<Access> access_;
  std::vector<Port> ports_;
  std::vector<std::vector<PortIndex>> members_;
  std::bitset<4096> exists_;
};

// Moves the offsets of a parse record with the bytes; 0 says that there is no such header.
void move_offsets(wire::Parsed& parsed, int bytes) noexcept {
  if (parsed.l3_offset != 0) parsed.l3_offset = static_cast<std::uint8_t>(parsed.l3_offset + bytes);
  if (parsed.l4_offset != 0) parsed.l4_offset = static_cast<std::uint8_t>(parsed.l4_offset + bytes);
}

// Adds or takes away the 802.1Q tag so that the frame fits the egress port, and keeps the parse record true. False when
// the buffer has no room for a tag.
bool set_tag(rte_mbuf* m, PacketMeta& pm, bool tagged, std::uint16_t vid) noexcept {
  const bool has_tag = pm.parsed.has(ParsedFlag::vlan_tagged);
  if (!tagged && !has_tag) return true;
  if (tagged && has_tag && (pm.parsed.vlan_tci & 0xfff) == vid) return true;
  std::uint8_t* frame = pipeline::frame(m);
  if (!tagged) {
    std::memmove(frame + kTagBytes, frame, 12);
    rte_pktmbuf_adj(m, kTagBytes);
    move_offsets(pm.parsed, -static_cast<int>(kTagBytes));
    pm.parsed.flags &= static_cast<std::uint8_t>(~ParsedFlag::vlan_tagged);
    pm.parsed.vlan_tci = 0;
    return true;
  }
  if (!has_tag) {
    char* head = rte_pktmbuf_prepend(m, kTagBytes);
    if (head == nullptr) return false;
    frame = reinterpret_cast<std::uint8_t*>(head);
    std::memmove(frame, frame + kTagBytes, 12);
    frame[12] = 0x81;
    frame[13] = 0x00;
    move_offsets(pm.parsed, kTagBytes);
    pm.parsed.flags |= ParsedFlag::vlan_tagged;
  }
  const auto tci = static_cast<std::uint16_t>((pm.parsed.vlan_tci & 0xf000) | vid);
  frame[14] = static_cast<std::uint8_t>(tci >> 8);
  frame[15] = static_cast<std::uint8_t>(tci);
  pm.parsed.vlan_tci = tci;
  return true;
}

class L2Stage : public pipeline::Stage {
 public:
  L2Stage(const pipeline::StageBuild& build, L2Shared& shared)
      : fdb_(shared.fdb()),
        vlans_(build.info),
        forward_link_local_(build.options["forward_link_local"].boolean()),
        kernel_(shared.kernel()),
        worker_(build.worker),
        storm_(build.info.ports.size(),
               StormLimit((build.options["storm_limit_pps"].unsigned_integer() + build.workers - 1u) / build.workers)) {
  }

  void ingress(Context& context, Batch& batch) override;
  [[nodiscard]] bool takes_mail() const override { return kernel_ != nullptr; }
  [[nodiscard]] bool has_mail() const override { return kernel_->waiting(worker_); }
  void on_mail(Context& context) override { kernel_->send_waiting(context); }
  [[nodiscard]] std::span<const Counter> counters() const override { return counters_.all(); }

 private:
  struct Leaving {
    pipeline::Departure all;
    bool together = true;  // through the same port
  };
  std::uint32_t forward_known(const Batch& batch, std::uint32_t i, Leaving& leaving) noexcept;
  void forward(Context& context, Batch& batch, std::uint16_t i, std::uint32_t now_s) noexcept;
  // Why a packet may not enter, or its VLAN.
  struct Classified {
    std::uint16_t vid;
    bool dropped;
    DropReason reason;
  };
  [[nodiscard]] Classified classify(const PacketMeta& pm) const noexcept;
  // Learns the source and finds the destination; kNoPort when the packet was flooded or dropped.
  PortIndex look_up(Context& context, Batch& batch, std::uint16_t i, std::uint16_t vid, std::uint32_t now_s) noexcept;
  void flood(Context& context, Batch& batch, std::uint16_t i, std::uint64_t destination, std::uint16_t vid) noexcept;
  void learn(FdbKey key, PortIndex port, std::uint32_t now_s) noexcept;
  [[nodiscard]] bool leave_through(rte_mbuf* m, PortIndex port, std::uint16_t vid) const noexcept {
    PacketMeta& pm = pipeline::meta(m);
    pm.out_port = port;
    if (!pm.parsed.has(ParsedFlag::vlan_tagged) && !vlans_.access(port).trunk) [[likely]]
      return true;
    return set_tag(m, pm, vlans_.port(port).tagged[vid], vid);
  }
  void add(L2Counter counter) noexcept { counters_.add(counter); }

  Fdb& fdb_;
  VlanTable vlans_;
  ForwardMemo memo_;
  bool forward_link_local_;
  L3Kernel* kernel_;  // nullptr: link-local frames are dropped, or forwarded
  std::uint16_t worker_;
  std::vector<StormLimit> storm_;
  CounterSet<L2Counter> counters_;
};

L2Stage::Classified L2Stage::classify(const PacketMeta& pm) const noexcept {
  const VlanTable::Access access = vlans_.access(pm.in_port);
  const std::uint16_t tag_vid = pm.parsed.vlan_tci & 0xfff;
  const bool tagged = pm.parsed.has(ParsedFlag::vlan_tagged) && tag_vid != 0;  // VID 0 is a priority tag
  if (!tagged) [[likely]]
    return {access.native, access.native == kNoVid, L2Drop::vlan_untagged_on_trunk};
  if (vlans_.port(pm.in_port).allowed[tag_vid]) return {tag_vid, false, DropReason::vlan_unknown};
  if (!vlans_.exists(tag_vid)) return {tag_vid, true, DropReason::vlan_unknown};
  return {tag_vid, true, access.trunk ? DropReason::vlan_not_allowed : L2Drop::vlan_tagged_on_access};
}

// Packets from `i` on, until one that is not untagged in and untagged out of the port that the memo knows: of those
// nothing is left to do. It calls nothing, so that the compiler has all registers for the loop.
[[gnu::noinline]] std::uint32_t L2Stage::forward_known(const Batch& batch, std::uint32_t i, Leaving& leaving) noexcept {
  PortIndex from = pipeline::kNoPort;
  std::uint64_t untagged = 0;
  PortIndex port = leaving.all.port;
  std::uint32_t longest = leaving.all.longest;
  std::uint64_t bytes = leaving.all.bytes;
  const std::size_t size = batch.size;
  std::size_t at = i;
  for (; at < size; ++at) {
    rte_mbuf* m = batch.packet[at];
    PacketMeta& pm = pipeline::meta(m);
    if (pm.in_port != from) [[unlikely]] {
      from = pm.in_port;
      untagged = memo_.untagged(ForwardMemo::way_in(vlans_.access(from).native, from));
    }
    if (pm.parsed.has(ParsedFlag::vlan_tagged)) [[unlikely]]
      break;
    const auto* known = memo_.find_untagged(ForwardMemo::key(pipeline::frame(m), 0), untagged);
    if (known == nullptr) [[unlikely]]
      break;
    pm.out_port = known->out;
    if (known->out != port) [[unlikely]] {
      leaving.together &= port == pipeline::kNoPort;
      port = known->out;
    }
    longest = std::max(longest, m->pkt_len);
    bytes += m->pkt_len;
  }
  leaving.all = {port, longest, bytes};
  return static_cast<std::uint32_t>(at);
}

void L2Stage::ingress(Context& context, Batch& batch) {
  const std::uint32_t now_s = seconds(context.now);
  memo_.start_burst(fdb_.generation(), now_s);
  Leaving leaving;
  for (std::uint32_t i = forward_known(batch, 0, leaving); i < batch.size; i = forward_known(batch, i + 1, leaving)) {
    leaving.together = false;
    forward(context, batch, static_cast<std::uint16_t>(i), now_s);
  }
  if (leaving.together) batch.depart(leaving.all);
}

[[gnu::noinline]] void L2Stage::forward(Context& context, Batch& batch, std::uint16_t i, std::uint32_t now_s) noexcept {
  rte_mbuf* m = batch.packet[i];
  const PacketMeta& pm = pipeline::meta(m);
  // Link-local frames belong to the port and to no VLAN.
  if (kernel_ != nullptr && is_link_local(mac_pair(pipeline::frame(m)).destination)) {
    return kernel_->punt(context, batch, i);
  }
  const Classified found = classify(pm);
  if (found.dropped) return context.drop(batch, i, found.reason);
  const ForwardMemo::Key key = ForwardMemo::key(pipeline::frame(m), ForwardMemo::way_in(found.vid, pm.in_port));
  const auto* known = memo_.find(key);
  PortIndex out = known != nullptr ? known->out : pipeline::kNoPort;
  if (known == nullptr) {
    out = look_up(context, batch, i, found.vid, now_s);
    if (out == pipeline::kNoPort) return;
    memo_.store(key, out, !vlans_.access(out).trunk);
  }
  if (!leave_through(m, out, found.vid)) context.drop(batch, i, DropReason::no_headroom);
}

PortIndex L2Stage::look_up(Context& context, Batch& batch, std::uint16_t i, std::uint16_t vid,
                           std::uint32_t now_s) noexcept {
  const PortIndex in_port = pipeline::meta(batch.packet[i]).in_port;
  const MacPair macs = mac_pair(pipeline::frame(batch.packet[i]));
  learn(FdbKey(macs.source, vid), in_port, now_s);
  const PortIndex out = fdb_.find(FdbKey(macs.destination, vid));
  if (out == pipeline::kNoPort) {
    flood(context, batch, i, macs.destination, vid);
  } else if (out == in_port) {
    context.drop(batch, i, L2Drop::same_port);
  } else {
    return out;
  }
  return pipeline::kNoPort;
}

void L2Stage::learn(FdbKey key, PortIndex port, std::uint32_t now_s) noexcept {
  if (key.word() >> 16 == 0) [[unlikely]]
    return;
  switch (fdb_.learn(key, port, now_s)) {
    case Fdb::Learned::added:
      return add(L2Counter::learned);
    case Fdb::Learned::moved:
      return add(L2Counter::moved);
    case Fdb::Learned::full:
      return add(L2Counter::fdb_full);
    case Fdb::Learned::refreshed:
    case Fdb::Learned::is_static:
      return;
  }
}

void L2Stage::flood(Context& context, Batch& batch, std::uint16_t i, std::uint64_t destination,
                    std::uint16_t vid) noexcept {
  rte_mbuf* m = batch.packet[i];
  const PortIndex in_port = pipeline::meta(m).in_port;
  if (is_link_local(destination) && !forward_link_local_) return context.drop(batch, i, L2Drop::link_local);
  if (!storm_[in_port].allow(context.now)) return context.drop(batch, i, L2Drop::storm_limit);

  // The packet itself leaves through the first port, copies through the others.
  PortIndex first = pipeline::kNoPort;
  for (const PortIndex port : vlans_.members(vid)) {
    if (port == in_port || !context.link_up(port)) continue;
    if (first == pipeline::kNoPort) {
      first = port;
      continue;
    }
    rte_mbuf* copy = context.replicate(m);
    if (copy == nullptr) {
      add(L2Counter::flood_incomplete);
    } else if (leave_through(copy, port, vid)) {
      context.resume(copy);
    } else {
      context.drop(copy, DropReason::no_headroom);
    }
  }
  if (first == pipeline::kNoPort) return context.drop(batch, i, L2Drop::no_flood_port);
  add((destination >> 40 & 1) != 0 ? L2Counter::flooded_multicast : L2Counter::flooded_unknown);
  if (!leave_through(m, first, vid)) context.drop(batch, i, DropReason::no_headroom);
}

bool is_member(const pipeline::PortInfo& port, std::uint16_t vid) {
  return port.vlans.native == vid || port.vlans.tagged.test(vid);
}

// Both have the same VLANs by port and the same static entries, so that what was learned in one holds in the other.
bool same_bridge(const pipeline::SwitchInfo& a, const pipeline::SwitchInfo& b) {
  return std::equal(a.ports.begin(), a.ports.end(), b.ports.begin(), b.ports.end(),
                    [](const auto& p, const auto& q) {
                      return p.vlans.native == q.vlans.native && p.vlans.tagged == q.vlans.tagged;
                    }) &&
         std::equal(a.static_macs.begin(), a.static_macs.end(), b.static_macs.begin(), b.static_macs.end(),
                    [](const auto& e, const auto& f) { return e.mac == f.mac && e.vid == f.vid && e.port == f.port; });
}

config::Schema l2_options() {
  using config::Schema;
  using Key = Schema::Key;
  return Schema::map({
      Key::with_default("ageing_s", Schema::integer(1, 1'000'000), Value(std::int64_t{300}),
                        "Seconds after which a learned address that was not seen again is forgotten."),
      Key::with_default("max_macs", Schema::integer(1, 1 << 24), Value(std::int64_t{8192}),
                        "Addresses that the forwarding database is meant to hold."),
      Key::with_default("storm_limit_pps", Schema::integer(0, 1'000'000'000), Value(std::int64_t{0}),
                        "Flooded packets a second and ingress port; 0 is no limit."),
      Key::with_default("forward_link_local", Schema::boolean(), Value(false),
                        "Flood frames to 01:80:c2:00:00:0x (LLDP, LACP, ...) as a wire would."),
  });
}

}  // namespace

L2Shared::L2Shared(const pipeline::StageBuild& build)
    : info_(build.info),
      fdb_(build.options["max_macs"].unsigned_integer() + info_.static_macs.size()),
      ageing_s_(static_cast<std::uint32_t>(build.options["ageing_s"].integer())) {
  if (info_.kernel) kernel_ = std::make_unique<L3Kernel>(info_, build.workers);
  if (kernel_) publish(*kernel_);
  for (const auto& entry : info_.static_macs) fdb_.add_static(FdbKey(entry.mac.to_u64(), entry.vid), entry.port);
}

void L2Shared::housekeeping(TimeNs now) {
  now_s_.store(seconds(now), std::memory_order_relaxed);
  fdb_.expire(seconds(now), ageing_s_);
}

void L2Shared::on_link(PortIndex port, bool up) {
  if (!up) fdb_.flush(port);
}

void L2Shared::adopt(pipeline::StageShared& old_shared, const pipeline::Adoption& adoption) {
  auto& old = dynamic_cast<L2Shared&>(old_shared);
  now_s_.store(old.now_s_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  if (kernel_ && old.kernel_) kernel_->adopt(*old.kernel_, adoption.ports);
  if (adoption.ports.identity() && old.fdb_.capacity() == fdb_.capacity() && same_bridge(old.info_, info_)) {
    fdb_.swap(old.fdb_);
    return;
  }
  constexpr std::size_t kAtOnce = 256;
  for (std::size_t cursor = 0; cursor < old.fdb_.capacity();) {
    for (const Fdb::Entry& entry : old.fdb_.list(cursor, kAtOnce)) {
      const PortIndex port = adoption.ports(entry.port);
      if (entry.is_static || port == pipeline::kNoPort || !is_member(info_.ports[port], entry.key.vid())) continue;
      fdb_.learn(entry.key, port, entry.last_seen_s);
    }
  }
}

std::vector<std::string_view> L2Shared::tables() const {
  if (kernel_) return {"fdb", "kernel"};
  return {"fdb"};
}

nlohmann::ordered_json L2Shared::rows(std::string_view table, std::uint64_t& cursor, std::size_t max) const {
  if (table == "kernel") return kernel_->rows(info_, cursor, max);
  std::size_t position = cursor;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  const std::uint32_t now_s = now_s_.load(std::memory_order_relaxed);
  for (const Fdb::Entry& entry : fdb_.list(position, max)) {
    rows.push_back({{"mac", entry.key.mac().to_string()},
                    {"vlan", entry.key.vid()},
                    {"port", info_.ports[entry.port].name},
                    {"type", entry.is_static ? "static" : "dynamic"},
                    {"age_s", nullptr}});
    // The coarse clock of this thread may lag behind the worker's.
    if (!entry.is_static) rows.back()["age_s"] = now_s > entry.last_seen_s ? now_s - entry.last_seen_s : 0;
  }
  cursor = position == fdb_.capacity() ? kEnd : position;
  return rows;
}

pipeline::StageType l2_stage_type() {
  pipeline::StageType type;
  type.name = "l2";
  type.summary = "802.1Q bridging: VLAN membership, learning, forwarding, flooding.";
  type.needs = {"parsed"};
  type.provides = {"forward"};
  type.options = l2_options();
  type.counters = {
#define WEFT_COUNTER(name, unit, kind, text) {#name, unit, pipeline::CounterKind::kind, text},
#include "switch/base/time.h"
#include "switch/stages/l2/counters.def"
#undef WEFT_COUNTER
  };
  type.drops = {L2Drop::block(), KernelDrop::block()};
  type.make_shared = [](const pipeline::StageBuild& build) { return std::make_unique<L2Shared>(build); };
  type.make = [](const pipeline::StageBuild& build, pipeline::StageShared* shared) {
    return std::make_unique<L2Stage>(build, dynamic_cast<L2Shared&>(*shared));
  };
  return type;
}

}  // namespace weft::stages
