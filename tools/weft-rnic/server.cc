// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weft-rnic/server.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "switch/wire/telemetry.h"

namespace weft::rnic_tool {
namespace {

constexpr std::uint32_t kReceives = 512;
constexpr std::size_t kMaxClients = 1024;

struct Totals {
  std::uint64_t finished = 0;
  std::size_t active = 0;
};

std::size_t data_bytes(std::uint32_t size) noexcept {
  return (std::size_t{size} + 63) / 64 * 64;
}

}  // namespace

Server::Server(Session& session, nic::Device& device, const Options& options)
    : session_(session), device_(device), options_(options) {
  device.cm().listen(options.port);
}

bool Server::prepare(const nic::CmEvent& event, const Hello& hello, Client& c) {
  nic::QpConfig config;
  if (!device_.cm().negotiate(event.id, config) || config.path_mtu > options_.qp.path_mtu) return false;
  const bool known = hello.loss_recovery <= static_cast<std::uint8_t>(nic::LossRecovery::ideal) &&
                     hello.renack <= static_cast<std::uint8_t>(nic::Renack::eager) &&
                     hello.test >= static_cast<std::uint8_t>(Command::write_bw) &&
                     hello.test <= static_cast<std::uint8_t>(Command::verify);
  const std::uint32_t window = hello.reorder_window.value();
  if (!known || hello.size.value() > kMaxServerBytes || window < 64 || window > kMaxServerWindow ||
      (window & (window - 1)) != 0) {
    return false;
  }
  config.loss_recovery = static_cast<nic::LossRecovery>(hello.loss_recovery);
  config.renack = static_cast<nic::Renack>(hello.renack);
  config.reorder_window = window;
  if (hello.telemetry == 1) {
    const std::uint32_t mtu = session_.host().port().info().mtu;
    if (config.path_mtu > nic::path_mtu_for(mtu, false, wire::kIntOptionBytes)) return false;
    config.congestion_control = nic::CongestionControl::hpcc;  // it sends back what it is told, and paces nothing
  }
  config.receive_queue_depth = kReceives;
  config.dcqcn.cnp_interval_ns = 50 * nic::kUs;
  c.test = static_cast<Command>(hello.test);
  c.hello = hello;
  c.size = hello.size.value();
  c.memory.resize(data_bytes(c.size) + sizeof(Statistics));
  c.mr = device_.reg_mr(session_.pd(), c.memory.data(), c.memory.size(), nic::Access::all);
  open_window(c);
  c.cq = &device_.create_cq(4 * kReceives);
  c.qp = &device_.create_qp(session_.pd(), *c.cq, *c.cq, config);
  return true;
}

void Server::on_request(const nic::CmEvent& event) {
  auto client = std::make_unique<Client>();
  const auto hello = read_greeting<Hello>(event.private_data);
  if (!hello || clients_.size() >= kMaxClients || !prepare(event, *hello, *client)) {
    return device_.cm().reject(nic::monotonic_now(), event.id);
  }
  for (std::uint32_t i = 0; i < kReceives; ++i) repost(*client, i);
  const Welcome welcome{wire::be32(Hello::kMagic), wire::be32(client->mr.key), wire::be64(client->mr.address),
                        wire::be64(client->mr.address + data_bytes(client->size))};
  device_.cm().accept(nic::monotonic_now(), event.id, *client->qp, as_bytes(welcome));
  clients_[event.id] = std::move(client);
}

void Server::repost(Client& c, std::uint64_t slot) {
  nic::RecvWr wr;
  wr.wr_id = slot;
  wr.with({c.mr.address, c.size, c.mr.key});
  static_cast<void>(c.qp->post_recv(wr));
}

void Server::open_window(Client& c) {
  c.window =
      device_.reg_mr(session_.pd(), c.memory.data(), c.size, nic::Access::remote_write | nic::Access::remote_read);
}

/// The server's part of verify: a message that has ended.
void Server::note_received(Client& c, const nic::Wc& wc) {
  if (wc.with_invalidate && wc.invalidated_rkey == c.window.key) {
    ++c.invalidations;
    device_.dereg_mr(c.window);
    open_window(c);
  }
  if (!wc.with_immediate) return;
  if (wc.immediate > c.size) {
    c.last_immediate = wc.immediate;
    return;
  }
  c.hash = hash({c.memory.data(), wc.immediate});
  ++c.hashes;
}

/// A pong for what has arrived: the same size, back to where the client waits for it.
void Server::answer_ping(Client& c) {
  nic::SendWr wr;
  wr.signaled = false;
  wr.with({c.mr.address, c.size, c.mr.key});
  if (c.test == Command::write_lat) {
    wr.opcode = nic::WrOpcode::write;
    wr.remote_address = c.hello.address.value();
    wr.rkey = c.hello.rkey.value();
  }
  static_cast<void>(c.qp->post_send(wr));
}

void Server::serve(Client& c) {
  nic::Wc done[64];
  while (const std::size_t count = c.cq->poll(done)) {
    for (std::size_t i = 0; i < count; ++i) {
      const nic::Wc& wc = done[i];
      const bool receive = wc.opcode == nic::WcOpcode::receive;
      if (wc.status != nic::WcStatus::success || (!receive && wc.opcode != nic::WcOpcode::receive_write_imm)) continue;
      repost(c, wc.wr_id);
      if (c.test == Command::verify) note_received(c, wc);
      if (!receive) continue;
      ++c.receives;
      if (c.test == Command::send_lat) answer_ping(c);
    }
  }
  if (c.test == Command::write_lat && c.size > 0 && c.memory[c.size - 1] == c.awaited) {
    answer_ping(c);
    c.awaited = static_cast<std::uint8_t>(c.awaited == 255 ? 1 : c.awaited + 1);
  }
  publish(c);
}

void Server::publish(Client& c) {
  const auto& r = c.qp->responder().counters();
  const auto& q = c.qp->counters();
  Statistics now;
  now.packets.set(r.packets);
  now.duplicates.set(r.duplicates);
  now.out_of_order.set(r.out_of_order);
  now.naks_sent.set(r.naks_sent);
  now.ce_marked.set(q.ce_marked);
  now.cnps_sent.set(q.cnps_sent);
  now.window_address.set(c.window.address);
  now.window_rkey.set(c.window.key);
  now.invalidations.set(c.invalidations);
  now.hash.set(c.hash);
  now.hashes.set(c.hashes);
  now.last_immediate.set(c.last_immediate);
  std::memcpy(c.memory.data() + data_bytes(c.size), &now, sizeof now);
}

void Server::report(const Client& c) {
  auto row = describe(*c.qp);
  row["bytes_placed"] = c.qp->responder().counters().bytes_placed;
  if (options_.json) {
    std::printf("%s\n", row.dump().c_str());
  } else {
    const auto& r = c.qp->responder().counters();
    std::printf("qp 0x%06x from %s: %llu packets, %llu MiB, %llu duplicates, %llu out of order, %llu NAKs sent\n",
                c.qp->qpn().value(), c.qp->peer().path.destination.to_string().c_str(),
                static_cast<unsigned long long>(r.packets),
                static_cast<unsigned long long>((r.bytes_placed + r.response_bytes) >> 20),
                static_cast<unsigned long long>(r.duplicates), static_cast<unsigned long long>(r.out_of_order),
                static_cast<unsigned long long>(r.naks_sent));
  }
  static_cast<void>(std::fflush(stdout));
}

void Server::remove(nic::CmId id) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  Client& c = *found->second;
  report(c);
  bytes_of_finished_ += c.qp->responder().counters().bytes_placed + c.qp->responder().counters().response_bytes;
  device_.destroy_qp(*c.qp);
  device_.destroy_cq(*c.cq);
  device_.dereg_mr(c.mr);
  device_.dereg_mr(c.window);
  clients_.erase(found);
  ++finished_;
}

