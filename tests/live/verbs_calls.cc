// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A program that connects and destroys queue pairs through the machine's own libibverbs, without an RDMA device: the
// library's functions run to their end, and what a device's driver would do is to say yes. For tests of what watches
// the library. Usage: verbs_calls DEVICE
//
// Commands on its input, each answered with a line "done":
//   connect QPN GID_INDEX ADDRESS DEST_QPN RQ_PSN SQ_PSN    to INIT, RTR and RTS, with the masks of every RC program
//   destroy QPN
//   repeat TIMES EVERY_US QPN GID_INDEX ADDRESS DEST_QPN     connects and destroys; 0: without a pause
#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

namespace {

int say_yes() {
  return 0;
}

// What stands in front of an ibv_context in the library: functions of a driver are reached from there. All of them are
// the same here.
struct FakeContext {
  std::array<void*, 64> in_front{};
  ibv_context context{};
  std::array<void*, 512> driver{};
  ibv_device device{};

  explicit FakeContext(const char* name) {
    driver.fill(reinterpret_cast<void*>(&say_yes));
    in_front.fill(driver.data());
    context.device = &device;
    context.abi_compat = reinterpret_cast<void*>(~std::uintptr_t{0});
    std::strncpy(device.name, name, sizeof device.name - 1);
  }
};

class Program {
 public:
  explicit Program(const char* device) : fake_(std::make_unique<FakeContext>(device)) {}

  bool run(const std::string& line) {
    std::istringstream words(line);
    std::string verb, address;
    unsigned qpn = 0, gid_index = 0, dest_qpn = 0, rq_psn = 0, sq_psn = 0, times = 0, every_us = 0;
    words >> verb;
    if (verb == "destroy") return words >> qpn && destroy(qpn);
    if (verb == "connect") {
      return words >> qpn >> gid_index >> address >> dest_qpn >> rq_psn >> sq_psn &&
             connect(qpn, gid_index, address, dest_qpn, rq_psn, sq_psn);
    }
    if (verb != "repeat" || !(words >> times >> every_us >> qpn >> gid_index >> address >> dest_qpn)) return false;
    auto due = std::chrono::steady_clock::now();
    for (unsigned i = 0; i < times; ++i, due += std::chrono::microseconds(every_us)) {
      std::this_thread::sleep_until(due);
      if (!connect(qpn, gid_index, address, dest_qpn, i, i) || !destroy(qpn)) return false;
    }
    return true;
  }

 private:
  bool connect(unsigned qpn, unsigned gid_index, const std::string& address, unsigned dest_qpn, unsigned rq_psn,
               unsigned sq_psn) {
    ibv_qp& qp = qps_[qpn];
    qp.context = &fake_->context;
    qp.qp_num = qpn;
    qp.qp_type = IBV_QPT_RC;
    ibv_qp_attr attr{};
    const std::string mapped = address.find(':') == std::string::npos ? "::ffff:" + address : address;
    if (inet_pton(AF_INET6, mapped.c_str(), attr.ah_attr.grh.dgid.raw) != 1) return false;
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    if (ibv_modify_qp(&qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0)
      return false;
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = dest_qpn;
    attr.rq_psn = rq_psn;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index);
    if (ibv_modify_qp(&qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
      return false;
    }
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = sq_psn;
    return ibv_modify_qp(&qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                             IBV_QP_MAX_QP_RD_ATOMIC) == 0;
  }
  bool destroy(unsigned qpn) {
    const auto at = qps_.find(qpn);
    return at != qps_.end() && ibv_destroy_qp(&at->second) == 0 && qps_.erase(qpn) == 1;
  }

  std::unique_ptr<FakeContext> fake_;
  std::map<unsigned, ibv_qp> qps_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: verbs_calls DEVICE\n", stderr);
    return 1;
  }
  Program program(argv[1]);
  for (std::string line; std::getline(std::cin, line);) {
    if (!program.run(line)) {
      std::fprintf(stderr, "verbs_calls: cannot do: %s\n", line.c_str());
      return 1;
    }
    std::fputs("done\n", stdout);
    std::fflush(stdout);
  }
  return 0;
}
