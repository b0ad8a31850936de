// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// ATP's rules for aggregators as its P4 program has them (Lao et al., NSDI '21): the first packet claims the aggregator
// that its number is hashed to; a packet of another number that finds it taken goes on to the parameter server by
// itself; a packet that is sent again passes the aggregator by, and takes along what is in it; the server's answer goes
// to all workers and frees the aggregator of its number. The server adds up what comes, by the bitmap of its workers.
//
// Model, not the original: two workers, two packets in flight, one aggregator, so that packets collide in it. Channels
// 0 and 1 lead to the switch, 2 to the server, 3 back to the switch, 4 and 5 to the workers.
#pragma once

#include <array>
#include <bit>
#include <optional>
#include <string>

#include "tests/collectives/comparators/search.h"

namespace weft::inc::comparators {

class Atp {
 public:
  static constexpr std::uint8_t kWorkers = 2, kPackets = 3, kWindow = 2, kAll = 3, kResend = 0x80;
  static constexpr std::uint8_t kToServer = 2, kFromServer = 3, kToWorkers = 4, kFree = 0xff;

  struct Sum {
    std::uint8_t packet = kFree, workers = 0;
    std::uint16_t value = 0;
  };
  struct Worker {
    std::uint8_t sent = 0, results = 0;  ///< packets sent; a bit for each result that is there
    bool wrong = false;
  };
  struct State {
    std::array<Worker, kWorkers> workers;
    std::array<Sum, kPackets> server;
    Sum aggregator;
    Network network;
  };

  /// With `frees`, an aggregator that nobody will ever free is a mistake, too.
  explicit Atp(const Faults& faults, bool frees) : faults_(faults), frees_(frees) {}

  [[nodiscard]] State start() const {
    State s;
    s.network.left = faults_;
    for (std::uint8_t w = 0; w < kWorkers; ++w) send_new(s, w);
    return s;
  }

  template <class Hash>
  void hash_state(const State& s, Hash& h) const {
    for (const Worker& w : s.workers)
      h(std::uint64_t{w.sent} << 16 | std::uint64_t{w.results} << 8 | (w.wrong ? 1 : 0));
    const auto sum = [&](const Sum& one) {
      h(std::uint64_t{one.value} << 16 | std::uint64_t{one.packet} << 8 | one.workers);
    };
    for (const Sum& one : s.server) sum(one);
    sum(s.aggregator);
    s.network.hash_state(h, kToWorkers + kWorkers);
  }

  template <class Visit>
  void steps(const State& s, Visit&& visit) const {
    Network::deliver(
        s, [](State& n, const Flight& f) { arrive(n, f); }, visit);
    timeouts(
        s,
        [](State& n, std::uint8_t w) {
          const auto k = static_cast<std::uint8_t>(std::countr_one(n.workers[w].results));
          if (k >= n.workers[w].sent) return false;
          n.network.put(w, k, static_cast<std::uint8_t>(1u << w | kResend), data(w, k));
          return true;
        },
        visit);
  }

  [[nodiscard]] std::optional<std::string> wrong(const State& s, bool last) const {
    for (const Worker& w : s.workers) {
      if (w.wrong) return "a result is not what a single machine would add up";
      if (last && w.results != (1u << kPackets) - 1) return "a worker waits for ever";
    }
    if (frees_ && last && s.aggregator.packet != kFree) return "an aggregator is never freed";
    return std::nullopt;
  }

 private:
  [[nodiscard]] static std::uint16_t data(std::uint8_t worker, std::uint8_t packet) {
    return static_cast<std::uint16_t>(1u << 2 * (kWorkers * packet + worker));
  }
  static void send_new(State& s, std::uint8_t w) {
    Worker& worker = s.workers[w];
    const int oldest = std::countr_one(worker.results);
    for (; worker.sent < kPackets && worker.sent < oldest + kWindow; ++worker.sent) {
      s.network.put(w, worker.sent, static_cast<std::uint8_t>(1u << w), data(w, worker.sent));
    }
  }

  static void arrive(State& s, const Flight& f) {
    if (f.channel < kWorkers) return at_switch(s, f);
    if (f.channel == kToServer) return at_server(s, f);
    if (f.channel == kFromServer) {
      if (s.aggregator.packet == f.packet) s.aggregator = {};
      for (std::uint8_t w = 0; w < kWorkers; ++w) {
        s.network.put(static_cast<std::uint8_t>(kToWorkers + w), f.packet, f.workers, f.value);
      }
      return;
    }
    const auto w = static_cast<std::uint8_t>(f.channel - kToWorkers);
    Worker& worker = s.workers[w];
    if ((worker.results >> f.packet & 1) != 0) return;
    worker.wrong = f.value != (data(0, f.packet) | data(1, f.packet));
    worker.results |= static_cast<std::uint8_t>(1u << f.packet);
    send_new(s, w);
  }

  static void at_switch(State& s, const Flight& f) {
    Sum& held = s.aggregator;
    const std::uint8_t own = f.workers & kAll;
    if ((f.workers & kResend) != 0) {
      Sum out{f.packet, own, f.value};
      if (held.packet == f.packet) {
        out = held;
        if ((held.workers & own) == 0) add(out, own, f.value);
        held = {};
      }
      return s.network.put(kToServer, out.packet, static_cast<std::uint8_t>(out.workers | kResend), out.value);
    }
    if (held.packet == kFree) held.packet = f.packet;
    if (held.packet != f.packet) return s.network.put(kToServer, f.packet, own, f.value);
    if ((held.workers & own) != 0) return;
    add(held, own, f.value);
    if (held.workers == kAll) s.network.put(kToServer, held.packet, held.workers, held.value);
  }

  static void at_server(State& s, const Flight& f) {
    Sum& sum = s.server[f.packet];
    const std::uint8_t workers = f.workers & kAll;
    const bool done = sum.workers == kAll;
    // A sum of several workers, one of whom is there already, cannot be taken apart: the others will send theirs again.
    if ((sum.workers & workers) == 0) add(sum, workers, f.value);
    if (sum.workers != kAll || (done && (f.workers & kResend) == 0)) return;
    s.network.put(kFromServer, f.packet, sum.workers, sum.value);
  }
  static void add(Sum& sum, std::uint8_t workers, std::uint16_t value) {
    sum.workers |= workers;
    sum.value = static_cast<std::uint16_t>(sum.value + value);
  }

  Faults faults_;
  bool frees_;
};

}  // namespace weft::inc::comparators
