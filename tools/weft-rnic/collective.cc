// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A rank of collectives that switches with the inc stage run. Whoever makes the group learns of the rank's queue pair
// from the line that it prints, and answers with a line that names the queue pair of the switch; a line for each group,
// where every root has groups of its own (EPIC section 4.3, "Group PSN Synchronization").
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <numeric>

#include "collectives/comm/test_vector.h"
#include "collectives/comm/whole_number.h"
#include "tools/weft-rnic/channel.h"
#include "tools/weft-rnic/tests.h"

namespace weft::rnic_tool {
namespace {

using inc::ControlMessage;

/// Lines of the standard input, without waiting for them.
class Input {
 public:
  /// False at the end of the input.
  bool look() {
    pollfd in{STDIN_FILENO, POLLIN, 0};
    while (::poll(&in, 1, 0) == 1 && (in.revents & (POLLIN | POLLHUP)) != 0) {
      char some[512];
      const ssize_t n = read(STDIN_FILENO, some, sizeof some);
      if (n <= 0) return false;
      text_.append(some, static_cast<std::size_t>(n));
    }
    return true;
  }
  std::optional<std::string> line() {
    const std::size_t end = text_.find('\n');
    if (end == std::string::npos) return std::nullopt;
    std::string out = text_.substr(0, end);
    text_.erase(0, end + 1);
    return out;
  }

 private:
  std::string text_;
};

/// The queue pair of one group, and the collectives that its rank runs over it.
class GroupRun {
 public:
  GroupRun(const Options& options, std::vector<ControlMessage> program)
      : options_(options), rank_(options.rank), program_(std::move(program)) {}

  /// Makes memory and queue pair; who they are is a line on the standard output.
  void prepare(Session& session, const nic::CmTarget& target, std::uint32_t group) {
    auto& device = session.device();
    message_bytes_ = options_.qp.path_mtu * options_.message_packets;
    nic::QpConfig config = options_.qp;
    slots_ = options_.window + 1;
    receives_ = 2 * options_.window + 8;
    config.send_queue_depth = slots_;
    config.receive_queue_depth = receives_;
    slot_bytes_ = std::max<std::size_t>(message_bytes_, inc::kControlPayloadBytes);
    places_ = options_.write_imm ? 2 * receives_ : 0;
    memory_.resize((std::size_t{slots_} + receives_ + places_) * slot_bytes_);
    mr_ = device.reg_mr(session.pd(), memory_.data(), memory_.size(), nic::Access::all);
    cq_ = &device.create_cq(slots_ + receives_);
    qp_ = &device.create_qp(session.pd(), *cq_, *cq_, config);
    peer_.send_psn = device.pick_psn();
    peer_.receive_psn = device.pick_psn();
    peer_.path.source_mac = device.config().mac;
    peer_.path.destination_mac = target.mac;
    peer_.path.source = device.config().address;
    peer_.path.destination = target.address;
    peer_.path.source_port = 0;
    nlohmann::ordered_json hello{{"rank", rank_},
                                 {"group", group},
                                 {"address", device.config().address.to_string()},
                                 {"qp", qp_->qpn().value()},
                                 {"first_psn", peer_.send_psn.value()},
                                 {"expects_psn", peer_.receive_psn.value()},
                                 {"mtu", options_.qp.path_mtu},
                                 {"loss_recovery", nic::name(config.loss_recovery)}};
    if (options_.write_imm) {
      hello["vaddr"] = results();
      hello["rkey"] = mr_.key;
    }
    std::printf("%s\n", hello.dump().c_str());
    std::fflush(stdout);
  }

  void connect(wire::Qpn peer) {
    peer_.qpn = peer;
    qp_->connect(peer_);
    progress_.emplace(rank_, options_.window, message_bytes_, program_);
    std::uint64_t before = 0;
    for (const ControlMessage& m : program_) {
      first_.push_back(before);
      before += (m.bytes + message_bytes_ - 1) / message_bytes_;
    }
    for (std::uint32_t i = 0; i < receives_; ++i) post_receive(i);
  }

