// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <algorithm>
#include <cstdio>
#include <memory>

#include "tools/weft-rnic/channel.h"
#include "tools/weft-rnic/tests.h"

namespace weft::rnic_tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMib = 1024.0 * 1024.0;
/// The peak is the best of slices so long.
constexpr nic::Time kSlice = 10 * nic::kMs;

struct Stream {
  Channel channel;
  std::uint64_t posted = 0;
  std::uint64_t completed = 0;
  std::optional<Statistics> server;
};

class Bandwidth {
 public:
  explicit Bandwidth(Options& options) : options_(options) {}

  int run() {
    if (const auto failure = session_.open(options_)) return fail(*failure);
    for (std::uint32_t i = 0; i < options_.qps; ++i) {
      streams_.push_back(std::make_unique<Stream>());
      if (const auto failure = connect_channel(session_, options_, options_.size, streams_.back()->channel, i)) {
        return fail(*failure);
      }
    }
    heading();
    if (const auto failure = transfer()) {
      session_.disconnect_all();
      return fail(*failure);
    }
    for (auto& s : streams_) s->server = read_statistics(session_, options_, s->channel);
    print();
    session_.disconnect_all();
    return kExitFine;
  }

 private:
  void heading() const {
    if (options_.json) return;
    const bool controlled = options_.qp.congestion_control != nic::CongestionControl::none;
    const std::string control = controlled ? ", " + std::string(name(options_.qp.congestion_control)) : "";
    std::printf("%s of %u bytes over %u queue pairs, path MTU %u, %s%s\n", title(), options_.size, options_.qps,
                options_.qp.path_mtu, std::string(name(options_.qp.loss_recovery)).c_str(), control.c_str());
    static_cast<void>(std::fflush(stdout));
  }
  [[nodiscard]] const char* title() const {
    return options_.command == Command::write_bw  ? "RDMA WRITE"
           : options_.command == Command::send_bw ? "SEND"
                                                  : "RDMA READ";
  }
  [[nodiscard]] nic::WrOpcode opcode() const {
    return options_.command == Command::write_bw  ? nic::WrOpcode::write
           : options_.command == Command::send_bw ? nic::WrOpcode::send
                                                  : nic::WrOpcode::read;
  }

  /// Keeps the queue full while there is something left to start.
  bool fill(Stream& s, bool more) {
    while (more && s.posted - s.completed < options_.depth &&
           (options_.duration_s > 0 || s.posted < options_.iterations)) {
      nic::SendWr wr;
      wr.opcode = opcode();
      wr.with(s.channel.sge(0, options_.size));
      wr.remote_address = s.channel.server.address.value();
      wr.rkey = s.channel.server.rkey.value();
      if (s.channel.qp->post_send(wr) != nic::PostResult::ok) return false;
      ++s.posted;
    }
    return true;
  }

  std::optional<Failure> transfer() {
    start_ = nic::monotonic_now();
    const nic::Time stop =
        options_.duration_s > 0 ? start_ + static_cast<nic::Time>(options_.duration_s * 1e9) : nic::kNever;
    nic::Time progress = start_;
    nic::Time next_line = options_.watch_s ? start_ : nic::kNever;
    while (true) {
      const nic::Time now = nic::monotonic_now();
      bool idle = true;
      for (auto& s : streams_) {
        if (!fill(*s, now < stop && !interrupted())) return Failure{kExitFailed, "a work request was refused"};
        nic::Wc done[64];
        while (const std::size_t count = s->channel.cq->poll(done)) {
          for (std::size_t i = 0; i < count; ++i) {
            if (done[i].status != nic::WcStatus::success) {
              return Failure{kExitFailed,
                             "message " + std::to_string(s->completed) + ": " + std::string(name(done[i].status)) +
                                 (done[i].status == nic::WcStatus::retry_exceeded
                                      ? "; a slow machine or path needs more time (--rto-us, --retry-count), and every "
                                        "interface on the way an MTU for the path MTU (-m 1024 asks for less)"
                                      : "")};
            }
            ++s->completed;
          }
          progress = now;
        }
        idle = idle && s->completed == s->posted;
      }
      end_ = now;
      note_slice(now);
      if (idle && !fillable(now < stop && !interrupted())) return std::nullopt;
      if (static_cast<double>(now - progress) > options_.timeout_s * 1e9) return Failure{kExitFailed, stalled(now)};
      if (now >= next_line) next_line = print_progress(now);
      session_.host().run_once(std::chrono::milliseconds(10));
    }
  }
  /// Why nothing goes on, as far as this end can tell. The constants that an algorithm has by default are for round
  /// trips of hardware, of a few microseconds: on slower paths it takes them for congestion.
  [[nodiscard]] std::string stalled(nic::Time now) const {
    char text[256];
    std::snprintf(text, sizeof text, "no message has ended for %g s", options_.timeout_s);
    std::string why = text;
    double rate = 0;
    bool cut = false;
    for (const auto& s : streams_) {
      const auto changes = s->channel.qp->rate().changes();
      cut = cut || (changes && changes->cuts > 0);
      rate += s->channel.qp->rate().rate_bps(now);
    }
    if (!cut) return why;
    const auto cc = options_.qp.congestion_control;
    std::snprintf(text, sizeof text, "; %s has cut the rate to %.3g Mbit/s%s", std::string(name(cc)).c_str(),
                  rate / 1e6,
                  cc == nic::CongestionControl::timely  ? " (--cc-constant t_low_us and t_high_us: round trips)"
                  : cc == nic::CongestionControl::swift ? " (--cc-constant base_target_us: the round trip it aims at)"
                                                        : "");
    return why + text;
  }
  void note_slice(nic::Time now) {
    if (now - slice_start_ < kSlice) return;
    const std::uint64_t messages = completed();
    const double seconds = static_cast<double>(now - slice_start_) * 1e-9;
    if (slice_start_ != 0) peak_ = std::max(peak_, static_cast<double>(messages - slice_messages_) / seconds);
    slice_start_ = now;
    slice_messages_ = messages;
  }
  [[nodiscard]] std::uint64_t completed() const {
    std::uint64_t messages = 0;
    for (const auto& s : streams_) messages += s->completed;
    return messages;
  }
  [[nodiscard]] bool fillable(bool more) const {
    return more && std::any_of(streams_.begin(), streams_.end(), [&](const auto& s) {
             return options_.duration_s > 0 || s->posted < options_.iterations;
           });
  }

