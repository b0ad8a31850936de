// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/simulation.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "nic/rnic/cc_constants.h"
#include "tools/sim/seeds.h"

namespace weft::sim {
namespace {

constexpr std::size_t kMostSamples = 400;
constexpr std::uint32_t kCqDepth = 4096;
constexpr std::uint64_t kRegionBytes = std::uint64_t{1} << 40;

/// What a background flow has under way, and the mark of its work requests.
constexpr std::uint32_t kBackgroundWrites = 2, kBackgroundBytes = 1 << 20;
constexpr std::uint64_t kEndless = std::uint64_t{1} << 62;  // packets of a channel that never stops
constexpr std::uint64_t kBackground = std::uint64_t{1} << 40;

std::uint32_t free_buffers(rte_mempool* pool) {
  return rte_mempool_avail_count(pool);
}

}  // namespace

Simulation::Simulation(const Experiment& experiment, const pipeline::Registry& registry, rte_mempool* pool,
                       config::Diagnostics& diagnostics, RunOptions options)
    : experiment_(experiment),
      pool_(pool),
      options_(options),
      free_before_(free_buffers(pool)),
      routes_(experiment.topology) {
  make_partitions();
  make_links();
  if (experiment.payload_values && !experiment.inc) {
    payload_source_ = std::make_unique<RandomPayload>(seed_of(experiment.seed, RandomUse::payload, "payload"));
    payload_ = std::make_unique<PayloadMemory>(
        experiment.plan, static_cast<std::uint32_t>(experiment.topology.hosts().size()), *payload_source_);
  }
  if (experiment.datagrams) {
    make_datagram_hosts();
  } else {
    make_hosts(pool);
  }
  if (experiment.inc) make_ranks();
  const std::vector<QpPairPlan> qps = experiment.datagrams ? std::vector<QpPairPlan>{} : make_channels();
  if (!make_switches(registry, pool, qps, diagnostics)) return;
  make_faults();
  make_starts();
  for (const auto& partition : partitions_) partition->look_again();
}

Simulation::~Simulation() = default;

void Simulation::make_links() {
  const Topology& t = experiment_.topology;
  const auto name = [&](std::uint32_t device) {
    const auto switches = static_cast<std::uint32_t>(t.switches().size());
    return device < switches ? t.switches()[device].name : t.hosts()[device - switches].name;
  };
  const auto make = [&](std::uint32_t from, PortIndex port, std::uint32_t to, TimeNs delay) {
    const auto id = static_cast<std::uint32_t>(links_.size());
    links_.push_back(
        std::make_unique<Link>(Link::Plan{name(from) + "/" + name(to), id, delay, from, port}, home(from), home(to)));
    return links_.back().get();
  };
  for (std::uint32_t h = 0; h < t.hosts().size(); ++h) {
    const HostPlan& host = t.hosts()[h];
    host_up_.push_back(make(host_device(h), 0, host.tor, host.wire.delay_ns));
    host_down_.push_back(make(host.tor, host.port, host_device(h), host.wire.delay_ns));
  }
  for (std::uint32_t i = 0; i < t.switches().size(); ++i) {
    const SwitchPlan& sw = t.switches()[i];
    auto& out = switch_links_.emplace_back();
    for (std::size_t p = 0; p < sw.ports.size(); ++p) {
      const PortPlan& port = sw.ports[p];
      out.push_back(port.to_host ? host_down_[port.peer]
                                 : make(i, static_cast<PortIndex>(p), port.peer, port.wire.delay_ns));
    }
  }
}

void Simulation::make_hosts(rte_mempool* pool) {
  const Topology& t = experiment_.topology;
  for (std::uint32_t h = 0; h < t.hosts().size(); ++h) {
    const std::uint64_t seed = seed_of(experiment_.seed, RandomUse::host, t.hosts()[h].name);
    hosts_.push_back(std::make_unique<Host>(HostWire::Parts{t.hosts()[h], host_device(h), pool, *host_up_[h],
                                                            home_of_host(h).events(), experiment_.payload_values},
                                            seed, home_of_host(h).witness()));
    Host& host = *hosts_.back();
    host.connect(*this);
    host.make_cq(kCqDepth);
    host_down_[h]->connect(host, 0);
    ends_.push_back(&host);
    regions_.push_back(payload_ ? payload_->register_with(h, host.device())
                                : host.device().reg_virtual_mr({1}, 0, kRegionBytes, nic::Access::all));
  }
}

void Simulation::make_ranks() {
  inc_ = std::make_unique<IncRun>(*experiment_.inc, experiment_.topology, experiment_.payload_values, *this);
  inc_->connect(hosts_, [this](std::uint32_t host) { return qp_config(host, 1); });
  for (nic::Qp* qp : inc_->qps()) channels_.push_back({qp, qp});
}

nic::QpConfig Simulation::qp_config(std::uint32_t host, std::uint32_t transfers) const {
  nic::QpConfig config = experiment_.qp;
  config.line_bps = experiment_.topology.hosts()[host].wire.rate_mbps * 1'000'000;
  config.send_queue_depth = config.receive_queue_depth = std::bit_ceil(std::max(transfers, 1u));
  config.max_rd_atomic = config.max_dest_rd_atomic = 1;
  config.dcqcn = *nic::dcqcn_parameters(experiment_.cc_preset, config.line_bps);
  for (const auto& [constant, value] : experiment_.cc_constants) {
    const std::string mistake = nic::set_cc_constant(config, constant, value);
    assert(mistake.empty());
    static_cast<void>(mistake);
  }
  return config;
}

std::vector<QpPairPlan> Simulation::make_channels() {
  std::vector<QpPairPlan> pairs;
  for (const Channel& channel : experiment_.plan.channels) {
    channels_.push_back(make_channel(channel, pairs));
    for (std::uint32_t i = 0; i < channel.transfers; ++i) {
      const auto posted = channels_.back().receiver->post_recv({});
      assert(posted == nic::PostResult::ok);
      static_cast<void>(posted);
    }
  }
  for (const BackgroundFlow& flow : experiment_.background) {
    background_.push_back(make_channel({flow.from, flow.to, kBackgroundWrites, kEndless}, pairs));
  }
  return pairs;
}

Simulation::ChannelQps Simulation::make_channel(const Channel& channel, std::vector<QpPairPlan>& pairs) {
  const Topology& t = experiment_.topology;
  const auto make = [&](std::uint32_t host) -> nic::Qp& {
    nic::QpConfig config = qp_config(host, channel.transfers);
    config.reorder_window = reorder_window(config, channel.packets);
    return hosts_[host]->device().create_qp({1}, hosts_[host]->cq(), hosts_[host]->cq(), config);
  };
  nic::Qp& sender = make(channel.from);
  nic::Qp& receiver = make(channel.to);
  const wire::Psn psn_a = hosts_[channel.from]->device().pick_psn();
  const wire::Psn psn_b = hosts_[channel.to]->device().pick_psn();
  const auto connect = [&](nic::Qp& qp, const nic::Qp& to, std::uint32_t from_host, std::uint32_t to_host,
                           wire::Psn send, wire::Psn receive) {
    const HostPlan& own = t.hosts()[from_host];
    nic::Path path;
    path.source_mac = own.mac;
    path.destination_mac = t.switches()[own.tor].ports[own.port].mac;
    path.source = own.address;
    path.destination = t.hosts()[to_host].address;
    path.source_port = 0;
    qp.connect({.qpn = to.qpn(), .path = path, .send_psn = send, .receive_psn = receive});
  };
  connect(sender, receiver, channel.from, channel.to, psn_a, psn_b);
  connect(receiver, sender, channel.to, channel.from, psn_b, psn_a);
  pairs.push_back(
      {channel.from, channel.to, sender.qpn().value(), receiver.qpn().value(), psn_a.value(), psn_b.value()});
  observer_.add_pair(t.hosts()[channel.from].address.v4_value(), sender.qpn().value(),
                     t.hosts()[channel.to].address.v4_value(), receiver.qpn().value());
  return {&sender, &receiver};
}

void Simulation::post_background(TimeNs now, std::uint32_t flow) {
  const BackgroundFlow& f = experiment_.background[flow];
  nic::SendWr wr;
  wr.wr_id = kBackground | flow;
  wr.opcode = nic::WrOpcode::write;
  wr.rkey = regions_[f.to].key;
  wr.with({0, kBackgroundBytes, regions_[f.from].key});
  static_cast<void>(background_[flow].sender->post_send(wr));
  hosts_[f.from]->kick(now);
}

bool Simulation::make_switches(const pipeline::Registry& registry, rte_mempool* pool,
                               const std::vector<QpPairPlan>& qps, config::Diagnostics& diagnostics) {
  const Topology& t = experiment_.topology;
  for (std::uint32_t i = 0; i < t.switches().size(); ++i) {
    const auto groups = inc_ ? inc_->groups_at(i, experiment_.qp.path_mtu) : config::Value::List{};
    const config::Value document = switch_document(t, i, experiment_.switches, qps, groups);
    auto info = load_switch_document(t, i, document, registry, diagnostics);
    if (!info) return false;
    const std::uint64_t seed = seed_of(experiment_.seed, RandomUse::switch_choices, t.switches()[i].name);
    switches_.push_back(
        std::make_unique<SimSwitch>(registry, std::move(*info), pool, i, seed, switch_links_[i], home(i)));
  }
  for (std::uint32_t i = 0; i < t.switches().size(); ++i) {
    for (std::size_t p = 0; p < t.switches()[i].ports.size(); ++p) {
      const PortPlan& port = t.switches()[i].ports[p];
      if (!port.to_host) switch_links_[i][p]->connect(*switches_[port.peer], port.peer_port);
    }
  }
  for (std::uint32_t h = 0; h < t.hosts().size(); ++h) {
    host_up_[h]->connect(*switches_[t.hosts()[h].tor], t.hosts()[h].port);
  }
  return true;
}

// Calls f(link, switch, port) for each direction of the links of a fault, with the switch that sends or kNoPort.
template <typename F>
void Simulation::for_each_link(const Fault& fault, F&& f) {
  const Topology& t = experiment_.topology;
  for (std::uint32_t i = 0; i < t.switches().size(); ++i) {
    for (std::size_t p = 0; p < t.switches()[i].ports.size(); ++p) {
      const PortPlan& port = t.switches()[i].ports[p];
      const bool named = i == fault.at_switch && p == fault.port;
      const bool other_end = !port.to_host && port.peer == fault.at_switch && port.peer_port == fault.port;
      if (fault.scope == Fault::Scope::one && !named && !other_end) continue;
      if (fault.scope == Fault::Scope::fabric && port.to_host) continue;
      f(*switch_links_[i][p], i, static_cast<PortIndex>(p));
      if (port.to_host) f(*host_up_[port.peer], i, pipeline::kNoPort);
    }
  }
}

void Simulation::make_faults() {
  for (const Fault& fault : experiment_.faults) {
    if (fault.loss > 0) {
      for_each_link(fault, [&](Link& link, std::uint32_t, PortIndex) {
        link.set_loss(fault.loss, seed_of(experiment_.seed, RandomUse::link_loss, link.name()));
      });
    }
    for (const bool up : {false, true}) {
      const auto& at = up ? fault.up_at : fault.down_at;
      if (!at) continue;
      const auto order = [&](EventOrder::Kind kind) {
        return EventOrder(EventOrder::Phase::change, 0, kind, static_cast<std::uint32_t>(fault_events_.size()));
      };
      fault_events_.push_back(std::make_unique<Call>(order(EventOrder::Kind::fault), [this, &fault, up](TimeNs now) {
        for_each_link(fault, [&](Link& link, std::uint32_t sw, PortIndex port) {
          link.set_up(now, up);
          if (port != pipeline::kNoPort) switches_[sw]->set_link(now, port, up);
        });
      }));
      changes_.schedule(*fault_events_.back(), *at);
      if (!experiment_.convergence) continue;
      fault_events_.push_back(std::make_unique<Call>(order(EventOrder::Kind::routes),
                                                     [this, &fault, up](TimeNs now) { spread(now, fault, up); }));
      changes_.schedule(*fault_events_.back(), *at + *experiment_.convergence);
    }
  }
}

// All switches have heard of it.
void Simulation::spread(TimeNs now, const Fault& fault, bool up) {
  for_each_link(fault, [&](Link&, std::uint32_t sw, PortIndex port) {
    if (port != pipeline::kNoPort) routes_.set_link(sw, port, up);
  });
  for (std::uint32_t i = 0; i < switches_.size(); ++i) {
    switches_[i]->set_routes(now, routes_.routes(i, switches_[i]->state().info().routes));
  }
}

void Simulation::make_starts() {
  const auto& transfers = experiment_.plan.transfers;
  times_.resize(transfers.size());
  waits_for_.reserve(transfers.size());
  std::vector<std::vector<std::uint32_t>> by_host(experiment_.topology.hosts().size());
  for (std::uint32_t i = 0; i < transfers.size(); ++i) {
    waits_for_.push_back(transfers[i].waits_for);
    if (transfers[i].waits_for == 0 && !inc_) by_host[transfers[i].from].push_back(i);
  }
  for (std::uint32_t h = 0; h < by_host.size(); ++h) {
    if (by_host[h].empty()) continue;
    std::stable_sort(by_host[h].begin(), by_host[h].end(),
                     [&](std::uint32_t a, std::uint32_t b) { return transfers[a].start < transfers[b].start; });
    starts_.push_back(std::make_unique<Starts>(*this, host_device(h)));
    starts_.back()->transfers = std::move(by_host[h]);
    home_of_host(h).events().schedule(*starts_.back(), transfers[starts_.back()->transfers.front()].start);
  }
  using Order = EventOrder;
  if (inc_) {
    start_event_ = std::make_unique<Call>(Order(Order::Phase::change, 0, Order::Kind::start),
                                          [this](TimeNs now) { start_inc(now); });
    changes_.schedule(*start_event_, 0);
  }
  sample_event_ =
      std::make_unique<Call>(Order(Order::Phase::look, 0, Order::Kind::sample), [this](TimeNs now) { sample(now); });
  looks_.schedule(*sample_event_, sample_interval_);
  rates_event_ = std::make_unique<Call>(Order(Order::Phase::look, 0, Order::Kind::sample, 1),
                                        [this](TimeNs now) { look_at_rates(now); });
  if (experiment_.rates_every != 0) looks_.schedule(*rates_event_, experiment_.rates_every);
  limit_event_ = std::make_unique<Call>(Order(Order::Phase::look, 0, Order::Kind::limit),
                                        [this](TimeNs) { limit_reached_ = true; });
  if (experiment_.time_limit != 0) looks_.schedule(*limit_event_, experiment_.time_limit);
}

void Simulation::start_inc(TimeNs now) {
  if (const TimeNs next = inc_->start(now); next != kNever) changes_.schedule(*start_event_, next);
  if (now != 0) return;
  for (std::uint32_t b = 0; b < kBackgroundWrites * background_.size(); ++b) {
    post_background(now, b / kBackgroundWrites);
  }
}

void Simulation::start_due(TimeNs now, Starts& starts) {
  const auto& transfers = experiment_.plan.transfers;
  const auto more = [&] { return starts.next < starts.transfers.size(); };
  const auto next = [&]() -> const Transfer& { return transfers[starts.transfers[starts.next]]; };
  for (; more() && next().start <= now; ++starts.next) post(now, starts.transfers[starts.next]);
  if (more()) home_of_host(next().from).events().schedule(starts, next().start);
}

void Simulation::post(TimeNs now, std::uint32_t index) {
  const Transfer& t = experiment_.plan.transfers[index];
  times_[index].started = now;
  if (experiment_.datagrams) return post_datagrams(now, index);
  nic::SendWr wr;
  wr.wr_id = index;
  wr.opcode = nic::WrOpcode::write_imm;
  wr.immediate = index;
  wr.rkey = regions_[t.to].key;
  if (payload_) {
    payload_->fill(index);
    wr.remote_address = payload_->written_to(index);
  }
  wr.with({payload_ ? payload_->sent_from(index) : 0, static_cast<std::uint32_t>(t.bytes), regions_[t.from].key});
  const auto posted = channels_[t.channel].sender->post_send(wr);
  assert(posted == nic::PostResult::ok);
  static_cast<void>(posted);
  hosts_[t.from]->kick(now);
}

void Simulation::release(TimeNs now, const std::vector<std::uint32_t>& waiting) {
  for (const std::uint32_t index : waiting) {
    if (--waits_for_[index] == 0) post(now, index);
  }
}

void Simulation::operation_ended(TimeNs now, std::uint32_t transfer) {
  times_[transfer].acked = now;
  ++home_of_host(experiment_.plan.transfers[transfer].from).counters().ended;
}

// The others of its group would wait for ever.
void Simulation::rank_failed(std::uint32_t transfer) {
  Partition& partition = home_of_host(experiment_.plan.transfers[transfer].from);
  ++partition.counters().failed;
  partition.ask_to_stop();
}

void Simulation::completed(TimeNs now, Host& host, const nic::Wc& wc) {
  if ((wc.wr_id & kBackground) != 0) {
    // A flow whose queue pair has failed is over.
    if (wc.status == nic::WcStatus::success) post_background(now, static_cast<std::uint32_t>(wc.wr_id));
    return;
  }
  if (inc_) return inc_->completed(now, host, wc);
  if (wc.status != nic::WcStatus::success) {
    // The flushed receive requests of a queue pair that failed say nothing about a transfer.
    if (wc.opcode == nic::WcOpcode::send && wc.status != nic::WcStatus::flushed)
      ++home(host.device_number()).counters().failed;
    return;
  }
  const bool received = wc.opcode == nic::WcOpcode::receive_write_imm;
  const auto index = static_cast<std::uint32_t>(received ? wc.immediate : wc.wr_id);
  const Transfer& t = experiment_.plan.transfers[index];
  if (received) {
    times_[index].received = now;
    if (payload_) payload_->check(index);
    release(now, t.after_received);
  } else {
    times_[index].acked = now;
    ++home(host.device_number()).counters().ended;
    release(now, t.after_sent);
  }
}

void Simulation::sample(TimeNs now) {
  Sample s{.at = now, .interval = sample_interval_};
  const std::uint64_t bytes = placed_bytes();
  for (const ChannelQps& c : channels_) {
    if (c.sender->requester().outstanding() == 0) continue;
    s.rate_bps += c.sender->rate().rate_bps(static_cast<nic::Time>(now));
    ++s.busy;
  }
  if (s.busy != 0) s.rate_bps /= s.busy;
  s.received_bytes = bytes - sampled_bytes_;
  s.nacks = observer_.counters().nacks_at_sender - sampled_nacks_;
  sampled_bytes_ = bytes;
  sampled_nacks_ = observer_.counters().nacks_at_sender;
  samples_.push_back(s);
  if (samples_.size() == kMostSamples) {
    for (std::size_t i = 0; i < samples_.size() / 2; ++i) {
      const Sample& a = samples_[2 * i];
      const Sample& b = samples_[2 * i + 1];
      samples_[i] = {b.at,
                     a.interval + b.interval,
                     a.received_bytes + b.received_bytes,
                     a.nacks + b.nacks,
                     (a.rate_bps * a.busy + b.rate_bps * b.busy) / std::max(1u, a.busy + b.busy),
                     (a.busy + b.busy + 1) / 2};
    }
    samples_.resize(kMostSamples / 2);
    sample_interval_ *= 2;
  }
  // Without anything under way nothing happens any more.
  if (datagrams_stopped()) limit_reached_ = true;
  looks_.schedule(*sample_event_, now + sample_interval_);
}

void Simulation::look_at_rates(TimeNs now) {
  rates_seen_.resize(channels_.size());
  for (std::uint32_t c = 0; c < channels_.size(); ++c) {
    const bool busy = channels_[c].sender->requester().outstanding() != 0;
    const double rate = busy ? channels_[c].sender->rate().rate_bps(static_cast<nic::Time>(now)) : 0;
    if (rate == rates_seen_[c]) continue;
    rates_seen_[c] = rate;
    if (rate_changes_.size() < kMostRateChanges) rate_changes_.push_back({now, c, rate});
  }
  looks_.schedule(*rates_event_, now + experiment_.rates_every);
}

std::string Simulation::settle() {
  if (payload_) {
    if (std::string wrong = payload_->check_all(); !wrong.empty()) return wrong;
  }
  if (inc_) {
    if (std::string wrong = inc_->wrong(); !wrong.empty()) return wrong;
  }
  std::uint64_t sent = 0, received = 0, held = 0, faults = 0, made = 0, ended = 0;
  for (const HostWire* host : ends_) {
    sent += host->counters().sent;
    received += host->counters().received;
    held += host->held();
  }
  for (const auto& link : links_) {
    faults += link->counters().lost + link->counters().cut;
    held += link->held();
  }
  for (const auto& sw : switches_) {
    if (!sw->balanced()) return "a switch lost count of its packets";
    made += sw->pipeline().totals().made();
    ended += sw->pipeline().totals().ended();
    held += sw->held();
  }
  if (sent + made != received + ended + faults + held) {
    return "packets: " + std::to_string(sent) + " sent + " + std::to_string(made) + " made by switches are not " +
           std::to_string(received) + " received + " + std::to_string(ended) + " ended in switches + " +
           std::to_string(faults) + " lost on links + " + std::to_string(held) + " under way";
  }
  for (const auto& sw : switches_) sw->drop_all(now_);
  for (HostWire* host : ends_) host->drop_all();
  for (const auto& link : links_) link->drop_all();
  const std::uint32_t missing = free_before_ - free_buffers(pool_);
  return missing == 0 ? "" : std::to_string(missing) + " packet buffers are missing";
}

Link* Simulation::link_named(const std::string& name) noexcept {
  for (const auto& link : links_) {
    if (link->name() == name) return link.get();
  }
  return nullptr;
}

}  // namespace weft::sim
