// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// rping of rdma-core, both roles, as its source has the protocol. The client tells by SEND where its source buffer is;
// the server READs it, and says so by SEND; the client tells where its sink is; the server WRITEs the text there, and
// says so. All four SENDs have the 16 bytes of Advertisement.
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "tools/weft-rnic/channel.h"
#include "tools/weft-rnic/tests.h"

namespace weft::rnic_tool {
namespace {

struct Advertisement {
  wire::be64 address;
  wire::be32 rkey;
  wire::be32 size;
};
static_assert(sizeof(Advertisement) == 16);

constexpr std::uint32_t kLargestText = 65536;

/// A connection and its memory, on either side.
class Pinger {
 public:
  Pinger(Session& session, const Options& options, const nic::QpConfig& config) : session_(session), options_(options) {
    auto& device = session.device();
    region_ = device.reg_mr(session.pd(), &memory_, sizeof memory_, nic::Access::all);
    cq_ = &device.create_cq(256);
    qp_ = &device.create_qp(session.pd(), *cq_, *cq_, config);
    post_receive();
  }
  ~Pinger() {
    session_.device().destroy_qp(*qp_);
    session_.device().destroy_cq(*cq_);
    session_.device().dereg_mr(region_);
  }
  Pinger(const Pinger&) = delete;
  Pinger& operator=(const Pinger&) = delete;

  [[nodiscard]] nic::Qp& qp() noexcept { return *qp_; }
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  [[nodiscard]] bool received() const noexcept { return received_; }
  [[nodiscard]] std::uint64_t pings() const noexcept { return pings_; }
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

  /// Reads completions.
  void poll() {
    nic::Wc done;
    while (cq_->poll({&done, 1}) == 1) {
      if (done.status != nic::WcStatus::success) {
        failed_ = true;
        if (done.status != nic::WcStatus::flushed) problem_ = name(done.status);
      } else if (done.opcode == nic::WcOpcode::receive) {
        received_ = true;
        if (done.byte_length != sizeof(Advertisement)) fail("a SEND of " + std::to_string(done.byte_length) + " bytes");
      } else {
        --outstanding_;
      }
    }
    failed_ = failed_ || qp_->state() == nic::QpState::error;
  }

  // Client.
  void start_ping() {
    char* text = memory_.source;
    const std::uint32_t size = options_.size;
    const int used = std::snprintf(text, size, "rdma-ping-%llu: ", static_cast<unsigned long long>(pings_));
    char letter = first_letter_;
    for (std::uint32_t i = static_cast<std::uint32_t>(used); i < size; ++i) {
      text[i] = letter;
      letter = letter == 'z' ? 'A' : static_cast<char>(letter + 1);
    }
    first_letter_ = first_letter_ == 'z' ? 'A' : static_cast<char>(first_letter_ + 1);
    text[size - 1] = 0;
    std::memset(memory_.sink, 0, size);
    advertise(memory_.source, size);
  }
  void offer_sink() { advertise(memory_.sink, options_.size); }
  /// Where what came back differs from what was sent.
  [[nodiscard]] std::string difference() const {
    std::uint32_t at = 0;
    while (at < options_.size && memory_.source[at] == memory_.sink[at]) ++at;
    return "the data differs from byte " + std::to_string(at) + " on, '" +
           std::string(memory_.sink + at, strnlen(memory_.sink + at, 20)) + "' instead of '" +
           std::string(memory_.source + at, strnlen(memory_.source + at, 20)) + "'";
  }
  /// False when what came back is not what was sent.
  bool finish_ping() {
    ++pings_;
    if (options_.verbose) std::printf("ping data: %s\n", memory_.sink);
    return !options_.validate || std::memcmp(memory_.source, memory_.sink, options_.size) == 0;
  }

  // Server.
  bool start_read() {
    const std::uint32_t size = memory_.received.size.value();
    if (size > kLargestText) return fail("an advertised size of " + std::to_string(size));
    nic::SendWr wr;
    wr.opcode = nic::WrOpcode::read;
    wr.with({address(memory_.source), size, region_.key});
    wr.remote_address = memory_.received.address.value();
    wr.rkey = memory_.received.rkey.value();
    take_receive();
    post(wr);
    read_size_ = size;
    return true;
  }
  void confirm() {
    nic::SendWr wr;
    wr.with({address(&memory_.sent), sizeof(Advertisement), region_.key});
    post(wr);
  }
  bool start_write() {
    if (memory_.received.size.value() > kLargestText) return fail("an advertised size that is too large");
    const auto length = static_cast<std::uint32_t>(strnlen(memory_.source, kLargestText - 1)) + 1;
    nic::SendWr wr;
    wr.opcode = nic::WrOpcode::write;
    wr.with({address(memory_.source), std::min(length, memory_.received.size.value()), region_.key});
    wr.remote_address = memory_.received.address.value();
    wr.rkey = memory_.received.rkey.value();
    take_receive();
    post(wr);
    return true;
  }
  void note_ping() {
    ++pings_;
    if (options_.verbose) std::printf("server ping data: %.*s\n", static_cast<int>(read_size_), memory_.source);
  }

  /// The SEND that came has been dealt with; the next one may come.
  void take_receive() {
    received_ = false;
    post_receive();
  }
  [[nodiscard]] bool idle() const noexcept { return outstanding_ == 0; }

 private:
  struct Memory {
    Advertisement received;
    Advertisement sent;
    char source[kLargestText];
    char sink[kLargestText];
  };

