// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weft-inc/perf.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>

#include "collectives/comm/host_schedule.h"
#include "collectives/comm/weft_inc.h"
#include "tools/weft-inc/commands.h"
#include "tools/weft-inc/perf_data.h"
#include "tools/weft-inc/perf_link.h"
#include "tools/weft-inc/rendezvous.h"

namespace weft::inc_tool {
namespace {

using nlohmann::ordered_json;

struct CloseContext {
  void operator()(weft_inc_context* c) const { weft_inc_close(c); }
};
struct DestroyGroup {
  void operator()(weft_inc_group* g) const { weft_inc_group_destroy(g); }
};
struct Deregister {
  void operator()(weft_inc_memory* m) const { weft_inc_memory_deregister(m); }
};

Rendezvous::Bytes bytes_of(const void* data, std::size_t bytes) {
  const auto* p = static_cast<const std::uint8_t*>(data);
  return {p, p + bytes};
}

weft_inc_backend backend_of(const std::string& name) {
  if (name == "inc") return WEFT_INC_BACKEND_SWITCH;
  if (name == "ring") return WEFT_INC_BACKEND_RING;
  return name == "tree" ? WEFT_INC_BACKEND_TREE : WEFT_INC_BACKEND_AUTO;
}

class Perf {
 public:
  explicit Perf(const PerfOptions& options)
      : o_(options),
        collective_(*perf_primitive(o_.collective)),
        type_(*perf_type(o_.type)),
        op_(*perf_op(o_.op)),
        element_(weft_inc_type_bytes(type_)) {}

  int run() {
    if (!meet() || !join()) return status_;
    announce();
    ordered_json rows = ordered_json::array();
    std::uint64_t wrong = 0;
    for (const std::uint64_t size : perf_sizes(o_)) {
      PerfRow row;
      if (!measure(size, row)) return status_;
      wrong += row.out_of_place.wrong + row.in_place.wrong;
      if (o_.rank != 0) continue;
      rows.push_back(json_row(o_, row));
      if (!o_.json) std::printf("%s\n", table_line(o_, row).c_str());
      std::fflush(stdout);
    }
    finish(rows, wrong);
    return wrong == 0 ? kExitFine : kExitFailed;
  }

 private:
  /// Always false.
  bool failed(const std::string& why, ExitStatus status = kExitFailed) {
    status_ = fail("rank " + std::to_string(o_.rank) + ": " + why, status);
    return false;
  }
  bool failed_call() { return failed(weft_inc_last_error()); }

  bool meet() {
    if (auto why = rendezvous_.meet(o_.meet, o_.rank, o_.ranks, std::chrono::seconds(o_.timeout_s)); !why.empty()) {
      return failed(why, kExitUnreachable);
    }
    const weft_inc_options options{
        sizeof options, given(o_.address), given(o_.interface), given(o_.daemon), given(o_.device), o_.poll_us, 0,
        given(o_.memif)};
    weft_inc_context* context = nullptr;
    if (weft_inc_open(&options, &context) != WEFT_INC_OK) return failed_call();
    context_.reset(context);
    weft_inc_group_options g{};
    g.size = sizeof g;
    g.backend = backend_of(o_.backend);
    g.mtu = o_.mtu;
    g.message_packets = o_.message_packets;
    g.window = o_.window;
    g.mode = o_.mode;
    g.reproducible = o_.reproducible ? 1 : 0;
    g.duty_per_mille = o_.rhythm.duty_per_mille();
    g.period_us = o_.rhythm.period_us;
    g.job = o_.rhythm.job;
    weft_inc_group* group = nullptr;
    if (weft_inc_group_create(context, &g, o_.rank, o_.ranks, &handle_, &group) != WEFT_INC_OK) return failed_call();
    group_.reset(group);
    look_at_link();
    return true;
  }

