// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/parse/stage.h"

#include <algorithm>
#include <bit>
#include <string>

#include "switch/stages/parse/drops.h"
#include "switch/wire/icrc.h"
#include "switch/wire/parse.h"
#include "switch/wire/parse_plain.h"

namespace weft::stages {
namespace {

using config::Schema;
using config::Value;
using pipeline::Batch;
using pipeline::Context;
using pipeline::DropReason;
using wire::FrameKind;
using wire::Validity;

// `ok` is no failure, and ip_checksum is for the L3 stage to find: neither has a counter here.
constexpr std::size_t invalid_slot(Validity v) noexcept {
  const auto value = static_cast<std::size_t>(v);
  return ParseStage::kFirstInvalid + value - (v < Validity::ip_checksum ? 1 : 2);
}
static_assert(invalid_slot(Validity::eth_truncated) == ParseStage::kFirstInvalid);
static_assert(invalid_slot(Validity::roce_qp0) + 1 == ParseStage::kIcrcChecked);

// Makes the headers of a chained packet contiguous. Segments behind the first that become empty stay in
// the chain: that is allowed, and freeing them one by one gains nothing.
[[gnu::noinline, gnu::cold]] bool pull_headers(rte_mbuf* m) noexcept {
  const std::uint32_t wanted = std::min(m->pkt_len, pipeline::kHeaderBytes);
  const std::uint32_t missing = wanted - m->data_len;
  if (!RTE_MBUF_DIRECT(m) || rte_mbuf_refcnt_read(m) != 1 || rte_pktmbuf_tailroom(m) < missing) return false;
  std::uint8_t* to = pipeline::frame(m) + m->data_len;
  for (rte_mbuf* from = m->next; from != nullptr && m->data_len < wanted; from = from->next) {
    const auto bytes = static_cast<std::uint16_t>(std::min<std::uint32_t>(from->data_len, wanted - m->data_len));
    std::memcpy(to, rte_pktmbuf_mtod(from, const std::uint8_t*), bytes);
    to += bytes;
    m->data_len = static_cast<std::uint16_t>(m->data_len + bytes);
    // Only this view of the segment shrinks; other holders of its bytes have their own.
    from->data_off = static_cast<std::uint16_t>(from->data_off + bytes);
    from->data_len = static_cast<std::uint16_t>(from->data_len - bytes);
  }
  return m->data_len == wanted;
}

bool icrc_right(const rte_mbuf* m) noexcept {
  const wire::Parsed& parsed = pipeline::meta(m).parsed;
  const std::uint8_t* head = pipeline::frame(m);
  if (m->nb_segs == 1) [[likely]]
    return wire::icrc_ok(head, parsed);
  const wire::RoceLayout layout = wire::roce_layout(head, parsed);
  wire::IcrcCalculator icrc({head, std::min<std::size_t>(m->data_len, layout.icrc)}, layout);
  for (const rte_mbuf* segment = m->next; icrc.remaining() != 0; segment = segment->next) {
    icrc.add({rte_pktmbuf_mtod(segment, const std::uint8_t*), segment->data_len});
  }
  std::uint8_t scratch[wire::kIcrcBytes];
  const void* stored = rte_pktmbuf_read(m, layout.icrc, sizeof scratch, scratch);
  return icrc.value() == wire::load_icrc(static_cast<const std::uint8_t*>(stored));
}

#if defined(__SSE4_1__)

using Plain = wire::detail::RoceV4Fields<sizeof(wire::EthernetHeader)>;

// True when the first segment holds the whole packet and at least the bytes that the fast paths read.
bool is_whole(const rte_mbuf* m) noexcept {
  return m->data_len == m->pkt_len && m->data_len >= Plain::kBytes;
}

// Tagged, or over IPv6.
bool parse_rest(rte_mbuf* m) noexcept {
  return is_whole(m) &&
         wire::detail::parse_roce_rest(pipeline::frame(m), m->data_len, m->data_len, pipeline::meta(m).parsed);
}

// Parses the plain RoCEv2 packets of a batch; bit i of the result says that packet i is left to the others, whose
// calls would cost the loop its registers. The indices have 32 bits, because with the 16 bits of Batch the compiled
// loop takes a sixth more time.
std::uint64_t take_fast(const Batch& batch) noexcept {
  const std::uint32_t size = batch.size;
  std::uint64_t left = 0;
  for (std::uint32_t i = 0; i < size; ++i) {
    rte_mbuf* m = batch.packet[i];
    wire::Parsed& parsed = pipeline::meta(m).parsed;
    const bool taken =
        is_whole(m) && wire::detail::parse_roce_ipv4<Plain::kIp>(pipeline::frame(m), m->data_len, parsed);
    if (!taken) [[unlikely]]
      left |= std::uint64_t{1} << i;
  }
  return left;
}

#else

bool is_whole(const rte_mbuf*) noexcept {
  return false;
}

bool parse_rest(rte_mbuf*) noexcept {
  return false;
}

std::uint64_t take_fast(const Batch& batch) noexcept {
  return batch.all();
}

#endif

}  // namespace

ParseStage::ParseStage(const Value& options) : drop_bad_icrc_(options["icrc_bad"].string() == "drop") {
  const std::string& check = options["icrc_check"].string();
  if (check == "all") icrc_every_ = 1;
  if (check == "sample") icrc_every_ = options["icrc_sample_every"].unsigned_integer();
  icrc_in_ = icrc_every_;
}

// A packet that take_fast() left. True for RoCEv2.
[[gnu::always_inline]] inline bool ParseStage::parse_one(Context& context, Batch& batch, std::uint32_t i) noexcept {
  rte_mbuf* m = batch.packet[i];
  if (parse_rest(m)) return true;
  if (m->data_len < m->pkt_len && m->data_len < pipeline::kHeaderBytes && !pull_headers(m)) [[unlikely]] {
    context.drop(batch, static_cast<std::uint16_t>(i), DropReason::header_split);
    return false;
  }
  wire::Parsed& parsed = pipeline::meta(m).parsed;
  if (wire::parse_plain_ipv4(pipeline::frame(m), m->data_len, m->pkt_len, parsed)) {
    counters_[static_cast<std::size_t>(parsed.kind)].add(1);
    return false;
  }
  if (is_whole(m)) {
    wire::parse_frame_slow(pipeline::frame(m), m->data_len, m->pkt_len, parsed);
  } else {
    wire::parse_frame(pipeline::frame(m), m->data_len, m->pkt_len, parsed);
  }
  if (parsed.kind == FrameKind::roce) [[likely]]
    return true;
  count_other(context, batch, static_cast<std::uint16_t>(i));
  return false;
}

void ParseStage::ingress(Context& context, Batch& batch) {
  std::uint64_t left = take_fast(batch);
  std::uint32_t roce = batch.size - static_cast<std::uint32_t>(std::popcount(left));
  for (; left != 0; left &= left - 1) {
    roce += parse_one(context, batch, static_cast<std::uint32_t>(std::countr_zero(left))) ? 1 : 0;
  }
  counters_[static_cast<std::size_t>(FrameKind::roce)].add(roce);
  if (icrc_every_ != 0) check_icrcs(context, batch, roce);
}

[[gnu::noinline]] void ParseStage::count_other(Context& context, Batch& batch, std::uint16_t i) noexcept {
  const wire::Parsed& parsed = pipeline::meta(batch.packet[i]).parsed;
  counters_[static_cast<std::size_t>(parsed.kind)].add(1);
  if (parsed.validity != Validity::ok) counters_[invalid_slot(parsed.validity)].add(1);
  if (parsed.validity == Validity::eth_truncated) {
    context.drop(batch, i, ParseDrop::eth_truncated);
  } else if (parsed.validity == Validity::eth_source_multicast) {
    context.drop(batch, i, ParseDrop::eth_source_multicast);
  } else if (parsed.kind == FrameKind::mac_control) {
    context.mac_control(batch, i);
  }
}

[[gnu::noinline]] void ParseStage::check_icrcs(Context& context, Batch& batch, std::uint32_t roce) noexcept {
  if (roce < icrc_in_) {
    icrc_in_ -= roce;
    return;
  }
  std::uint32_t checked = 0;
  std::uint32_t bad = 0;
  for (std::uint16_t i = 0; i < batch.size; ++i) {
    if ((batch.removed >> i & 1) != 0) continue;
    const rte_mbuf* m = batch.packet[i];
    if (pipeline::meta(m).parsed.kind != FrameKind::roce || --icrc_in_ != 0) continue;
    icrc_in_ = icrc_every_;
    ++checked;
    if (icrc_right(m)) continue;
    ++bad;
    if (drop_bad_icrc_) context.drop(batch, i, ParseDrop::icrc);
  }
  counters_[kIcrcChecked].add(checked);
  counters_[kIcrcBad].add(bad);
}

pipeline::StageType parse_stage_type() {
  pipeline::StageType type;
  type.name = "parse";
  type.summary = "Reads the headers of every packet once; optionally checks ICRCs.";
  type.provides = {"parsed"};
  type.depends_on_switch = false;
  type.options = Schema::map({
      Schema::Key::with_default("icrc_check", Schema::one_of({"off", "sample", "all"}), Value("off"),
                                "Which RoCE packets have their ICRC checked."),
      Schema::Key::with_default("icrc_sample_every", Schema::integer(1, 1'000'000'000), Value(1024),
                                "With icrc_check: sample, every n-th RoCE packet of a worker is checked."),
      Schema::Key::with_default("icrc_bad", Schema::one_of({"forward", "drop"}), Value("forward"),
                                "What happens to a packet whose ICRC is wrong. It is counted in either case."),
  });
  const auto declare = [&type](std::string name, std::string help) {
    type.counters.push_back({std::move(name), "packets", pipeline::CounterKind::counter, std::move(help)});
  };
  for (std::uint8_t k = 0; k < wire::kFrameKindCount; ++k) {
    const std::string kind(wire::name(static_cast<FrameKind>(k)));
    declare("kind_" + kind, "Packets of the kind " + kind + ".");
  }
  for (std::uint8_t v = 0; v < wire::kValidityCount; ++v) {
    const auto validity = static_cast<Validity>(v);
    if (validity == Validity::ok || validity == Validity::ip_checksum) continue;
    const std::string mistake(wire::name(validity));
    declare("invalid_" + mistake, "Packets with a header that is malformed in the way called " + mistake + ".");
  }
  declare("icrc_checked", "RoCE packets whose ICRC was checked.");
  declare("icrc_bad", "RoCE packets whose ICRC was checked and is wrong.");
  type.drops = {ParseDrop::block()};
  type.make = [](const pipeline::StageBuild& build, pipeline::StageShared*) {
    return std::make_unique<ParseStage>(build.options);
  };
  return type;
}

}  // namespace weft::stages
