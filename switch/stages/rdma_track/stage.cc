// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/rdma_track/stage.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "switch/pipeline/row_scan.h"
#include "switch/pipeline/steer.h"
#include "switch/wire/hash.h"

namespace weft::stages {
namespace {

using config::Schema;
using config::Value;
using wire::IpAddress;

// How the tracker gets at packets.
struct MbufAccess {
  static const wire::Parsed& parsed(const rte_mbuf* m) noexcept { return pipeline::meta(m).parsed; }
  static const std::uint8_t* frame(const rte_mbuf* m) noexcept { return pipeline::frame(m); }
  static const std::uint8_t* read(const rte_mbuf* m, std::uint32_t offset, std::uint32_t bytes,
                                  std::uint8_t* scratch) noexcept {
    return static_cast<const std::uint8_t*>(rte_pktmbuf_read(m, offset, bytes, scratch));
  }
  static void set_handle(rte_mbuf* m, std::uint32_t handle) noexcept { pipeline::meta(m).qp_handle = handle; }
};

TrackOptions track_options(const Value& options) {
  TrackOptions result;
  result.max_qps = static_cast<std::uint32_t>(options["max_qps"].unsigned_integer());
  result.idle_timeout_s = static_cast<std::uint32_t>(options["idle_timeout_s"].unsigned_integer());
  result.closed_timeout_s = static_cast<std::uint32_t>(options["closed_timeout_s"].unsigned_integer());
  result.pairing = options["pairing"].string() == "on";
  return result;
}

// One end of a configured pair.
struct End {
  IpAddress address;
  wire::Qpn qpn;
  friend auto operator<=>(const End&, const End&) = default;
};

End end_of(const Value& value) {
  return {IpAddress::parse(value["address"].string()).value(),
          wire::Qpn(static_cast<std::uint32_t>(value["qpn"].unsigned_integer()))};
}

std::optional<wire::Psn> first_psn_of(const Value& end) {
  if (!end.has("first_psn")) return std::nullopt;
  return wire::Psn(static_cast<std::uint32_t>(end["first_psn"].unsigned_integer()));
}

void check_qps(const Value& options, const pipeline::SwitchInfo& /*info*/, config::Diagnostics& diagnostics) {
  std::set<End> seen;
  for (const Value& pair : options["qps"].list()) {
    const End a = end_of(pair["a"]), b = end_of(pair["b"]);
    if (a.address.is_v6() != b.address.is_v6()) {
      diagnostics.error(pair["b"].mark(), "qps: both ends must have addresses of the same family");
    }
    if (a == b) diagnostics.error(pair["b"].mark(), "qps: both ends are the same queue pair");
    const bool again_a = !seen.insert(a).second, again_b = a != b && !seen.insert(b).second;
    for (const auto& [again, key] : {std::pair{again_a, "a"}, std::pair{again_b, "b"}}) {
      if (again) diagnostics.error(pair[key].mark(), "qps: this queue pair is in an earlier pair already");
    }
  }
  const std::size_t entries = options["qps"].list().size() * 2;
  if (entries > options["max_qps"].unsigned_integer()) {
    diagnostics.error(options["qps"].mark(), "qps: " + std::to_string(entries) + " directions do not fit into max_qps");
  }
  check_agents(options, diagnostics);
}

Schema options_schema() {
  using Key = Schema::Key;
  constexpr std::int64_t kLongestTimeout = 30 * 86400, kLargestQpn = 0xffffff;
  const Schema end =
      Schema::map({Key::required_key("address", Schema::ip(), "IP address of the host."),
                   Key::required_key("qpn", Schema::integer(2, kLargestQpn), "Number of its queue pair."),
                   Key::optional_key("first_psn", Schema::integer(0, kLargestQpn),
                                     "PSN of the first request that it sends, for nack_filter.")});
  const Schema pair = Schema::map({Key::required_key("a", end, "One end."), Key::required_key("b", end, "The other.")});
  return Schema::map(
      {Key::with_default("max_qps", Schema::integer(2, tables::QpTable::kMaxCapacity), Value(std::int64_t{65536}),
                         "Most queue pairs tracked per worker, each direction counted; further ones are forwarded "
                         "untracked."),
       Key::with_default("idle_timeout_s", Schema::integer(1, kLongestTimeout), Value(std::int64_t{600}),
                         "Seconds without a packet in either direction after which a queue pair is forgotten."),
       Key::with_default("closed_timeout_s", Schema::integer(1, kLongestTimeout), Value(std::int64_t{30}),
                         "The same for queue pairs whose connection was closed by CM."),
       Key::with_default("pairing", Schema::one_of({"on", "off"}), Value(std::string("on")),
                         "Whether to infer from traffic which two directions belong to one queue pair."),
       Key::with_default("qps", Schema::list(pair), Value(Value::List{}),
                         "Connected queue pairs that are known beforehand; they are never forgotten."),
       agents_option()});
}

}  // namespace

std::uint16_t worker_of(const IpAddress& a, const IpAddress& b, std::uint16_t workers,
                        const pipeline::OwnerTable* owners) noexcept {
  wire::Parsed packet{};
  if (a.is_v6()) {
    packet.flags = wire::ParsedFlag::ipv6;
    const std::uint8_t *from = a.bytes().data(), *to = b.bytes().data();
    packet.stored_pair_hash = wire::pair_hash_v6(wire::hash_v6(from, to).unordered, from, to);
  } else {
    packet.address_key = std::uint64_t{a.v4_value()} << 32 | b.v4_value();
  }
  return owners != nullptr ? owners->worker_of_addresses(packet, workers)
                           : pipeline::worker_by_hash(packet.pair_hash(), workers);
}

RdmaTrackShared::RdmaTrackShared(const pipeline::StageBuild& build)
    : trackers_(build.workers, nullptr),
      agents_(std::make_shared<AgentBook>(agent_hosts(build.options),
                                          static_cast<std::uint32_t>(build.options["max_qps"].unsigned_integer()))),
      agents_option_(build.options["agents"]) {
  publish(*this);
  publish<TrackedQps>(*this);
  pipeline::OwnerTable* const table = build.steer_table;
  if (table != nullptr) mail_ = std::make_unique<QpMailRings>(build.workers);
  for (const Value& pair : build.options["qps"].list()) {
    const End a = end_of(pair["a"]), b = end_of(pair["b"]);
    const std::uint16_t by_hash = worker_of(a.address, b.address, build.workers, build.owners);
    const auto in_turn = static_cast<std::uint16_t>(configured_.size() % build.workers);
    const SteeredQp there = steered_qp(a.address, b.address, b.qpn), back = steered_qp(b.address, a.address, a.qpn);
    const bool steered =
        table != nullptr && in_turn != by_hash && QpSteering(*table, *mail_, 0).publish(there, back, in_turn);
    configured_.push_back(steered ? in_turn : by_hash);
  }
}

void RdmaTrackShared::update(const pipeline::StageBuild& build) {
  configured_.clear();
  for (const Value& pair : build.options["qps"].list()) {
    const End a = end_of(pair["a"]), b = end_of(pair["b"]);
    const std::uint16_t by_hash = worker_of(a.address, b.address, build.workers, build.owners);
    const SteeredQp there = steered_qp(a.address, b.address, b.qpn);
    const pipeline::OwnerTable* const table = build.steer_table;
    configured_.push_back(table != nullptr ? table->find(there.address_key, there.qp, by_hash) : by_hash);
  }
}

RdmaTrackStage::RdmaTrackStage(const pipeline::StageBuild& build, RdmaTrackShared& shared)
    : tracker_(track_options(build.options)),
      owner_table_(build.owners),
      worker_(build.worker),
      workers_(build.workers) {
  shared.set_tracker(build.worker, &tracker_);
  if (shared.mail() != nullptr) {
    steering_.emplace(*build.steer_table, *shared.mail(), build.worker);
    tracker_.steer_with(*steering_);
  }
  configure_pairs(build, shared);
}

void RdmaTrackStage::configure_pairs(const pipeline::StageBuild& build, const RdmaTrackShared& shared) {
  pairs_ = build.options["qps"];
  std::size_t position = 0;
  for (const Value& pair : pairs_.list()) {
    if (shared.worker_of_configured(position++) != build.worker) continue;
    const End a = end_of(pair["a"]), b = end_of(pair["b"]);
    if (!tracker_.add_configured(now_, a.address, a.qpn, b.address, b.qpn)) continue;
    if (const auto first = first_psn_of(pair["a"])) tracker_.set_first_psn(a.address, b.address, b.qpn, *first);
    if (const auto first = first_psn_of(pair["b"])) tracker_.set_first_psn(b.address, a.address, a.qpn, *first);
  }
}

void RdmaTrackStage::update(const pipeline::StageBuild& build) {
  tracker_.set_timeouts(track_options(build.options));
  auto& shared = *build.find_capability<RdmaTrackShared>();
  const RdmaTrackShared::AgentsChange& agents = shared.set_agents(build.options);
  if (agents.number != agents_change_) take(agents.gone);
  agents_change_ = agents.number;
  if (equal(pairs_, build.options["qps"])) return;
  shared.update(build);
  tracker_.release_configured();
  configure_pairs(build, shared);
}

void RdmaTrackStage::ingress(pipeline::Context& context, pipeline::Batch& batch) {
  now_ = context.now;
  if (!news_.empty()) [[unlikely]]
    apply_news(now_);
  if (tracker_.has_mail()) [[unlikely]]
    tracker_.read_mail(now_);
  tracker_.track<MbufAccess, rte_mbuf>(context.now, {batch.packet, batch.size});
  context.at(tracker_.next_deadline());
}

void RdmaTrackStage::on_timer(pipeline::Context& context, std::uint32_t) {
  now_ = context.now;
  if (!news_.empty()) apply_news(now_);
  if (tracker_.has_mail()) tracker_.read_mail(now_);
  tracker_.on_timer(now_);
  context.at(tracker_.next_deadline());
}

void RdmaTrackStage::on_mail(pipeline::Context& context) {
  now_ = context.now;
  tracker_.read_mail(now_);
  context.at(tracker_.next_deadline());
}

nlohmann::ordered_json RdmaTrackStage::rows(std::string_view /*table*/, std::uint64_t& cursor, std::size_t max) const {
  return pipeline::scan_rows(cursor, max, tracker_.table().slots(), [&](std::uint64_t entry) {
    const auto position = static_cast<std::uint32_t>(entry);
    const bool is_free = tracker_.table().entry(position).is_free();
    return is_free ? nlohmann::ordered_json() : qp_row(tracker_, position, now_, owners_);
  });
}

pipeline::StageType rdma_track_stage_type() {
  pipeline::StageType type;
  type.name = "rdma_track";
  type.summary = "Table of the queue pairs whose RoCEv2 packets pass, with their counters.";
  type.needs = {"parsed"};
  type.provides = {"qp"};
  type.options = options_schema();
  type.counters = {
#define WEFT_COUNTER(name, unit, kind, text) {#name, unit, pipeline::CounterKind::kind, text},
#include "switch/stages/rdma_track/counters.def"
#undef WEFT_COUNTER
  };
  type.check = check_qps;
  type.make_shared = [](const pipeline::StageBuild& build) { return std::make_unique<RdmaTrackShared>(build); };
  type.depends_on_switch = false;
  // Another table would forget what this one knows.
  type.fixed_options = {"max_qps", "pairing"};
  type.commands = {agent_command()};
  type.update = [](pipeline::Stage& stage, const pipeline::StageBuild& build) {
    dynamic_cast<RdmaTrackStage&>(stage).update(build);
  };
  type.make = [](const pipeline::StageBuild& build, pipeline::StageShared* shared) {
    return std::make_unique<RdmaTrackStage>(build, dynamic_cast<RdmaTrackShared&>(*shared));
  };
  return type;
}

}  // namespace weft::stages
