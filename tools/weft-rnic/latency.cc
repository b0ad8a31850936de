// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/weft-rnic/channel.h"
#include "tools/weft-rnic/tests.h"

namespace weft::rnic_tool {
namespace {

/// Half of the round-trip times in micro-seconds, sorted.
struct Samples {
  std::vector<double> us;
  [[nodiscard]] double percentile(double p) const {
    return us[std::min(us.size() - 1, static_cast<std::size_t>(p * static_cast<double>(us.size())))];
  }
  [[nodiscard]] double mean() const {
    double sum = 0;
    for (const double v : us) sum += v;
    return sum / static_cast<double>(us.size());
  }
  [[nodiscard]] double deviation() const {
    double sum = 0;
    for (const double v : us) sum += (v - mean()) * (v - mean());
    return std::sqrt(sum / static_cast<double>(us.size()));
  }
};

class Latency {
 public:
  explicit Latency(Options& options) : options_(options) {}

  int run() {
    if (options_.size == 0) return fail({kExitUsage, "a latency test needs at least one byte"});
    if (const auto failure = session_.open(options_)) return fail(*failure);
    // Outgoing data behind incoming data, so that a pong does not change what is sent.
    if (const auto failure = connect_channel(session_, options_, 2ull * options_.size, channel_)) return fail(*failure);
    const nic::Time start = nic::monotonic_now();
    const nic::Time stop =
        options_.duration_s > 0 ? start + static_cast<nic::Time>(options_.duration_s * 1e9) : nic::kNever;
    samples_.us.reserve(options_.duration_s > 0 ? 1 << 20 : options_.iterations);
    nic::Time next_line = options_.watch_s ? start : nic::kNever;
    for (std::uint64_t i = 0;
         !interrupted() && (options_.duration_s > 0 ? nic::monotonic_now() < stop : i < options_.iterations); ++i) {
      if (const auto failure = ping(i)) {
        session_.disconnect_all();
        return fail(*failure);
      }
      if (nic::monotonic_now() >= next_line) next_line = print_progress(start);
    }
    print();
    session_.disconnect_all();
    return kExitFine;
  }

 private:
  std::optional<Failure> ping(std::uint64_t i) {
    const auto value = static_cast<std::uint8_t>(i % 255 + 1);
    const bool write = options_.command == Command::write_lat;
    channel_.memory[2ull * options_.size - 1] = value;
    nic::SendWr wr;
    wr.signaled = false;
    wr.with(channel_.sge(options_.size, options_.size));
    if (write) {
      wr.opcode = nic::WrOpcode::write;
      wr.remote_address = channel_.server.address.value();
      wr.rkey = channel_.server.rkey.value();
    } else {
      nic::RecvWr receive;
      receive.with(channel_.sge(0, options_.size));
      if (channel_.qp->post_recv(receive) != nic::PostResult::ok) return Failure{kExitFailed, "no room for a receive"};
    }
    const nic::Time before = nic::monotonic_now();
    if (channel_.qp->post_send(wr) != nic::PostResult::ok) return Failure{kExitFailed, "a work request was refused"};
    bool failed = false;
    const bool answered = session_.run_until(
        [&] {
          nic::Wc done;
          bool received = false;
          while (channel_.cq->poll({&done, 1}) == 1) {
            failed = failed || done.status != nic::WcStatus::success;
            received = received || done.opcode == nic::WcOpcode::receive;
          }
          return failed || (write ? channel_.memory[options_.size - 1] == value : received);
        },
        options_.timeout_s);
    if (!answered || failed)
      return Failure{kExitFailed, interrupted() ? "interrupted" : "ping " + std::to_string(i) + " got no answer"};
    samples_.us.push_back(static_cast<double>(nic::monotonic_now() - before) / 2000.0);
    return std::nullopt;
  }

  /// The pings since the last line.
  nic::Time print_progress(nic::Time start) {
    const nic::Time now = nic::monotonic_now();
    std::vector<double> recent(samples_.us.begin() + static_cast<std::ptrdiff_t>(watched_), samples_.us.end());
    watched_ = samples_.us.size();
    std::sort(recent.begin(), recent.end());
    const auto& c = channel_.qp->requester().counters();
    std::fprintf(stderr, "%7.1f s %9zu pings  t_typical %.2f us  t_max %.2f us  retransmitted %llu  timeouts %llu\n",
                 static_cast<double>(now - start) * 1e-9, recent.size(), recent[recent.size() / 2], recent.back(),
                 static_cast<unsigned long long>(c.retransmitted), static_cast<unsigned long long>(c.timeouts));
    return now + static_cast<nic::Time>(*options_.watch_s * 1e9);
  }

  void print() {
    auto& us = samples_.us;
    if (us.empty()) return;
    std::sort(us.begin(), us.end());
    const auto& s = samples_;
    const double t99 = s.percentile(0.99), t999 = s.percentile(0.999);
    if (options_.json) {
      const nlohmann::ordered_json all{{"test", options_.command == Command::write_lat ? "RDMA WRITE" : "SEND"},
                                       {"bytes", options_.size},
                                       {"iterations", us.size()},
                                       {"min_us", us.front()},
                                       {"max_us", us.back()},
                                       {"typical_us", s.percentile(0.5)},
                                       {"average_us", s.mean()},
                                       {"stdev_us", s.deviation()},
                                       {"p99_us", t99},
                                       {"p999_us", t999},
                                       {"qps", {describe(*channel_.qp)}}};
      std::printf("%s\n", all.dump(2).c_str());
      return;
    }
    std::printf(
        " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   "
        "99%% percentile[usec]   99.9%% percentile[usec]\n");
    std::printf(" %-7u %-14zu %-14.2f %-12.2f %-18.2f %-14.2f %-15.2f %-22.2f %.2f\n", options_.size, us.size(),
                us.front(), us.back(), s.percentile(0.5), s.mean(), s.deviation(), t99, t999);
  }

  Options& options_;
  Session session_;
  Channel channel_;
  Samples samples_;
  std::size_t watched_ = 0;
};

}  // namespace

int run_latency(Options options) {
  return Latency(options).run();
}

}  // namespace weft::rnic_tool
