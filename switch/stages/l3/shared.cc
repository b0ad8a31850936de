// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/l3/shared.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "switch/base/time.h"

namespace weft::stages {

using json = nlohmann::ordered_json;
using pipeline::PortIndex;
using pipeline::RouteInfo;
using tables::NeighbourState;
using tables::NextHops;
using tables::RouteTable;

namespace {

json text_or_null(bool there, const auto& value) {
  return there ? json(value.to_string()) : json(nullptr);
}

// What becomes of a packet whose route has this next hop.
std::string_view action_text(tables::NextHopId id) noexcept {
  switch (id) {
    case tables::kUnreachable:
      return "unreachable";
    case tables::kBlackhole:
      return "blackhole";
    case tables::kLocal:
      return "local";
    case tables::kBroadcast:
      return "broadcast";
    case tables::kProhibited:
      return "prohibited";
    default:
      return "forward";
  }
}

// Who installed a route of the kernel, as `ip route` and FRR name them; null for the switch's own.
json protocol_text(const tables::Route& route) {
  if (route.source != tables::RouteSource::kernel) return nullptr;
  constexpr std::pair<std::uint8_t, std::string_view> kNames[] = {
      {2, "kernel"}, {3, "boot"},  {4, "static"},  {9, "ra"},      {11, "zebra"},
      {12, "bird"},  {16, "dhcp"}, {42, "babel"},  {186, "bgp"},   {187, "isis"},
      {188, "ospf"}, {189, "rip"}, {190, "ripng"}, {192, "eigrp"}, {196, "static"}};
  for (const auto& [number, name] : kNames) {
    if (number == route.protocol) return name;
  }
  return std::to_string(route.protocol);
}

}  // namespace

L3Shared::L3Shared(const pipeline::StageBuild& build)
    : info_(build.info),
      large_table_routes_(build.options["large_table_routes"].unsigned_integer()),
      times_{.reachable_ns = build.options["neighbour_reachable_s"].unsigned_integer() * kSecond},
      interfaces_(build.info),
      domain_(build.workers),
      static_routes_(build.info.routes) {
  neighbours_ = std::make_unique<tables::NeighbourTable>(build.options["max_neighbours"].unsigned_integer(), domain_);
  // The check of the options has made sure that these fit.
  for (const auto& entry : info_.neighbours) neighbours_->add_permanent(entry.port, entry.address, entry.mac);
  routes_ = std::make_unique<RcuCell<RouteTable>>(domain_, build_table(info_.routes));
  if (info_.kernel) kernel_ = std::make_unique<L3Kernel>(info_, build.workers);
  publish(*this);
  publish<NextHopChoices>(*this);
  if (kernel_) publish(*kernel_);
  const std::uint64_t errors = build.options["icmp_errors_per_s"].unsigned_integer();
  const L3Limits limits{.pending_packets = build.options["pending_packets"].unsigned_integer(),
                        .icmp_errors_per_s = (errors + build.workers - 1) / build.workers};
  for (std::uint16_t worker = 0; worker < build.workers; ++worker) {
    workers_.push_back(
        std::make_unique<L3Finish>(L3Tables{interfaces_, *neighbours_, domain_, *routes_}, limits, worker));
    if (kernel_) workers_.back()->ask_through(*kernel_);
  }
}

std::unique_ptr<const RouteTable> L3Shared::build_table(std::span<const RouteInfo> routes) {
  return std::make_unique<const RouteTable>(interfaces_, routes, *neighbours_, large_table_routes_);
}

void L3Shared::set_routes(std::vector<RouteInfo> routes) {
  const std::lock_guard lock(mutex_);
  static_routes_ = std::move(routes);
  routes_->replace(build_table(static_routes_));
}

void L3Shared::set_addresses(std::span<const pipeline::InterfaceAddress> addresses) {
  const std::lock_guard lock(mutex_);
  interfaces_.replace(addresses, domain_);
}

bool L3Shared::set_routes(std::span<const tables::RouteSpec> routes) {
  const std::lock_guard lock(mutex_);
  // Large tables wait for their last reader: with many updates a second not until the next housekeeping.
  domain_.reclaim();
  try {
    routes_->replace(std::make_unique<const RouteTable>(interfaces_, routes, *neighbours_, large_table_routes_));
  } catch (const std::length_error&) {
    return false;
  }
  return true;
}

void L3Shared::learn(PortIndex port, const wire::IpAddress& address, const tables::NeighbourTable::Advertisement& said,
                     bool permanent, TimeNs now) {
  const std::lock_guard lock(mutex_);
  if (permanent && said.mac) {
    neighbours_->add_permanent(port, address, *said.mac);
    return;
  }
  const auto index = neighbours_->find_or_add(port, address, now);
  // What was configured no longer is.
  if (neighbours_->word(index).state() == NeighbourState::permanent) neighbours_->doubt(index, now);
  if (index != neighbours_->nobody()) neighbours_->learn(index, said, now);
}

void L3Shared::lose(PortIndex port, const wire::IpAddress& address, Loss loss, TimeNs now) {
  const std::lock_guard lock(mutex_);
  const auto index = neighbours_->find(port, address);
  if (index == neighbours_->nobody()) return;
  neighbours_->doubt(index, now);
  if (loss == Loss::unreachable) neighbours_->lose(index, now);
}

void L3Shared::housekeeping(TimeNs now) {
  const std::lock_guard lock(mutex_);
  now_ = now;
  neighbours_->age(now, times_);
  domain_.reclaim();
}

void L3Shared::on_link(PortIndex port, bool up) {
  const std::lock_guard lock(mutex_);
  if (!up) neighbours_->flush(port, now_);
}

void L3Shared::on_mtu(PortIndex port, std::uint32_t mtu_bytes) {
  const std::lock_guard lock(mutex_);
  interfaces_.set_mtu(port, mtu_bytes, domain_);
  if (!kernel_) routes_->replace(build_table(static_routes_));
}

void L3Shared::adopt(pipeline::StageShared& old_shared, const pipeline::Adoption& adoption) {
  auto& old = dynamic_cast<L3Shared&>(old_shared);
  const std::scoped_lock lock(mutex_, old.mutex_);
  now_ = old.now_;
  if (kernel_ && old.kernel_) kernel_->adopt(*old.kernel_, adoption.ports);
  constexpr std::size_t kAtOnce = 256;
  for (std::size_t cursor = 0; cursor < old.neighbours_->capacity();) {
    for (auto entry : old.neighbours_->list(cursor, kAtOnce)) {
      entry.port = adoption.ports(entry.port);
      if (entry.port == pipeline::kNoPort || !entry.word.usable()) continue;
      if (entry.word.state() == NeighbourState::permanent) continue;
      // A probe belongs to the resolver that asked; the next use of the entry asks again.
      if (entry.word.state() == NeighbourState::probe) {
        entry.word = tables::NeighbourWord(entry.word.mac(), NeighbourState::stale);
      }
      const bool wanted = interfaces_.on_link(entry.port, entry.address) || entry.address.is_link_local() ||
                          neighbours_->find(entry.port, entry.address) != neighbours_->nobody();
      if (wanted) neighbours_->restore(entry);
    }
  }
}

std::vector<pipeline::PathSet> L3Shared::path_sets() const {
  const std::lock_guard lock(mutex_);
  const RouteTable& table = routes_->read();
  std::vector<pipeline::PathSet> sets(table.next_hops().group_count());
  for (const tables::Route& route : table.routes()) {
    if (!NextHops::is_group(route.next_hop)) continue;
    pipeline::PathSet& set = sets[route.next_hop & ~tables::kGroupBit];
    if (!set.ports.empty()) continue;
    set.name = "the group of " + route.prefix.to_string();
    for (const auto member : table.next_hops().members(route.next_hop)) {
      set.ports.push_back(table.next_hops().hop(member).port);
    }
  }
  return sets;
}

std::vector<std::string_view> L3Shared::tables() const {
  std::vector<std::string_view> names{"routes", "neighbours"};
  if (kernel_) names.push_back("kernel");
  return names;
}

json L3Shared::rows(std::string_view table, std::uint64_t& cursor, std::size_t max) const {
  if (table == "kernel") return kernel_->rows(info_, cursor, max);
  const std::lock_guard lock(mutex_);
  return table == "routes" ? route_rows(cursor, max) : neighbour_rows(cursor, max);
}

// As `ip route` writes it, and how far resolving the neighbour has come unless it is done.
std::string L3Shared::hop_text(const NextHops& hops, tables::NextHopId id) const {
  const tables::NextHop& hop = hops.hop(id);
  const std::string device = "dev " + info_.ports[hop.port].name;
  if (hop.attached) return device;
  const auto word = neighbours_->word(hop.neighbour);
  return hops.address(id).to_string() + " " + device +
         (word.usable() ? "" : " " + std::string(to_string(word.state())));
}

json L3Shared::hop_texts(const NextHops& table, tables::NextHopId id) const {
  json hops = json::array();
  if (NextHops::is_hop(id)) hops.push_back(hop_text(table, id));
  if (NextHops::is_group(id)) {
    for (const auto member : table.members(id)) hops.push_back(hop_text(table, member));
  }
  return hops;
}

json L3Shared::route_of(const wire::IpAddress& address) const {
  const std::lock_guard lock(mutex_);
  const RouteTable& table = routes_->read();
  const tables::Route* best = nullptr;
  for (const tables::Route& route : table.routes()) {
    const bool longer = best == nullptr || route.prefix.length > best->prefix.length;
    if (longer && route.prefix.contains(address)) best = &route;
  }
  if (best == nullptr) {
    return {{"address", address.to_string()},
            {"prefix", nullptr},
            {"source", nullptr},
            {"protocol", nullptr},
            {"action", action_text(tables::kUnreachable)},
            {"next_hops", json::array()}};
  }
  return {{"address", address.to_string()},        {"prefix", best->prefix.to_string()},
          {"source", to_string(best->source)},     {"protocol", protocol_text(*best)},
          {"action", action_text(best->next_hop)}, {"next_hops", hop_texts(table.next_hops(), best->next_hop)}};
}

json L3Shared::route_rows(std::uint64_t& cursor, std::size_t max) const {
  const RouteTable& table = routes_->read();
  json rows = json::array();
  for (; cursor < table.routes().size() && rows.size() < max; ++cursor) {
    const tables::Route& route = table.routes()[cursor];
    rows.push_back({{"prefix", route.prefix.to_string()},
                    {"source", to_string(route.source)},
                    {"protocol", protocol_text(route)},
                    {"action", action_text(route.next_hop)},
                    {"blackhole", route.next_hop == tables::kBlackhole},
                    {"next_hops", hop_texts(table.next_hops(), route.next_hop)}});
  }
  if (cursor >= table.routes().size()) cursor = kEnd;
  return rows;
}

std::vector<NextHopGroup> L3Shared::groups(std::uint64_t first, std::size_t members) const {
  const std::lock_guard lock(mutex_);
  const RouteTable& table = routes_->read();
  const NextHops& hops = table.next_hops();
  std::vector<NextHopGroup> groups;
  std::size_t listed = 0;
  for (std::uint64_t number = first; number < hops.group_count() && listed < members; ++number) {
    const tables::NextHopId id = NextHops::group_id(number);
    const auto routes = std::count_if(table.routes().begin(), table.routes().end(),
                                      [id](const tables::Route& route) { return route.next_hop == id; });
    NextHopGroup& group = groups.emplace_back(NextHopGroup{number, static_cast<std::size_t>(routes), {}});
    for (const auto member : hops.members(id)) group.members.push_back({hops.hop(member).port, hop_text(hops, member)});
    listed += group.members.size();
  }
  return groups;
}

json L3Shared::neighbour_rows(std::uint64_t& cursor, std::size_t max) const {
  json rows = json::array();
  std::size_t position = cursor;
  for (const auto& entry : neighbours_->list(position, max)) {
    // The clock of this thread lags behind the workers' by up to a second.
    const TimeNs age = now_ > entry.since ? now_ - entry.since : 0;
    const bool permanent = entry.word.state() == NeighbourState::permanent;
    rows.push_back({{"address", entry.address.to_string()},
                    {"port", info_.ports[entry.port].name},
                    {"mac", text_or_null(entry.word.usable(), entry.word.mac())},
                    {"state", to_string(entry.word.state())},
                    {"age_s", permanent ? json(nullptr) : json(age / kSecond)}});
  }
  cursor = position == neighbours_->capacity() ? kEnd : position;
  return rows;
}

}  // namespace weft::stages