  [[nodiscard]] bool done() const { return progress_->done(); }
  /// Collectives that are over.
  [[nodiscard]] std::uint64_t passed() const { return progress_->passed(); }
  /// Of their vectors.
  [[nodiscard]] std::uint64_t bytes() const {
    return std::accumulate(program_.begin(), program_.begin() + static_cast<std::ptrdiff_t>(passed()), std::uint64_t{0},
                           [](std::uint64_t sum, const ControlMessage& m) { return sum + m.bytes; });
  }
  /// What went on so far, to be compared.
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
  [[nodiscard]] const std::string& error() const noexcept { return error_; }
  [[nodiscard]] nlohmann::ordered_json counters() const { return describe(*qp_); }

  /// Takes what has ended, and posts what may be posted.
  void work() {
    std::array<nic::Wc, 16> wc;
    for (std::size_t n = cq_->poll(wc); n > 0 && error_.empty(); n = cq_->poll(wc)) {
      for (std::size_t i = 0; i < n && error_.empty(); ++i) complete(wc[i]);
    }
    while (error_.empty()) {
      const auto message = progress_->post();
      if (!message) return;
      post(*message);
    }
  }

 private:
  void complete(const nic::Wc& wc) {
    ++steps_;
    if (wc.status != nic::WcStatus::success) {
      error_ = std::string(nic::name(wc.status)) + " in collective " + std::to_string(progress_->passed());
    } else if (wc.opcode == nic::WcOpcode::receive || wc.opcode == nic::WcOpcode::receive_write_imm) {
      received(wc);
    } else {
      progress_->sent();
    }
  }

  void post(const inc::RankMessage& message) {
    const ControlMessage& m = program_[message.collective];
    std::uint8_t* at = memory_.data() + (sent_ % slots_) * slot_bytes_;
    nic::SendWr wr;
    const std::uint64_t address = mr_.address + static_cast<std::uint64_t>(at - memory_.data());
    if (message.is_control()) {
      const auto payload = inc::control_payload(m);
      std::copy(payload.begin(), payload.end(), at);
      wr.opcode = nic::WrOpcode::send_imm;
      wr.immediate = inc::control_immediate(m);
      wr.with({address, inc::kControlPayloadBytes, mr_.key});
    } else {
      if (!options_.unchecked) inc::fill_test_vector(rank_, m, message.offset, {at, message.bytes});
      wr.with({address, message.bytes, mr_.key});
      if (options_.write_imm) {
        wr.opcode = nic::WrOpcode::write_imm;
        wr.immediate = message.number;
        // The switch stands for all ranks: it is told where in our own memory the result will be.
        wr.remote_address = results() + place(message);
        wr.rkey = mr_.key;
      }
    }
    if (qp_->post_send(wr) != nic::PostResult::ok) error_ = "a work request was refused";
    ++sent_;
    ++steps_;
  }

  void post_receive(std::uint32_t slot) {
    nic::RecvWr wr;
    wr.wr_id = slot;
    wr.with(
        {mr_.address + (std::uint64_t{slots_} + slot) * slot_bytes_, static_cast<std::uint32_t>(slot_bytes_), mr_.key});
    if (qp_->post_recv(wr) != nic::PostResult::ok) error_ = "no room for a receive";
  }

  void received(const nic::Wc& wc) {
    const auto message = progress_->arrived();
    if (!message) {
      error_ = "a message that nobody was to send";
      return;
    }
    const bool written = wc.opcode == nic::WcOpcode::receive_write_imm;
    if (written != (options_.write_imm && !message->is_control()) || (written && wc.immediate != message->number)) {
      error_ = "message " + std::to_string(message->number) + " came by another verb, or with another immediate";
      return;
    }
    const std::size_t offset =
        written ? (std::size_t{slots_} + receives_) * slot_bytes_ + place(*message) : (slots_ + wc.wr_id) * slot_bytes_;
    const auto immediate = wc.with_immediate && !written ? std::optional(wc.immediate) : std::nullopt;
    if (!options_.unchecked) {
      error_ = inc::test_difference(program_, options_.ranks, *message, immediate,
                                    {memory_.data() + offset, wc.byte_length});
    }
    post_receive(static_cast<std::uint32_t>(wc.wr_id));
  }