  bool join() {
    std::vector<weft_inc_handle> handles(o_.ranks);
    const auto all = rendezvous_.allgather(bytes_of(&handle_, sizeof handle_));
    if (all.empty()) return failed("another rank is gone", kExitUnreachable);
    for (std::size_t r = 0; r < all.size(); ++r) std::memcpy(&handles[r], all[r].data(), sizeof handles[r]);
    weft_inc_endpoint endpoint{};
    if (o_.by_hand && !read_endpoint(endpoint)) return false;
    const auto begin = std::chrono::steady_clock::now();
    if (weft_inc_group_connect(group_.get(), handles.data(), o_.by_hand ? &endpoint : nullptr) != WEFT_INC_OK) {
      return failed_call();
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(o_.timeout_s);
    for (;;) {
      const weft_inc_status status = weft_inc_group_test(group_.get());
      connect_ms_ = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
      if (status == WEFT_INC_OK) return true;
      if (status != WEFT_INC_AGAIN) return failed_call();
      if (std::chrono::steady_clock::now() > end) return failed("the group did not come about", kExitUnreachable);
      struct timespec pause {
        0, 200'000
      };
      nanosleep(&pause, nullptr);
    }
  }

  /// Prints what a switch has to know of this rank, and reads what the rank has to know of it.
  bool read_endpoint(weft_inc_endpoint& endpoint) {
    weft_inc_member m{};
    if (weft_inc_group_member(group_.get(), &m) != WEFT_INC_OK) return failed_call();
    const ordered_json hello{{"rank", o_.rank},          {"address", m.address},         {"qp", m.qp},
                             {"first_psn", m.first_psn}, {"expects_psn", m.expects_psn}, {"mtu", m.mtu},
                             {"loss_recovery", "gbn"}};
    std::printf("%s\n", hello.dump().c_str());
    std::fflush(stdout);
    std::string line;
    std::getline(std::cin, line);
    const auto j = nlohmann::json::parse(line, nullptr, false);
    const auto number = [&](const char* key) {
      return j.is_object() && j.contains(key) && j[key].is_number_unsigned() && j[key].get<std::uint64_t>() < 1u << 31;
    };
    if (!number("qp") || !number("group") || !number("window") || !j.contains("address") || !j["address"].is_string()) {
      return failed(R"(expected a line like {"address": "10.0.1.1", "qp": 100, "group": 7, "window": 4})", kExitUsage);
    }
    switch_address_ = j["address"].get<std::string>();
    endpoint = {switch_address_.c_str(), j["qp"].get<std::uint32_t>(), j["group"].get<std::uint32_t>(),
                j["window"].get<std::uint32_t>()};
    return true;
  }

  [[nodiscard]] weft_inc_group_info info() const {
    weft_inc_group_info out{};
    out.size = sizeof out;
    weft_inc_group_info_get(group_.get(), &out);
    return out;
  }

  /// A group tells its RNIC's address before it is connected.
  void look_at_link() {
    weft_inc_member m{};
    if (o_.link_gbps > 0 || weft_inc_group_member(group_.get(), &m) != WEFT_INC_OK) return;
    o_.link_gbps = link_gbps(o_.device, o_.interface, m.address).value_or(0);
  }

  [[nodiscard]] PerfWay way(std::uint64_t bytes) const {
    if (info().reason == WEFT_INC_REASON_NONE) return PerfWay::switches;
    const auto by_hosts = inc::comm::host_algorithm(backend_of(o_.backend), bytes);
    return by_hosts == inc::comm::HostAlgorithm::ring ? PerfWay::ring : PerfWay::tree;
  }

  void announce() const {
    if (o_.rank != 0 || o_.json) return;
    const auto i = info();
    std::printf("# weft-inc perf " WEFT_VERSION ": %s of %u ranks, backend %s, by %s", o_.collective.c_str(), o_.ranks,
                o_.backend.c_str(), i.reason == WEFT_INC_REASON_NONE ? "switches" : "hosts");
    if (i.reason == WEFT_INC_REASON_NONE) {
      std::printf(" (group %u, window %u)\n", i.group, i.window);
    } else {
      std::printf(" (%s%s%s)\n", weft_inc_reason_name(i.reason), i.detail[0] == 0 ? "" : ": ", i.detail);
    }
    std::printf("%s\n", table_head().c_str());
    std::fflush(stdout);
  }

  [[nodiscard]] bool blocks() const {
    return collective_ == WEFT_INC_REDUCE_SCATTER || collective_ == WEFT_INC_ALLGATHER;
  }

  bool measure(std::uint64_t size, PerfRow& row) {
    const std::uint64_t block = blocks() ? size / element_ / o_.ranks : size / element_;
    row.count = block;
    row.bytes = block * element_ * (blocks() ? o_.ranks : 1);
    send_.resize(std::max<std::size_t>(row.bytes, 1));
    receive_.resize(send_.size());
    weft_inc_memory *send = nullptr, *receive = nullptr;
    if (weft_inc_memory_register(context_.get(), send_.data(), send_.size(), &send) != WEFT_INC_OK)
      return failed_call();
    const std::unique_ptr<weft_inc_memory, Deregister> keep(send);
    if (weft_inc_memory_register(context_.get(), receive_.data(), receive_.size(), &receive) != WEFT_INC_OK) {
      return failed_call();
    }
    const std::unique_ptr<weft_inc_memory, Deregister> keep_too(receive);
    if (!measure_way(block, false, row.out_of_place) || !measure_way(block, true, row.in_place)) return false;
    row.link_bytes = busiest_link_bytes(o_, way(block * element_), block, static_cast<std::uint32_t>(element_));
    return true;
  }

  bool measure_way(std::uint64_t count, bool in_place, PerfTimes& times) {
    for (std::uint32_t i = 0; i < o_.warmups; ++i) {
      if (!once(count, in_place)) return false;
    }
    using Microseconds = std::chrono::duration<double, std::micro>;
    const auto first = std::chrono::steady_clock::now();
    auto last = first;
    for (std::uint32_t i = 0; i < o_.iterations; ++i) {
      const auto start = last;
      if (!once(count, in_place)) return false;
      last = std::chrono::steady_clock::now();
      times.microseconds.push_back(Microseconds(last - start).count());
    }
    times.whole_us = Microseconds(last - first).count();
    std::uint64_t wrong = 0;
    if (o_.check) {
      prepare(count, in_place);
      if (!once(count, in_place)) return false;
      wrong = wrong_elements(count, in_place);
    }
    return gather(times, wrong);
  }

  /// The slowest rank's time of each iteration, and everybody's mistakes.
  bool gather(PerfTimes& times, std::uint64_t wrong) {
    std::vector<double> numbers = times.microseconds;
    numbers.push_back(times.whole_us);
    const std::size_t bytes = numbers.size() * sizeof(double);
    Rendezvous::Bytes ours(bytes + sizeof wrong);
    std::memcpy(ours.data(), numbers.data(), bytes);
    std::memcpy(ours.data() + bytes, &wrong, sizeof wrong);
    const auto all = rendezvous_.allgather(ours);
    if (all.empty()) return failed("another rank is gone", kExitUnreachable);
    for (const auto& one : all) {
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        double theirs = 0;
        std::memcpy(&theirs, one.data() + i * sizeof theirs, sizeof theirs);
        numbers[i] = std::max(numbers[i], theirs);
      }
      std::uint64_t theirs = 0;
      std::memcpy(&theirs, one.data() + bytes, sizeof theirs);
      times.wrong += theirs;
    }
    times.whole_us = numbers.back();
    numbers.pop_back();
    times.microseconds = std::move(numbers);
    return true;
  }

