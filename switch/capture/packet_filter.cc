// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/capture/packet_filter.h"

#include <algorithm>
#include <charconv>

#include "switch/config/schema/suggest.h"
#include "switch/wire/opcodes.h"

namespace weft::capture {
namespace {

constexpr std::uint32_t kMax24 = 0xffffff;

std::string unknown(const std::string& kind, const std::string& word, const std::vector<std::string>& known) {
  return "unknown " + kind + " " + config::quote(word) + config::suggestion(word, known);
}

std::string set_drops(const Query& query, const pipeline::DropReasons& reasons, PacketFilter& filter) {
  std::vector<std::string> known{"any"};
  for (const auto reason : reasons.all()) known.emplace_back(reasons[reason].name);
  for (const std::string& word : query.drops) {
    if (word == "any") {
      // What a device refuses is known too late: following it means copying everything that is sent.
      const bool refused = filter.drops[static_cast<std::size_t>(pipeline::DropReason::tx_failed)];
      filter.drops.set();
      filter.drops[static_cast<std::size_t>(pipeline::DropReason::tx_failed)] = refused;
    } else if (const auto reason = reasons.find(word)) {
      filter.drops.set(static_cast<std::size_t>(*reason));
    } else {
      return unknown("drop reason", word, known);
    }
  }
  return "";
}

std::string set_opcodes(const Query& query, PacketFilter& filter) {
  for (const std::string& word : query.opcodes) {
    if (const auto opcode = wire::opcode_from_name(word)) {
      filter.opcodes.set(static_cast<std::uint8_t>(*opcode));
      continue;
    }
    const bool hexadecimal = word.starts_with("0x");
    unsigned raw = 0;
    const char* end = word.data() + word.size();
    const auto [stopped, error] = std::from_chars(word.data() + (hexadecimal ? 2 : 0), end, raw, hexadecimal ? 16 : 10);
    if (error == std::errc{} && stopped == end && raw < filter.opcodes.size()) {
      filter.opcodes.set(raw);
      continue;
    }
    std::vector<std::string> known;
    for (unsigned i = 0; i < filter.opcodes.size(); ++i) {
      const auto opcode = static_cast<std::uint8_t>(i);
      if (wire::opcode_info(opcode).known()) known.emplace_back(wire::opcode_name(opcode));
    }
    return unknown("opcode", word, known);
  }
  return "";
}

std::string set_numbers(const Query& query, PacketFilter& filter) {
  for (const std::uint32_t qp : query.dest_qps) {
    if (qp > kMax24) return "queue pair number " + std::to_string(qp) + " has more than 24 bits";
    filter.dest_qps.emplace_back(qp);
  }
  for (const auto& range : query.psns) {
    if (range.first > kMax24 || range.last > kMax24) {
      return "PSN " + std::to_string(std::max(range.first, range.last)) + " has more than 24 bits";
    }
    filter.psns.push_back({wire::Psn(range.first), ((range.last - range.first) & kMax24) + 1});
  }
  return "";
}

// Ports are given by name in all chosen switches that have them; a name that no chosen switch has is a mistake.
std::string set_ports(const Query& query, const std::vector<SwitchView>& switches, Filters& filters) {
  std::vector<std::string> known;
  for (std::size_t i = 0; i < switches.size(); ++i) {
    if (!filters.by_switch[i].chosen) continue;
    if (!query.ports.empty()) filters.by_switch[i].filter.ports.assign(switches[i].info->ports.size(), false);
    for (const auto& port : switches[i].info->ports) {
      known.push_back(port.name);
      if (switches.size() > 1) known.push_back(switches[i].info->name + "/" + port.name);
    }
  }
  for (const std::string& word : query.ports) {
    bool found = false;
    for (std::size_t i = 0; i < switches.size(); ++i) {
      if (!filters.by_switch[i].chosen) continue;
      for (const auto& port : switches[i].info->ports) {
        if (word != port.name && word != switches[i].info->name + "/" + port.name) continue;
        filters.by_switch[i].filter.ports[port.index] = true;
        found = true;
      }
    }
    if (!found) return unknown("port", word, known);
  }
  // A switch none of whose ports was named is not meant.
  for (auto& one : filters.by_switch) {
    const auto& ports = one.filter.ports;
    if (!ports.empty() && std::find(ports.begin(), ports.end(), true) == ports.end()) one.chosen = false;
  }
  return "";
}

// A switch that runs none of the groups is not meant; a group that no chosen switch runs is a mistake.
std::string set_groups(const Query& query, const std::vector<SwitchView>& switches, Filters& filters) {
  std::vector<bool> found(query.groups.size(), false);
  for (std::size_t i = 0; i < switches.size(); ++i) {
    SwitchFilter& one = filters.by_switch[i];
    if (!one.chosen) continue;
    for (std::size_t g = 0; g < switches[i].groups.size(); ++g) {
      const auto& flows = switches[i].groups[g];
      one.filter.flows.insert(one.filter.flows.end(), flows.begin(), flows.end());
      if (!flows.empty()) found[g] = true;
    }
    if (!query.groups.empty() && one.filter.flows.empty()) one.chosen = false;
  }
  const auto missing = std::find(found.begin(), found.end(), false);
  if (missing == found.end()) return "";
  const std::uint32_t group = query.groups[static_cast<std::size_t>(missing - found.begin())];
  return "group " + std::to_string(group) + " runs on no switch" +
         (query.switch_name.empty() ? "" : " " + config::quote(query.switch_name));
}

}  // namespace

void PacketFilter::rename_ports(const pipeline::PortMap& map) {
  if (ports.empty()) return;
  // Never empty, which would mean all.
  std::vector<bool> renamed(1);
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const pipeline::PortIndex to = map(static_cast<pipeline::PortIndex>(i));
    if (!ports[i] || to == pipeline::kNoPort) continue;
    if (to >= renamed.size()) renamed.resize(to + 1u);
    renamed[to] = true;
  }
  ports = std::move(renamed);
}