void Server::work() {
  while (const auto event = device_.cm().poll_event()) {
    if (event->kind == nic::CmEvent::Kind::connect_request) {
      on_request(*event);
    } else if (event->kind != nic::CmEvent::Kind::established) {
      remove(event->id);
    }
  }
  for (auto& [id, client] : clients_) {
    serve(*client);
    if (client->qp->state() == nic::QpState::error && !client->ended) {
      // Its client is gone or has broken a rule. The connection ends, which removes it.
      client->ended = true;
      device_.cm().disconnect(nic::monotonic_now(), id);
    }
  }
}

std::uint64_t Server::received_bytes() const noexcept {
  std::uint64_t sum = bytes_of_finished_;
  for (const auto& [id, c] : clients_) {
    sum += c->qp->responder().counters().bytes_placed + c->qp->responder().counters().response_bytes;
  }
  return sum;
}

int run_server(Options options) {
  Session session;
  if (const auto failure = session.open(options)) {
    std::fprintf(stderr, "weft-rnic: %s\n", failure->message.c_str());
    return failure->exit_status;
  }
  std::vector<std::unique_ptr<Server>> servers;
  for (const auto& device : session.host().devices()) {
    servers.push_back(std::make_unique<Server>(session, *device, options));
    std::fprintf(stderr, "weft-rnic: %s on %s, port %u, path MTU up to %u\n",
                 device->config().address.to_string().c_str(), options.interface.c_str(), options.port,
                 options.qp.path_mtu);
  }
  nic::Time next_line = options.watch_s ? nic::monotonic_now() : nic::kNever;
  std::uint64_t bytes_before = 0;
  Totals totals;
  while (!interrupted() && (options.connections == 0 || totals.finished < options.connections || totals.active > 0)) {
    session.host().run_once(std::chrono::milliseconds(100));
    totals = {};
    for (const auto& server : servers) {
      server->work();
      totals.finished += server->finished();
      totals.active += server->active();
    }
    const nic::Time now = nic::monotonic_now();
    if (now < next_line) continue;
    std::uint64_t bytes = 0;
    for (const auto& server : servers) bytes += server->received_bytes();
    std::fprintf(stderr, "%zu connections, %.3f Gbit/s\n", totals.active,
                 static_cast<double>(bytes - bytes_before) * 8e-9 / *options.watch_s);
    bytes_before = bytes;
    next_line = now + static_cast<nic::Time>(*options.watch_s * 1e9);
  }
  return kExitFine;
}

}  // namespace weft::rnic_tool
