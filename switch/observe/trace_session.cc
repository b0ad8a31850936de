// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/observe/trace_session.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "switch/tables/next_hops.h"
#include "switch/wire/addresses.h"
#include "switch/wire/opcodes.h"
#include "switch/wire/validity.h"

namespace weft {
namespace {

using capture::TraceRecord;
using nlohmann::ordered_json;
using pipeline::TraceEvent;
using pipeline::TracePlace;
using pipeline::TraceVerdict;

std::optional<capture::PacketFilter::Reasons> reasons_of(const std::vector<capture::SwitchFilter>& filters) {
  for (const auto& one : filters) {
    if (one.chosen && one.filter.drops.any()) return one.filter.drops;
  }
  return std::nullopt;
}

// Source and destination of an IP packet; two empty texts of another one.
std::pair<std::string, std::string> addresses_of(const TraceRecord& record) {
  const wire::Parsed& parsed = record.parsed;
  using wire::FrameKind;
  if (parsed.kind == FrameKind::other || parsed.kind == FrameKind::mac_control || parsed.kind == FrameKind::arp)
    return {};
  const bool v6 = parsed.has(wire::ParsedFlag::ipv6);
  const std::size_t bytes = v6 ? 16 : 4;
  const std::size_t first = parsed.l3_offset + (v6 ? std::size_t{8} : std::size_t{12});
  if (first + 2 * bytes > record.head_bytes) return {};
  const auto text = [&](std::size_t at) {
    const std::uint8_t* p = record.head.data() + at;
    if (!v6) return wire::IpAddress::v4(std::uint32_t{p[0]} << 24 | p[1] << 16 | p[2] << 8 | p[3]).to_string();
    std::array<std::uint8_t, 16> address{};
    std::copy_n(p, address.size(), address.begin());
    return wire::IpAddress::v6(address).to_string();
  };
  return {text(first), text(first + bytes)};
}

// The fields of a BTH (IBTA 9.2).
ordered_json bth_of(const TraceRecord& record) {
  const wire::Parsed& parsed = record.parsed;
  const std::size_t at = parsed.l4_offset + std::size_t{8};
  if (parsed.kind != wire::FrameKind::roce || at + 12 > record.head_bytes) return nullptr;
  const std::uint8_t* p = record.head.data() + at;
  ordered_json bth{{"opcode", wire::opcode_name(parsed.opcode)},
                   {"dest_qp", parsed.dest_qp.value()},
                   {"psn", parsed.psn.value()},
                   {"ack_request", parsed.has(wire::ParsedFlag::ack_req)},
                   {"solicited", parsed.has(wire::ParsedFlag::solicited)},
                   {"pad", p[1] >> 4 & 3},
                   {"pkey", p[2] << 8 | p[3]},
                   {"fecn", parsed.has(wire::ParsedFlag::fecn)},
                   {"becn", parsed.has(wire::ParsedFlag::becn)}};
  if (parsed.syndrome != 0) bth["aeth_syndrome"] = parsed.syndrome;
  return bth;
}

// "roce RC_SEND_ONLY qp 17 psn 5 ack_request 10.0.0.1 > 10.0.0.2, 82 bytes"
std::string describe(const TraceRecord& record) {
  const wire::Parsed& parsed = record.parsed;
  std::string text(wire::name(parsed.kind));
  if (parsed.kind == wire::FrameKind::roce) {
    text += " " + std::string(wire::opcode_name(parsed.opcode)) + " qp " + std::to_string(parsed.dest_qp.value()) +
            " psn " + std::to_string(parsed.psn.value());
    const ordered_json bth = bth_of(record);
    for (const auto& [key, value] : bth.items()) {
      if (value.is_boolean() && value.get<bool>()) text += " " + key;
    }
  }
  if (parsed.validity != wire::Validity::ok) text += " (" + std::string(wire::name(parsed.validity)) + ")";
  if (const auto [from, to] = addresses_of(record); !from.empty()) {
    const bool ports = parsed.kind == wire::FrameKind::udp || parsed.kind == wire::FrameKind::tcp;
    text += " " + from + (ports ? " port " + std::to_string(parsed.source_port) : "") + " > " + to +
            (ports ? " port " + std::to_string(parsed.destination_port) : "");
  }
  return text + ", " + std::to_string(record.length) + " bytes";
}

void add_words(std::string& text, const std::string& words) {
  text += (text.empty() ? "" : "; ") + words;
}

// "shortest egress queue (packets: spine0 3, spine1 0)"
std::string path_words(const pipeline::PathReason& reason, const SwitchNames& names) {
  std::string text = reason.rule;
  const std::size_t listed = std::min<std::size_t>(reason.count, pipeline::PathReason::kPaths);
  for (std::size_t i = 0; i < listed; ++i) {
    const bool first = i == 0;
    text += first ? " (" : ", ";
    if (first && reason.values != nullptr) text += std::string(reason.values) + ": ";
    text += names.port(reason.path[i].port);
    if (reason.values != nullptr) text += " " + std::to_string(reason.path[i].value);
  }
  if (reason.count > listed) text += ", and " + std::to_string(reason.count - listed) + " more";
  return text + (listed != 0 ? ")" : "");
}

}  // namespace

TraceSession::TraceSession(PipelineSet& pipelines, std::vector<SwitchNames> switches,
                           std::vector<capture::SwitchFilter> filters, const api::TraceRequest& request)
    : Session(pipelines),
      switches_(std::move(switches)),
      request_(request),
      by_reason_(reasons_of(filters).has_value()),
      table_(pipelines.worker_count(), request.packets, reasons_of(filters)) {
  end_after(request.duration_ms);
  if (usable()) attach_taps(filters);
}

TraceSession::~TraceSession() {
  detach();
}

void TraceSession::attach_taps(const std::vector<capture::SwitchFilter>& filters) {
  // All switches get one, so that a packet is followed over cables between them; only the chosen ones choose.
  std::map<std::pair<std::size_t, std::size_t>, pipeline::Tap*> by_pipeline;
  for (std::size_t i = 0; i < filters.size(); ++i) {
    for (std::uint16_t w = 0; w < pipelines_.worker_count(); ++w) {
      auto filter = filters[i].chosen ? std::optional(filters[i].filter) : std::nullopt;
      taps_.push_back(std::make_unique<capture::TraceTap>(table_, std::move(filter), static_cast<std::uint8_t>(i), w,
                                                          switches_[i].links));
      by_pipeline[{i, w}] = taps_.back().get();
    }
  }
  attach(std::move(by_pipeline));
}

std::string TraceSession::verdict_of(const TraceEvent& event, const SwitchNames& names) const {
  const std::string port = names.port(event.port);
  switch (event.verdict) {
    case TraceVerdict::received:
      return "received from " + port;
    case TraceVerdict::passed:
      return "passed on";
    case TraceVerdict::forwarded:
      return "forwarded to " + port;
    case TraceVerdict::grouped:
      return "forwarded to group " + std::to_string(event.detail & ~tables::kGroupBit);
    case TraceVerdict::held:
      return "held";
    case TraceVerdict::consumed:
      return "consumed";
    case TraceVerdict::dispatched:
      return "sent past the rest";
    case TraceVerdict::handed_over:
      return "to worker " + std::to_string(event.detail);
    case TraceVerdict::queued:
      return "queued for " + port;
    case TraceVerdict::dropped:
      return "dropped: " + std::string((*names.drops)[event.detail].name);
    case TraceVerdict::sent:
      return "sent to " + port;
    case TraceVerdict::lost_sight:
      return "taken out";
  }
  return "";
}

std::string TraceSession::why_of(const TraceEvent& event, const SwitchNames& names) const {
  std::string why;
  if (event.reason.rule != nullptr) add_words(why, path_words(event.reason, names));
  if (event.verdict == TraceVerdict::dropped) add_words(why, std::string((*names.drops)[event.detail].text));
  if (event.verdict == TraceVerdict::consumed) add_words(why, "for the switch itself");
  if (event.verdict == TraceVerdict::queued) add_words(why, std::to_string(event.detail) + " packets before it");
  if (event.verdict == TraceVerdict::sent && event.detail != 0) {
    add_words(why, "the device refused " + std::to_string(event.detail) + " of its burst");
  }
  if (event.copies != 0) add_words(why, std::to_string(event.copies) + " copies made");
  if (event.generated != 0) add_words(why, std::to_string(event.generated) + " packets generated");
  if (event.place.stage >= names.stages.size() || event.counted == 0) return why;
  std::string counted;
  const auto& counters = names.stages[event.place.stage].counters;
  for (std::size_t i = 0; i < std::min<std::size_t>(counters.size(), 64); ++i) {
    if ((event.counted >> i & 1) != 0) counted += (counted.empty() ? "counted " : ", ") + counters[i].name;
  }
  if (!counted.empty()) add_words(why, counted);
  return why;
}

ordered_json TraceSession::step_of(const TraceEvent& event, TimeNs start) const {
  const SwitchNames& names = switches_[event.switch_index];
  std::string place = "port";
  if (event.place.stage == TracePlace::kAdmission) place = "admission";
  if (event.place.stage < names.stages.size()) place = names.stages[event.place.stage].name;
  return {{"switch", names.name},
          {"worker", event.worker},
          {"at_ns", event.time - start},
          {"half", event.place.egress ? "egress" : "ingress"},
          {"stage", place},
          {"verdict", verdict_of(event, names)},
          {"why", why_of(event, names)}};
}

std::string TraceSession::line_of(const TraceRecord& record) {
  const std::uint32_t all = record.size.load(std::memory_order_acquire);
  const std::size_t kept = std::min<std::size_t>(all, TraceRecord::kEvents);
  ordered_json line{{"packet", ++packets_}, {"switch", switches_[record.origin].name}, {"what", describe(record)}};
  if (auto [from, to] = addresses_of(record); !from.empty()) {
    line["source"] = std::move(from);
    line["destination"] = std::move(to);
  }
  if (auto bth = bth_of(record); !bth.is_null()) line["bth"] = std::move(bth);
  line["ended"] = record.state.load() == TraceRecord::State::done;
  line["steps"] = ordered_json::array();
  for (std::size_t i = 0; i < kept; ++i) line["steps"].push_back(step_of(record.events[i], record.events[0].time));
  if (all > kept) line["further_steps"] = all - kept;
  return line.dump() + '\n';
}

void TraceSession::collect(api::SessionPart& part, std::size_t) {
  for (std::size_t i = 0; i < table_.size(); ++i) {
    const TraceRecord& record = table_.record(static_cast<int>(i));
    if (record.state.load(std::memory_order_acquire) != TraceRecord::State::done) continue;
    part.data += line_of(record);
    table_.release(i);
  }
  if (packets_ >= request_.packets) stop("the number of packets was reached");
  part.packets = packets_;
  part.lost = table_.missed();
}

// Packets that are still inside are worth telling: a trace may be about one that never comes out.
void TraceSession::finish(api::SessionPart& part) {
  for (std::size_t i = 0; i < table_.size() && !by_reason_; ++i) {
    const TraceRecord& record = table_.record(static_cast<int>(i));
    if (record.state.load() == TraceRecord::State::open && record.size.load() != 0) part.data += line_of(record);
  }
  part.packets = packets_;
  part.lost = table_.missed();
}

}  // namespace weft