bool PacketFilter::headers(const wire::Parsed& parsed) const noexcept {
  if (!about_headers()) return true;
  if (parsed.kind != wire::FrameKind::roce) return false;
  if (!dest_qps.empty() && std::find(dest_qps.begin(), dest_qps.end(), parsed.dest_qp) == dest_qps.end()) return false;
  if (!flows.empty() && std::find(flows.begin(), flows.end(),
                                  pipeline::FlowGroups::Flow{parsed.address_key, parsed.dest_qp}) == flows.end()) {
    return false;
  }
  if (opcodes.any() && !opcodes[parsed.opcode]) return false;
  return psns.empty() || std::any_of(psns.begin(), psns.end(), [&](const PsnWindow& window) {
           return parsed.psn.in_window(window.first, window.count);
         });
}

Filters make_filters(const Query& query, const std::vector<SwitchView>& switches,
                     const pipeline::DropReasons& reasons) {
  Filters filters;
  PacketFilter common;
  common.rx = query.rx;
  common.tx = query.tx;
  if (!query.rx && !query.tx && query.drops.empty()) common.rx = common.tx = true;
  if (auto error = set_drops(query, reasons, common); !error.empty()) return {{}, std::move(error)};
  for (const auto& set : {set_opcodes, set_numbers}) {
    filters.error = set(query, common);
    if (!filters.error.empty()) return filters;
  }
  std::vector<std::string> names;
  bool found = query.switch_name.empty();
  for (const SwitchView& view : switches) {
    const bool chosen = query.switch_name.empty() || view.info->name == query.switch_name;
    found = found || chosen;
    names.push_back(view.info->name);
    filters.by_switch.push_back({chosen, common});
  }
  filters.error = found ? set_groups(query, switches, filters) : unknown("switch", query.switch_name, names);
  if (filters.error.empty()) filters.error = set_ports(query, switches, filters);
  return filters;
}

}  // namespace weft::capture