  /// Where others write to.
  [[nodiscard]] std::uint64_t results() const noexcept {
    return mr_.address + (std::uint64_t{slots_} + receives_) * slot_bytes_;
  }
  /// Where in that a message is, the same at all ranks. Nobody is further ahead of us than we have receives posted, so
  /// twice as many places do.
  [[nodiscard]] std::uint64_t place(const inc::RankMessage& m) const noexcept {
    return (first_[m.collective] + m.number) % places_ * slot_bytes_;
  }

  const Options& options_;
  std::uint32_t rank_;
  std::vector<ControlMessage> program_;
  std::uint32_t message_bytes_ = 0, slots_ = 0, receives_ = 0, places_ = 0;
  std::size_t slot_bytes_ = 0;
  std::vector<std::uint8_t> memory_;  ///< messages that are under way, those that may come, places for WRITEs
  nic::Mr mr_{};
  nic::Cq* cq_ = nullptr;
  nic::Qp* qp_ = nullptr;
  nic::Peer peer_;
  std::vector<std::uint64_t> first_;  ///< by collective: messages of data before it
  std::optional<inc::RankProgress> progress_;
  std::uint64_t sent_ = 0, steps_ = 0;
  std::string error_;
};

inc::TestCollective collective_of(const Options& o) {
  const auto root = o.root >= 0 ? std::optional(static_cast<std::uint32_t>(o.root)) : std::nullopt;
  return {o.primitive, o.size, *inc::data_type_from(o.element), root};
}

/// What each group runs. One runs everything; or, where each root has groups of its own, the first one what has no
/// root, the next ones the Reduces by root, and the last ones the Broadcasts by root.
std::vector<std::vector<ControlMessage>> programs_of(const Options& o) {
  const auto all = inc::test_program(collective_of(o), o.iterations, o.ranks, o.group);
  if (!o.group_per_root) return {all};
  std::vector<std::vector<ControlMessage>> out(2 * std::size_t{o.ranks} + 1);
  for (ControlMessage m : all) {
    const bool reduces = m.primitive == inc::Primitive::reduce, broadcasts = m.primitive == inc::Primitive::broadcast;
    const std::size_t at = reduces ? 1u + m.root : broadcasts ? 1u + o.ranks + m.root : 0u;
    m.group = o.group + static_cast<std::uint32_t>(at);
    m.sequence = static_cast<std::uint16_t>(out[at].size());
    out[at].push_back(m);
  }
  return out;
}

class RankRun {
 public:
  explicit RankRun(Options& options) : options_(options), rank_(options.rank) {}

  int run() {
    if (const auto failure = prepare()) return fail(*failure);
    const nic::Time start = nic::monotonic_now();
    while (!done()) {
      const std::uint64_t before = steps();
      session_.run_until(
          [&] {
            for (GroupRun& group : groups_) group.work();
            return !error().empty() || done() || steps() != before;
          },
          options_.timeout_s);
      if (error().empty() && interrupted()) error_ = "interrupted";
      if (error().empty() && steps() == before && !done()) error_ = "nothing went on for the time of --timeout";
      if (!error().empty()) break;
    }
    print(static_cast<double>(nic::monotonic_now() - start) * 1e-9);
    if (!error().empty()) return fail({kExitFailed, "rank " + std::to_string(rank_) + ": " + error()});
    // Others may still ask for what this rank has to answer again.
    session_.run_until([&] { return !input_.look(); }, options_.timeout_s);
    return kExitFine;
  }

