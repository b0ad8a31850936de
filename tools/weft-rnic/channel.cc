// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weft-rnic/channel.h"

#include <cstring>

namespace weft::rnic_tool {

std::optional<Failure> connect_channel(Session& session, const Options& options, std::uint64_t bytes, Channel& out,
                                       std::size_t number) {
  auto& device = session.device(number);
  out.device = &device;
  nic::QpConfig config = options.qp;
  config.send_queue_depth = std::max(options.depth, 128u);
  config.receive_queue_depth = std::max(options.depth, 128u);
  out.memory.resize(bytes + sizeof(Statistics));
  out.mr = device.reg_mr(session.pd(), out.memory.data(), out.memory.size(), nic::Access::all);
  out.cq = &device.create_cq(2 * config.send_queue_depth + config.receive_queue_depth);
  out.qp = &device.create_qp(session.pd(), *out.cq, *out.cq, config);
  Hello hello{};
  hello.magic.set(Hello::kMagic);
  hello.test = static_cast<std::uint8_t>(options.command);
  hello.loss_recovery = static_cast<std::uint8_t>(config.loss_recovery);
  hello.renack = static_cast<std::uint8_t>(config.renack);
  hello.telemetry = config.congestion_control == nic::CongestionControl::hpcc ? 1 : 0;
  hello.size.set(options.size);
  hello.depth.set(options.depth);
  hello.reorder_window.set(config.reorder_window);
  hello.address.set(out.mr.address);
  hello.rkey.set(out.mr.key);
  nic::CmEvent answer;
  if (auto failure = session.connect(options, device, *out.qp, as_bytes(hello), answer)) return failure;
  const auto welcome = read_greeting<Welcome>(answer.private_data);
  if (!welcome) return Failure{kExitFailed, "the server is no weft-rnic"};
  out.server = *welcome;
  return std::nullopt;
}

std::optional<Statistics> read_statistics(Session& session, const Options& options, Channel& c) {
  nic::SendWr wr;
  wr.opcode = nic::WrOpcode::read;
  const std::uint64_t offset = c.memory.size() - sizeof(Statistics);
  wr.with(c.sge(offset, sizeof(Statistics)));
  wr.remote_address = c.server.statistics.value();
  wr.rkey = c.server.rkey.value();
  if (c.qp->post_send(wr) != nic::PostResult::ok) return std::nullopt;
  nic::Wc done;
  bool there = false;
  session.run_until([&] { return there = c.cq->poll({&done, 1}) == 1; }, options.timeout_s);
  if (!there || done.status != nic::WcStatus::success) return std::nullopt;
  Statistics s;
  std::memcpy(&s, c.memory.data() + offset, sizeof s);
  return s;
}

int fail(const Failure& failure) {
  std::fprintf(stderr, "weft-rnic: %s\n", failure.message.c_str());
  return failure.exit_status;
}

}  // namespace weft::rnic_tool