  /// What a rank's buffers are: in place, the receive buffer holds what is sent.
  [[nodiscard]] std::uint8_t* sent(std::uint64_t count, bool in_place) {
    if (collective_ == WEFT_INC_BROADCAST) return receive_.data();
    if (!in_place || collective_ == WEFT_INC_REDUCE_SCATTER) return send_.data();
    return collective_ == WEFT_INC_ALLGATHER ? receive_.data() + o_.rank * count * element_ : receive_.data();
  }
  [[nodiscard]] std::uint8_t* received(std::uint64_t count, bool in_place) {
    if (in_place && collective_ == WEFT_INC_REDUCE_SCATTER) return send_.data() + o_.rank * count * element_;
    return receive_.data();
  }

  void prepare(std::uint64_t count, bool in_place) {
    std::fill(receive_.begin(), receive_.end(), 0xee);
    const std::uint64_t elements = collective_ == WEFT_INC_REDUCE_SCATTER ? count * o_.ranks : count;
    if (collective_ == WEFT_INC_BROADCAST && o_.rank != o_.root) return;
    fill(type_, o_.rank, 0, elements, sent(count, in_place));
  }

  std::uint64_t wrong_elements(std::uint64_t count, bool in_place) {
    const std::uint8_t* got = received(count, in_place);
    std::uint64_t wrong = 0;
    switch (collective_) {
      case WEFT_INC_BARRIER:
        return 0;
      case WEFT_INC_BROADCAST:
        return wrong_copied(type_, o_.root, count, got);
      case WEFT_INC_ALLGATHER:
        for (std::uint32_t r = 0; r < o_.ranks; ++r) {
          wrong += wrong_copied(type_, r, count, got + r * count * element_);
        }
        return wrong;
      case WEFT_INC_REDUCE:
        return o_.rank == o_.root ? wrong_reduced(type_, op_, o_.ranks, 0, count, got) : 0;
      case WEFT_INC_REDUCE_SCATTER:
        return wrong_reduced(type_, op_, o_.ranks, o_.rank * count, count, got);
      case WEFT_INC_ALLREDUCE:
        break;
    }
    return wrong_reduced(type_, op_, o_.ranks, 0, count, got);
  }

