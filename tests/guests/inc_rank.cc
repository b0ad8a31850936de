// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A rank of collectives with the verbs of Linux: what `weft-rnic inc` is, for RNICs that somebody else wrote. It prints
// a line with its queue pair, reads {"qp": N}, the switch's, and prints what became of it.
//
// Usage: inc_rank DEVICE GID-INDEX SWITCH RANK RANKS GROUP PRIMITIVE BYTES TIMES WINDOW MESSAGE-PACKETS MTU TIMEOUT
//                 [--write-imm]
//   SWITCH       IPv4 address of the switch on this rank's link
//   TIMEOUT      of acknowledgements, as a code: 4.096 us * 2^N. Retried 6 times, RNR NAKs without limit
//   --write-imm  data goes by RDMA WRITE with immediate, not by SEND
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "collectives/comm/test_vector.h"

namespace {

using namespace weft::inc;
using Clock = std::chrono::steady_clock;

// Nothing at all for so long is a failure: a rank that comes a minute late is none.
constexpr double kPatienceS = 100;
constexpr unsigned kIdlePolls = 20, kNapUs = 50;
constexpr int kRetries = 6, kRnrWithoutLimit = 7, kRnrTimer640us = 12;
constexpr std::uint32_t kFirstPsn = 0xfffff8;  // it wraps early
constexpr std::uint32_t kExpectsPsn = 0x123456;

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "inc_rank: %s\n", what);
  std::exit(2);
}

struct Options {
  const char *device, *gid_index, *peer;
  std::uint32_t rank, ranks, group;
  const char* primitive;
  std::uint64_t bytes, times;
  std::uint32_t window, message_packets, mtu, timeout;
  bool write_imm;
};

class Rank {
 public:
  explicit Rank(const Options& o)
      : o_(o),
        program_(test_program({o.primitive, o.bytes}, o.times, o.ranks, o.group)),
        slots_(o.window + 1),
        receives_(2 * o.window + 8),
        places_(o.write_imm ? 2 * receives_ : 0),
        message_bytes_(o.mtu * o.message_packets),
        progress_(o.rank, o.window, message_bytes_, program_),
        memory_(std::size_t{slots_ + receives_ + places_} * message_bytes_) {
    if (program_.empty()) die("no such primitive, or nothing to do");
    std::uint64_t before = 0;
    for (const ControlMessage& m : program_) {
      first_.push_back(before);
      before += (m.bytes + message_bytes_ - 1) / message_bytes_;
    }
    open();
    std::printf("{\"rank\": %u, \"address\": \"%s\", \"qp\": %u, \"first_psn\": %u, \"expects_psn\": %u, ", o.rank,
                address_, qp_->qp_num, kFirstPsn, kExpectsPsn);
    if (o.write_imm) std::printf("\"vaddr\": %llu, \"rkey\": %u, ", address(at(slots_ + receives_)), mr_->rkey);
    std::printf("\"mtu\": %u, \"loss_recovery\": \"gbn\"}\n", o.mtu);
    std::fflush(stdout);
  }

  /// @return the exit status
  int run() {
    unsigned peer = 0;
    if (std::scanf(" {\"qp\": %u}", &peer) != 1) die("the standard input has no line like {\"qp\": 100}");
    connect(peer);
    for (std::uint32_t i = 0; i < receives_; ++i) post_receive(i);
    const auto start = Clock::now();
    auto last = start;
    unsigned idle = 0;
    while (error_.empty() && !progress_.done()) {
      if (work()) {
        last = Clock::now();
        idle = 0;
      } else if (std::chrono::duration<double>(Clock::now() - last).count() > kPatienceS) {
        error_ = "nothing goes on";
      } else if (++idle > kIdlePolls) {
        // The host has few cores, and its switch needs one.
        usleep(kNapUs);
      }
    }
    std::printf("{\"rank\": %u, \"collectives\": %zu, \"seconds\": %.6f, \"error\": \"%s\"}\n", o_.rank,
                progress_.passed(), std::chrono::duration<double>(Clock::now() - start).count(), error_.c_str());
    std::fflush(stdout);
    // Others may still ask for what this rank has to answer again.
    char more[64];
    while (read(STDIN_FILENO, more, sizeof more) > 0) continue;
    return error_.empty() ? 0 : 1;
  }

 private:
  void open() {
    int count = 0;
    ibv_device** devices = ibv_get_device_list(&count);
    ibv_context* context = nullptr;
    for (int i = 0; i < count; ++i) {
      if (std::strcmp(ibv_get_device_name(devices[i]), o_.device) == 0) context = ibv_open_device(devices[i]);
    }
    if (context == nullptr) die("no such device");
    ibv_gid gid{};
    if (ibv_query_gid(context, 1, std::atoi(o_.gid_index), &gid) != 0) die("no such GID");
    inet_ntop(AF_INET, gid.raw + 12, address_, sizeof address_);
    ibv_pd* pd = ibv_alloc_pd(context);
    cq_ = ibv_create_cq(context, static_cast<int>(slots_ + receives_), nullptr, nullptr, 0);
    if (pd == nullptr || cq_ == nullptr) die("no protection domain or completion queue");
    mr_ = ibv_reg_mr(pd, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (mr_ == nullptr) die("the memory is not registered");
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.qp_type = IBV_QPT_RC;
    init.sq_sig_all = 1;
    init.cap.max_send_wr = slots_;
    init.cap.max_recv_wr = receives_;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    qp_ = ibv_create_qp(pd, &init);
    if (qp_ == nullptr) die("no queue pair");
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    if (ibv_modify_qp(qp_, &attr, mask) != 0) die("INIT is refused");
  }

  void connect(std::uint32_t peer) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = static_cast<ibv_mtu>(__builtin_ctz(o_.mtu) - 7);  // IBV_MTU_256 is 1
    attr.dest_qp_num = peer;
    attr.rq_psn = kExpectsPsn;
    attr.min_rnr_timer = kRnrTimer640us;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(std::atoi(o_.gid_index));
    attr.ah_attr.grh.hop_limit = 64;
    std::uint8_t* gid = attr.ah_attr.grh.dgid.raw;
    gid[10] = gid[11] = 0xff;
    if (inet_pton(AF_INET, o_.peer, gid + 12) != 1) die("no IPv4 address");
    int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    if (ibv_modify_qp(qp_, &attr, mask) != 0) die("RTR is refused");
    attr = {};
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = kFirstPsn;
    attr.timeout = static_cast<std::uint8_t>(o_.timeout);
    attr.retry_cnt = kRetries;
    attr.rnr_retry = kRnrWithoutLimit;
    mask =
        IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    if (ibv_modify_qp(qp_, &attr, mask) != 0) die("RTS is refused");
  }