  nic::Time print_progress(nic::Time now) {
    std::uint64_t messages = 0, retransmitted = 0, naks = 0, timeouts = 0, cnps = 0;
    for (auto& s : streams_) {
      const auto& c = s->channel.qp->requester().counters();
      messages += s->completed;
      retransmitted += c.retransmitted;
      naks += c.naks_sequence;
      timeouts += c.timeouts;
      cnps += s->channel.qp->counters().cnps_received;
    }
    const double bits = static_cast<double>(messages - watched_) * options_.size * 8;
    const double rate = streams_[0]->channel.qp->rate().rate_bps(now) / 1e9;
    std::fprintf(stderr, "%7.1f s %11.5f Gbit/s  retransmitted %llu  naks %llu  timeouts %llu  cnps %llu",
                 static_cast<double>(now - start_) * 1e-9, bits * 1e-9 / *options_.watch_s,
                 static_cast<unsigned long long>(retransmitted), static_cast<unsigned long long>(naks),
                 static_cast<unsigned long long>(timeouts), static_cast<unsigned long long>(cnps));
    std::fprintf(stderr, rate > 0 ? "  rate %.5f\n" : "\n", rate);
    watched_ = messages;
    return now + static_cast<nic::Time>(*options_.watch_s * 1e9);
  }

  void print() {
    const std::uint64_t messages = completed();
    const double seconds = std::max(1e-9, static_cast<double>(end_ - start_) * 1e-9);
    const double bytes = static_cast<double>(messages) * options_.size;
    const double peak = std::max(peak_ * options_.size, bytes / seconds);
    Json rows = Json::array();
    for (auto& s : streams_) {
      Json row = describe(*s->channel.qp);
      row["messages"] = s->completed;
      if (s->server) {
        row["spurious"] = s->server->duplicates.value();
        row["server_out_of_order"] = s->server->out_of_order.value();
        row["server_naks_sent"] = s->server->naks_sent.value();
        row["server_ce_marked"] = s->server->ce_marked.value();
      }
      rows.push_back(row);
    }
    if (options_.json) {
      const Json all{{"test", title()},
                     {"bytes", options_.size},
                     {"messages", messages},
                     {"seconds", seconds},
                     {"gbits_per_second", bytes * 8e-9 / seconds},
                     {"peak_gbits_per_second", peak * 8e-9},
                     {"mib_per_second", bytes / kMib / seconds},
                     {"messages_per_second", static_cast<double>(messages) / seconds},
                     {"port", port_counters()},
                     {"qps", rows}};
      std::printf("%s\n", all.dump(2).c_str());
      return;
    }
    const char* unit = options_.report_gbits ? "Gb/sec" : "MiB/sec";
    const double scale = options_.report_gbits ? 8e-9 : 1 / kMib;
    std::printf(" #bytes     #iterations    BW peak[%s]    BW average[%s]   MsgRate[Mpps]\n", unit, unit);
    std::printf(" %-10u %-14llu %-17.2f %-20.2f %.6f\n", options_.size, static_cast<unsigned long long>(messages),
                peak * scale, bytes / seconds * scale, static_cast<double>(messages) / seconds * 1e-6);
    for (const auto& row : rows) print_counters(row);
  }

  static void print_counters(const Json& row) {
    std::printf("qp 0x%06x:", row["qpn"].get<unsigned>());
    for (const char* key : {"request_packets", "retransmitted", "spurious", "naks", "rnr_naks", "timeouts", "cnps",
                            "rate_cuts", "rate_increases"}) {
      if (row.contains(key)) std::printf(" %s %s ", key, row[key].dump().c_str());
    }
    std::printf("\n");
  }

  Json port_counters() {
    const auto c = session_.host().port().counters();
    std::uint64_t icrc_errors = 0;
    for (const auto& device : session_.host().devices()) icrc_errors += device->counters().icrc_errors;
    const auto& pauses = session_.host().pauses().counters();
    return {{"rx_frames", c.rx_frames},   {"rx_missed", c.rx_missed},     {"rx_truncated", c.rx_truncated},
            {"tx_frames", c.tx_frames},   {"tx_busy", c.tx_busy},         {"tx_errors", c.tx_errors},
            {"icrc_errors", icrc_errors}, {"rx_pfc", pauses.pfc.value()}, {"rx_pause", pauses.pause.value()}};
  }

  Options& options_;
  Session session_;
  std::vector<std::unique_ptr<Stream>> streams_;
  nic::Time start_ = 0, end_ = 0;
  nic::Time slice_start_ = 0;
  std::uint64_t slice_messages_ = 0;
  double peak_ = 0;  ///< messages a second
  std::uint64_t watched_ = 0;
};

}  // namespace

int run_bandwidth(Options options) {
  return Bandwidth(options).run();
}

}  // namespace weft::rnic_tool