  bool once(std::uint64_t count, bool in_place) {
    weft_inc_request* request = nullptr;
    if (post(count, sent(count, in_place), received(count, in_place), &request) != WEFT_INC_OK) return failed_call();
    const weft_inc_status status = weft_inc_wait(&request, static_cast<int>(o_.timeout_s) * 1000);
    if (status == WEFT_INC_AGAIN)
      return failed("a collective did not end within " + std::to_string(o_.timeout_s) + " s");
    return status == WEFT_INC_OK || failed_call();
  }

  weft_inc_status post(std::uint64_t count, void* send, void* receive, weft_inc_request** request) {
    weft_inc_group* g = group_.get();
    switch (collective_) {
      case WEFT_INC_REDUCE:
        return weft_inc_ireduce(g, send, receive, count, type_, op_, o_.root, request);
      case WEFT_INC_BROADCAST:
        return weft_inc_ibroadcast(g, receive, count, type_, o_.root, request);
      case WEFT_INC_BARRIER:
        return weft_inc_ibarrier(g, request);
      case WEFT_INC_REDUCE_SCATTER:
        return weft_inc_ireduce_scatter(g, send, receive, count, type_, op_, request);
      case WEFT_INC_ALLGATHER:
        return weft_inc_iallgather(g, send, receive, count, type_, request);
      case WEFT_INC_ALLREDUCE:
        break;
    }
    return weft_inc_iallreduce(g, send, receive, count, type_, op_, request);
  }

  void finish(const ordered_json& rows, std::uint64_t wrong) const {
    if (o_.rank != 0) return;
    const auto i = info();
    if (!o_.json) {
      std::printf("# Out of bounds values : %llu %s\n", static_cast<unsigned long long>(wrong),
                  wrong == 0 ? "OK" : "FAILED");
      return;
    }
    ordered_json calls = ordered_json::object();
    for (int r = 0; r < WEFT_INC_REASONS; ++r) {
      if (i.calls[r] != 0) calls[weft_inc_reason_name(static_cast<weft_inc_reason>(r))] = i.calls[r];
    }
    const ordered_json j{{"version", WEFT_VERSION},
                         {"collective", o_.collective},
                         {"ranks", o_.ranks},
                         {"type", weft_inc_type_name(type_)},
                         {"op", o_.op},
                         {"backend", o_.backend},
                         {"reason", weft_inc_reason_name(i.reason)},
                         {"detail", i.detail},
                         {"group", i.group},
                         {"window", i.window},
                         {"turns", i.turns != 0},
                         {"offset_ns", i.staggered != 0 ? ordered_json(i.offset_ns) : ordered_json()},
                         {"connect_ms", connect_ms_},
                         {"mtu", o_.mtu},
                         {"link_gbps", o_.link_gbps > 0 ? ordered_json(o_.link_gbps) : ordered_json()},
                         {"message_packets", o_.message_packets},
                         {"iterations", o_.iterations},
                         {"calls", calls},
                         {"rows", rows}};
    std::printf("%s\n", j.dump(2).c_str());
  }

  PerfOptions o_;
  weft_inc_primitive collective_;
  weft_inc_type type_;
  weft_inc_op op_;
  std::size_t element_;
  int status_ = kExitFine;
  Rendezvous rendezvous_;
  std::unique_ptr<weft_inc_context, CloseContext> context_;
  std::vector<std::uint8_t> send_, receive_;
  std::unique_ptr<weft_inc_group, DestroyGroup> group_;
  weft_inc_handle handle_{};
  std::string switch_address_;
  double connect_ms_ = 0;  ///< from all handles to a group that is ready, switches included
};

/// What is wrong with the options, or an empty string.
std::string check(const PerfOptions& o) {
  const auto type = perf_type(o.type);
  const auto op = perf_op(o.op);
  if (!perf_primitive(o.collective)) return "there is no collective '" + o.collective + "'";
  if (!type) return "there is no type '" + o.type + "'";
  if (!op) return "there is no operation '" + o.op + "'";
  if (o.ranks == 0 || o.rank >= o.ranks) return "--rank is below --ranks";
  if (o.root >= o.ranks) return "the root is below --ranks";
  if (o.min_bytes > o.max_bytes) return "-b is not above -e";
  if (o.iterations == 0 || o.iterations > 100'000) return "-n is 1 to 100000";
  const std::uint32_t most = o.op == "prod" ? kMaxCheckedProdRanks : kMaxCheckedRanks;
  if (o.check && o.ranks > most) return "results are exact with " + std::to_string(most) + " ranks at most: -c 0";
  return "";
}

}  // namespace

int run_perf(const PerfOptions& options) {
  if (const auto why = check(options); !why.empty()) return fail(why, kExitUsage);
  return Perf(options).run();
}

}  // namespace weft::inc_tool