  /// @return whether anything happened
  bool work() {
    bool any = false;
    ibv_wc wc{};
    while (error_.empty() && ibv_poll_cq(cq_, 1, &wc) == 1) {
      any = true;
      complete(wc);
    }
    while (error_.empty()) {
      const auto message = progress_.post();
      if (!message) break;
      any = true;
      post(*message);
    }
    return any;
  }

  void complete(const ibv_wc& wc) {
    if (wc.status != IBV_WC_SUCCESS) {
      error_ = std::string(ibv_wc_status_str(wc.status)) + " in collective " + std::to_string(progress_.passed());
    } else if (wc.opcode == IBV_WC_RECV || wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
      received(wc);
    } else {
      progress_.sent();
    }
  }

  void received(const ibv_wc& wc) {
    const auto message = progress_.arrived();
    if (!message) {
      error_ = "a message that nobody was to send";
      return;
    }
    auto immediate =
        (wc.wc_flags & IBV_WC_WITH_IMM) != 0 ? std::optional(ntohl(wc.imm_data)) : std::optional<std::uint32_t>();
    const bool written = wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
    if (written != (o_.write_imm && !message->is_control()) || (written && immediate != message->number)) {
      error_ = "message " + std::to_string(message->number) + " came by another verb, or with another immediate";
      return;
    }
    if (written) immediate.reset();
    const std::uint64_t slot = slots_ + (written ? receives_ + place(*message) : wc.wr_id);
    error_ = test_difference(program_, o_.ranks, *message, immediate, {at(slot), wc.byte_len});
    post_receive(static_cast<std::uint32_t>(wc.wr_id));
  }

  void post(const RankMessage& message) {
    const ControlMessage& m = program_[message.collective];
    std::uint8_t* to = at(sent_++ % slots_);
    ibv_sge sge{address(to), message.bytes, mr_->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_SEND;
    if (message.is_control()) {
      const auto payload = control_payload(m);
      std::memcpy(to, payload.data(), payload.size());
      sge.length = kControlPayloadBytes;
      wr.opcode = IBV_WR_SEND_WITH_IMM;
      wr.imm_data = htonl(control_immediate(m));
    } else {
      fill_test_vector(o_.rank, m, message.offset, {to, message.bytes});
      if (o_.write_imm) {
        wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        wr.imm_data = htonl(message.number);
        // The switch stands for all ranks: it is told where in our own memory the result will be.
        wr.wr.rdma.remote_addr = address(at(slots_ + receives_ + place(message)));
        wr.wr.rdma.rkey = mr_->rkey;
      }
    }
    wr.sg_list = &sge;
    wr.num_sge = 1;
    if (ibv_post_send(qp_, &wr, &bad) != 0) error_ = "a work request was refused";
  }

  void post_receive(std::uint32_t slot) {
    ibv_sge sge{address(at(slots_ + slot)), message_bytes_, mr_->lkey};
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = slot;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    if (ibv_post_recv(qp_, &wr, &bad) != 0) error_ = "no room for a receive";
  }

  std::uint8_t* at(std::uint64_t slot) { return memory_.data() + slot * message_bytes_; }
  static unsigned long long address(const std::uint8_t* p) { return reinterpret_cast<std::uintptr_t>(p); }
  /// Which of the places for WRITEs a message has: the same at all ranks, weft-rnic's too.
  std::uint64_t place(const RankMessage& m) const { return (first_[m.collective] + m.number) % places_; }

  Options o_;
  std::vector<ControlMessage> program_;
  std::uint32_t slots_, receives_, places_, message_bytes_;
  RankProgress progress_;
  std::vector<std::uint8_t> memory_;  ///< messages that are under way, those that may come, places for WRITEs
  std::vector<std::uint64_t> first_;  ///< by collective: messages of data before it
  char address_[INET_ADDRSTRLEN] = "";
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_qp* qp_ = nullptr;
  std::uint64_t sent_ = 0;
  std::string error_;
};

}  // namespace

int main(int argc, char** argv) {
  const bool write_imm = argc == 15 && std::strcmp(argv[14], "--write-imm") == 0;
  if (argc != 14 && !write_imm) die("usage: see tests/guests/inc_rank.cc");
  const auto number = [&](int i) { return static_cast<std::uint32_t>(std::strtoul(argv[i], nullptr, 10)); };
  const Options options{argv[1],   argv[2],   argv[3],    number(4),  number(5),  number(6),  argv[7],
                        number(8), number(9), number(10), number(11), number(12), number(13), write_imm};
  return Rank(options).run();
}