  bool fail(const std::string& what) {
    failed_ = true;
    problem_ = "the other side sent " + what;
    return false;
  }
  static std::uint64_t address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }
  void post_receive() {
    nic::RecvWr wr;
    wr.with({address(&memory_.received), sizeof(Advertisement), region_.key});
    failed_ = qp_->post_recv(wr) != nic::PostResult::ok || failed_;
  }
  void advertise(const char* at, std::uint32_t size) {
    memory_.sent = {wire::be64(address(at)), wire::be32(region_.key), wire::be32(size)};
    confirm();
  }
  void post(const nic::SendWr& wr) {
    ++outstanding_;
    failed_ = qp_->post_send(wr) != nic::PostResult::ok || failed_;
  }

  Session& session_;
  const Options& options_;
  Memory memory_{};
  nic::Mr region_{};
  nic::Cq* cq_ = nullptr;
  nic::Qp* qp_ = nullptr;
  bool received_ = false, failed_ = false;
  int outstanding_ = 0;
  std::uint32_t read_size_ = 0;
  std::uint64_t pings_ = 0;
  char first_letter_ = 'A';
  std::string problem_;
};

void print_summary(const Options& options, Pinger& pinger) {
  if (options.json) {
    const nlohmann::ordered_json all{{"test", "rping"}, {"pings", pinger.pings()}, {"qps", {describe(pinger.qp())}}};
    std::printf("%s\n", all.dump(2).c_str());
  }
  static_cast<void>(std::fflush(stdout));
}

int run_client(Session& session, const Options& options) {
  auto pinger = std::make_unique<Pinger>(session, options, options.qp);
  nic::CmEvent answer;
  if (const auto failure = session.connect(options, session.device(), pinger->qp(), {}, answer)) return fail(*failure);
  int status = kExitFine;
  const auto wait = [&](const char* what) {
    const bool there = session.run_until(
        [&] {
          pinger->poll();
          return pinger->failed() || (pinger->received() && pinger->idle());
        },
        options.timeout_s);
    if (there && !pinger->failed()) return true;
    if (interrupted()) return false;
    status = fail({kExitFailed, std::string("ping ") + std::to_string(pinger->pings()) + ", waiting for " + what +
                                    ": " + (pinger->problem().empty() ? "nothing came" : pinger->problem())});
    return false;
  };
  while (!interrupted() && (options.iterations == 0 || pinger->pings() < options.iterations)) {
    pinger->start_ping();
    if (!wait("the server's READ")) break;
    pinger->take_receive();
    pinger->offer_sink();
    if (!wait("the server's WRITE")) break;
    pinger->take_receive();
    if (!pinger->finish_ping()) {
      status = fail({kExitFailed, "ping " + std::to_string(pinger->pings()) + ": " + pinger->difference()});
      break;
    }
  }
  session.disconnect_all();
  print_summary(options, *pinger);
  return status;
}

/// One step of a server's ping at a time.
class ServerSide {
 public:
  explicit ServerSide(std::unique_ptr<Pinger> pinger) : pinger_(std::move(pinger)) {}

  [[nodiscard]] Pinger& pinger() noexcept { return *pinger_; }
  void work() {
    pinger_->poll();
    if (pinger_->failed()) return;
    switch (step_) {
      case Step::source:
        if (pinger_->received() && pinger_->start_read()) step_ = Step::reading;
        break;
      case Step::reading:
        if (!pinger_->idle()) break;
        pinger_->note_ping();
        pinger_->confirm();
        step_ = Step::sink;
        break;
      case Step::sink:
        if (pinger_->received() && pinger_->start_write()) step_ = Step::writing;
        break;
      case Step::writing:
        if (!pinger_->idle()) break;
        pinger_->confirm();
        step_ = Step::source;
        break;
    }
  }

 private:
  enum class Step { source, reading, sink, writing };
  std::unique_ptr<Pinger> pinger_;
  Step step_ = Step::source;
};

int run_rping_server(Session& session, const Options& options) {
  auto& cm = session.device().cm();
  cm.listen(options.port);
  std::fprintf(stderr, "weft-rnic: rping on %s, port %u\n", session.device().config().address.to_string().c_str(),
               options.port);
  std::optional<ServerSide> side;
  nic::CmId id = 0;
  std::string problem;
  bool over = false;
  while (!interrupted() && !over) {
    session.host().run_once(std::chrono::milliseconds(100));
    while (const auto event = cm.poll_event()) {
      if (event->kind == nic::CmEvent::Kind::connect_request) {
        nic::QpConfig config = options.qp;
        if (side || !cm.negotiate(event->id, config)) {
          cm.reject(nic::monotonic_now(), event->id);
          continue;
        }
        id = event->id;
        side.emplace(std::make_unique<Pinger>(session, options, config));
        cm.accept(nic::monotonic_now(), id, side->pinger().qp());
      } else if (side && event->id == id && event->kind != nic::CmEvent::Kind::established) {
        problem = side->pinger().problem();
        print_summary(options, side->pinger());
        side.reset();
        over = !options.persistent;
        break;
      }
    }
    if (side) {
      side->work();
      if (side->pinger().failed() && !side->pinger().problem().empty()) cm.disconnect(nic::monotonic_now(), id);
    }
  }
  session.run_until([&] { return !cm.has_mad(); }, 1);  // the last answer leaves
  if (!problem.empty()) return fail({kExitFailed, problem});
  return kExitFine;
}

}  // namespace

int run_rping(Options options) {
  Session session;
  if (const auto failure = session.open(options)) return fail(*failure);
  return options.server.empty() ? run_rping_server(session, options) : run_client(session, options);
}

}  // namespace weft::rnic_tool