 private:
  std::optional<Failure> prepare() {
    if (auto failure = check()) return failure;
    if (auto failure = session_.open(options_)) return failure;
    nic::CmTarget target;
    if (auto failure = session_.find_server(options_, target)) return failure;
    std::uint32_t id = options_.group;
    for (auto& program : programs_of(options_)) groups_.emplace_back(options_, std::move(program));
    for (GroupRun& group : groups_) group.prepare(session_, target, id++);
    for (GroupRun& group : groups_) {
      if (auto failure = await_peer(group)) return failure;
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<Failure> check() const {
    const inc::TestCollective collective = collective_of(options_);
    const std::uint64_t granule = inc::test_granule(collective, options_.ranks);
    if (options_.size % granule != 0) {
      const std::string why = granule == inc::element_bytes(collective.type) ? "elements" : "each rank's fragment";
      return Failure{kExitUsage,
                     "-s takes a multiple of " + std::to_string(granule) + ": " + why + " of " + options_.element};
    }
    if (inc::largest_exact(collective.type) != INT64_MAX && options_.ranks > inc::kMostRanksOfExactSums) {
      return Failure{kExitUsage, "sums of --element " + options_.element + " are compared of at most " +
                                     std::to_string(inc::kMostRanksOfExactSums) + " --ranks"};
    }
    if (rank_ >= options_.ranks) return Failure{kExitUsage, "--rank is below --ranks"};
    if (options_.root >= static_cast<int>(options_.ranks)) return Failure{kExitUsage, "--root is below --ranks"};
    if (options_.group_per_root && options_.ranks > kMostRanksPerRoot) {
      return Failure{kExitUsage, "--group-per-root takes at most " + std::to_string(kMostRanksPerRoot) + " --ranks"};
    }
    return std::nullopt;
  }

  std::optional<Failure> await_peer(GroupRun& group) {
    std::optional<std::string> line = input_.line();
    if (!line) {
      session_.run_until([&] { return !input_.look() || (line = input_.line()).has_value(); }, options_.timeout_s);
    }
    const auto json = nlohmann::json::parse(line.value_or(""), nullptr, false);
    if (!json.is_object() || !json.contains("qp") || !json["qp"].is_number_unsigned()) {
      return Failure{kExitUsage, "the standard input has no line like {\"qp\": 100}, the switch's queue pair"};
    }
    group.connect(wire::Qpn(json["qp"].get<std::uint32_t>()));
    return std::nullopt;
  }

  [[nodiscard]] bool done() const {
    return std::all_of(groups_.begin(), groups_.end(), [](const GroupRun& g) { return g.done(); });
  }
  [[nodiscard]] std::uint64_t steps() const {
    std::uint64_t all = 0;
    for (const GroupRun& group : groups_) all += group.steps();
    return all;
  }
  /// The first thing that went wrong.
  [[nodiscard]] const std::string& error() const {
    for (const GroupRun& group : groups_) {
      if (!group.error().empty()) return group.error();
    }
    return error_;
  }

  void print(double seconds) const {
    std::uint64_t passed = 0, bytes = 0;
    auto counters = nlohmann::ordered_json::array();
    for (const GroupRun& group : groups_) {
      passed += group.passed();
      bytes += group.bytes();
      counters.push_back(group.counters());
    }
    const double bits = 8.0 * static_cast<double>(bytes);
    nlohmann::ordered_json j{{"rank", rank_},      {"collectives", passed},          {"bytes", options_.size},
                             {"seconds", seconds}, {"gbit_s", bits / seconds / 1e9}, {"error", error()}};
    if (options_.group_per_root) {
      j["qps"] = counters;
    } else {
      j["qp"] = counters[0];
    }
    std::printf("%s\n", j.dump().c_str());
    std::fflush(stdout);
  }

  static constexpr std::uint32_t kMostRanksPerRoot = 64;  ///< 129 queue pairs

  Options& options_;
  std::uint32_t rank_;
  Session session_;
  Input input_;
  std::deque<GroupRun> groups_;
  std::string error_;
};

}  // namespace

int run_collectives(Options options) {
  return RankRun(options).run();
}

}  // namespace weft::rnic_tool
