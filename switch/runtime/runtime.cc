// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/runtime/runtime.h"

#include <rte_errno.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <thread>

#include "switch/config/qos_speed.h"
#include "switch/ports/link_port.h"
#include "switch/ports/netdev.h"
#include "switch/runtime/commands.h"
#include "switch/runtime/placement.h"
#include "switch/runtime/senders.h"

namespace weft {
namespace {

using pipeline::PortIndex;
using std::chrono::milliseconds;

constexpr milliseconds kTick{10};
constexpr std::uint32_t kPoolCache = 512;  // buffers that a worker keeps to itself
// Packets that a device keeps for a worker that does not look: the descriptors of a physical one, unless it is told
// otherwise. Kernel interfaces and sockets keep fewer.
constexpr std::uint32_t kDevicePackets = 1024;
constexpr TimeNs kLinkPeriodNs = 200'000'000;
constexpr TimeNs kHousekeepingNs = 1'000'000'000;
constexpr std::uint32_t kLinkMessages = 6;
constexpr std::uint32_t kRoceMtu = 4200;  // a payload of 4096 bytes and every header that may come with it
constexpr TimeNs kLinkMessagesNs = 60'000'000'000;
constexpr milliseconds kDrainTime{1000};
constexpr std::chrono::seconds kStartTime{5};  // a worker's first loop, on a machine that has other things to do
constexpr milliseconds kFlushTime{100};
constexpr int kDropRounds = 10'000;

int run_worker(void* worker) {
  static_cast<Worker*>(worker)->run();
  return 0;
}

bool wants_aligned_payloads(const pipeline::Registry& registry, const std::vector<pipeline::SwitchInfo>& switches) {
  return std::ranges::any_of(switches, [&](const pipeline::SwitchInfo& info) {
    return std::ranges::any_of(info.pipeline, [&](const pipeline::StageSpec& stage) {
      const pipeline::StageType* type = registry.find(stage.name);
      return type != nullptr && type->payload_aligned;
    });
  });
}

bool any_brings_to_owners(const std::vector<std::vector<std::shared_ptr<ports::Port>>>& opened) {
  return std::ranges::any_of(opened, [](const auto& row) {
    return std::ranges::any_of(row, [](const auto& port) { return port != nullptr && port->brings_to_owners(); });
  });
}

}  // namespace

Runtime::Runtime(const pipeline::Registry& registry, config::Config config, std::string config_file, const Eal& eal,
                 std::string& error)
    : registry_(registry),
      config_(std::move(config)),
      config_file_(std::filesystem::absolute(config_file)),
      cpus_(eal.worker_cpus),
      hugepages_(eal.hugepages),
      rings_(static_cast<std::uint16_t>(eal.worker_lcores.size())),
      lcores_(eal.worker_lcores),
      started_(clock_.now()),
      link_log_(kLinkMessages, kLinkMessagesNs),
      commands_(std::make_unique<Commands>(*this)) {
  error = build(eal);
}

Runtime::~Runtime() {
  commands_.reset();
  if (running_) stop_workers();
}

std::string Runtime::build(const Eal& eal) {
  std::vector<int> nodes;
  for (const unsigned lcore : lcores_) nodes.push_back(static_cast<int>(rte_lcore_to_socket_id(lcore)));
  auto pools = pipeline::NodePools::make(
      "packets", config_.eal.mbufs, nodes,
      {config_.eal.mbuf_data_room_bytes, kPoolCache, wants_aligned_payloads(registry_, config_.switches)});
  if (!pools) return std::string("cannot allocate the packet buffers: ") + rte_strerror(rte_errno);
  pools_ = std::move(*pools);
  for (const int node : pools_.elsewhere()) {
    spdlog::warn("NUMA node {} has no memory for the packet buffers of its workers: they lie on another node", node);
  }
  for (std::size_t i = 0; i < eal.worker_lcores.size(); ++i) {
    workers_.push_back(
        std::make_unique<Worker>(static_cast<std::uint16_t>(i), clock_, config_.idle, config_.eal.burst, rings_));
  }
  OpenedPorts opened;
  if (auto error = open_ports(opened); !error.empty()) return error;
  steer_ = {config_.steer, any_brings_to_owners(opened)};
  connect_links(config_.switches, opened);
  std::vector<Switch*> all;
  for (std::size_t i = 0; i < config_.switches.size(); ++i) {
    std::vector<std::uint16_t> owners;
    for (const auto& port : config_.switches[i].ports) owners.push_back(default_owner(config_.switches[i], port.index));
    switches_.push_back(
        build_switch(config_.switches[i], config_.source, std::move(opened[i]), std::move(owners), nullptr));
  }
  for (Switch& s : switches_) all.push_back(&s);
  std::vector<Polling> polling = make_polling(all);
  for (std::size_t w = 0; w < workers_.size(); ++w) workers_[w]->set_polling(std::move(polling[w]));
  warn_of_small_mtus();
  supervise_links();
  for (Switch& s : switches_) {
    if (auto error = open_kernel(s, nullptr); !error.empty()) return error;
    if (s.kernel) s.kernel->attach(*s.state);
  }
  return "";
}

std::string Runtime::open_port(const pipeline::SwitchInfo& info, const pipeline::PortInfo& port,
                               std::shared_ptr<ports::Port>& opened) {
  const auto workers = static_cast<std::uint16_t>(workers_.size());
  const std::uint16_t owner = default_owner(info, port.index);
  std::vector<rte_mempool*> queue_pools;
  for (std::uint16_t q = 0; q < workers; ++q) queue_pools.push_back(pools_.of_worker((owner + q) % workers));
  const ports::PortEnvironment environment{pools_.of_worker(owner),
                                           workers,
                                           info.seed,
                                           info.qos ? &info.qos->ports[port.index] : nullptr,
                                           [this] { await_workers(); },
                                           std::move(queue_pools),
                                           config_.workers.per_port,
                                           owner};
  ports::OpenedPort result = ports::open_port(port, environment);
  if (!result.error.empty()) return config::at(port.mark) + "port " + info.name + "/" + port.name + ": " + result.error;
  opened = std::move(result.port);
  return "";
}

// All at once, so that the user gets the whole list of interfaces to make.
std::string Runtime::missing_interfaces() const {
  std::string error;
  for (const pipeline::SwitchInfo& info : config_.switches) {
    for (const pipeline::PortInfo& port : info.ports) {
      if (port.type != "veth") continue;
      const std::string& name = port.device["interface"].string();
      if (ports::Netdev(name).exists()) continue;
      const std::string of = "port " + info.name + "/" + port.name;
      if (error.empty()) {
        error = config::at(port.mark) + of + ": no network interface '" + name + "' in this network namespace";
      } else {
        error += ", nor '" + name + "' (" + of + ")";
      }
    }
  }
  return error;
}

std::string Runtime::open_ports(OpenedPorts& opened) {
  if (auto error = missing_interfaces(); !error.empty()) return error;
  for (const pipeline::SwitchInfo& info : config_.switches) {
    auto& row = opened.emplace_back(info.ports.size());
    for (const pipeline::PortInfo& port : info.ports) {
      if (port.type == "link") continue;
      if (auto error = open_port(info, port, row[port.index]); !error.empty()) return error;
    }
  }
  return "";
}

// Makes the cables between link ports that have none.
void Runtime::connect_links(const std::vector<pipeline::SwitchInfo>& infos, OpenedPorts& opened) {
  std::map<std::string, std::pair<std::size_t, PortIndex>> ends;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    for (const auto& port : infos[i].ports) ends[infos[i].name + "/" + port.name] = {i, port.index};
  }
  for (std::size_t i = 0; i < infos.size(); ++i) {
    for (const auto& port : infos[i].ports) {
      if (port.type != "link" || opened[i][port.index]) continue;
      const std::string here = infos[i].name + "/" + port.name;
      const std::string& there = port.device["peer"].string();
      const auto& [other, index] = ends.at(there);
      auto [first, second] = ports::LinkPort::make_pair(here, there);
      opened[i][port.index] = std::move(first);
      opened[other][index] = std::move(second);
    }
  }
}

std::uint16_t Runtime::default_owner(const pipeline::SwitchInfo& info, PortIndex port) const {
  return info.ports[port].worker.value_or(static_cast<std::uint16_t>((info.index + port) % workers_.size()));
}

Runtime::Switch Runtime::build_switch(pipeline::SwitchInfo info, const config::Value& file,
                                      std::vector<std::shared_ptr<ports::Port>> opened,
                                      std::vector<std::uint16_t> owners, const Switch* previous) {
  const auto workers = static_cast<std::uint16_t>(workers_.size());
  config::DeviceFacts facts{{}, workers, Worker::longest_absence(config_.idle), kDevicePackets};
  for (const auto& device : opened) facts.speeds_mbps.push_back(device->speed_mbps());
  if (config::set_device_facts(info, file, registry_, facts) != "") {
    // The file gives the packet memory a size: what is lossless then depends on workers that are never away for long.
    facts.away_ns = 0;
    facts.workers = 1;
    if (const auto error = config::set_device_facts(info, file, registry_, facts); !error.empty()) {
      spdlog::warn("{}: qos stays as it is for 100 Gbit/s, because at the speed of the devices: {}", info.name, error);
    } else {
      spdlog::info("{}: BUFFER_POOL size leaves no headroom for what arrives while a worker naps", info.name);
    }
  }
  for (pipeline::PortInfo& port : info.ports) {
    const ports::Port& device = *opened[port.index];
    if (port.mtu_bytes == 0) port.mtu_bytes = device.mtu_bytes();
    if (port.mac.is_zero()) port.mac = device.mac();
    if (port.mac.is_zero()) {
      port.mac = wire::MacAddress::from_u64(std::uint64_t{0x02} << 40 | std::uint64_t{0xfe} << 16 |
                                            std::uint64_t{info.index} << 8 | (port.index & 0xff));
    }
  }
  Switch made;
  made.id = ++switches_made_;
  made.ports = std::move(opened);
  made.state = std::make_unique<pipeline::SwitchState>(registry_, std::move(info), std::move(owners), workers, steer_,
                                                       previous ? previous->state.get() : nullptr);
  for (const pipeline::PortInfo& port : made.state->info().ports) {
    const std::uint16_t tx_queues = made.ports[port.index]->tx_queues();
    if (why_owner_sends(made.state->info(), port, tx_queues, workers).empty()) {
      made.state->set_tx_per_worker(port.index);
    }
  }
  for (std::uint16_t w = 0; w < workers; ++w) {
    pipeline::PipelineHost host;
    host.worker = w;
    host.pool = pools_.of_worker(w);
    host.buffers = pools_.size();
    host.handoff = workers > 1 ? workers_[w].get() : nullptr;
    host.seed = made.state->info().seed;
    host.clock = &time_;
    host.previous = previous != nullptr ? previous->pipelines[w].get() : nullptr;
    for (const pipeline::PortInfo& port : made.state->info().ports) {
      const bool sends = made.state->tx_per_worker(port.index) || made.state->owner_of_port(port.index) == w;
      host.ports.push_back(sends ? &made.ports[port.index]->tx(w) : nullptr);
    }
    made.pipelines.push_back(std::make_unique<pipeline::Pipeline>(*made.state, std::move(host)));
  }
  return made;
}

std::string Runtime::open_kernel(Switch& s, const Switch* previous) {
  const pipeline::SwitchInfo& info = s.state->info();
  if (!info.kernel) return "";
  std::string error;
  s.kernel = kernel::KernelSwitch::open(
      info, pools_.any(), [this] { return clock_.now(); }, previous != nullptr ? previous->kernel.get() : nullptr,
      error);
  if (!s.kernel) return config::at(info.kernel->mark) + "kernel: " + error;
  s.kernel->prepare(*s.state);
  return "";
}

std::vector<Polling> Runtime::make_polling(const std::vector<Switch*>& switches) const {
  std::vector<Polling> polling(workers_.size());
  for (Switch* s : switches) {
    for (std::size_t w = 0; w < polling.size(); ++w) polling[w].add(*s->pipelines[w]);
    for (const pipeline::PortInfo& port : s->state->info().ports) {
      ports::Port& device = *s->ports[port.index];
      const std::uint16_t owner = s->state->owner_of_port(port.index);
      const bool external = port.type != "link";
      for (std::uint16_t w = 0; w < polling.size(); ++w) {
        if (s->pipelines[w]->sends(port.index)) polling[w].serve(*s->pipelines[w], port.index);
      }
      for (std::uint16_t q = 0; q < device.rx_queues(); ++q) {
        const std::size_t w = (owner + q) % polling.size();
        polling[w].poll(*s->pipelines[w], device, port.index, q, external);
      }
    }
  }
  return polling;
}

void Runtime::start() {
  {
    const std::lock_guard reload_lock(reload_mutex_);
    reloads_ = true;
    // The control service may already ask.
    const std::lock_guard lock(running_mutex_);
    started_ = clock_.now();
    running_ = true;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      workers_[i]->about_to_run();
      rte_eal_remote_launch(run_worker, workers_[i].get(), lcores_[i]);
    }
  }
  const auto end = std::chrono::steady_clock::now() + kStartTime;
  for (const auto& worker : workers_) {
    while (worker->usage().loops == 0 && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  std::vector<std::uint64_t> loops;
  for (const auto& worker : workers_) loops.push_back(worker->usage().loops);
  for (const std::string& line : describe_not_begun(loops, cpus_, static_cast<unsigned>(kStartTime.count()))) {
    spdlog::error("{}", line);
  }
  {
    // Links that came up since they were opened.
    const std::shared_lock lock(switches_mutex_);
    supervise_links();
    for (Switch& s : switches_) s.state->announce_links();
  }
  const std::lock_guard reload_lock(reload_mutex_);
  say_placement();
}

// Who does what, which ports are far from the CPU that serves them, and through which ports not all workers send. A
// reload says only what is new.
void Runtime::say_placement() {
  std::vector<PlacedWorker> workers;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    workers.push_back({cpus_[w], static_cast<int>(rte_lcore_to_socket_id(lcores_[w]))});
  }
  std::vector<PlacedPort> ports;
  std::vector<std::string> others = describe_steering(steer_);
  const std::shared_lock lock(switches_mutex_);
  for (const Switch& s : switches_) {
    const pipeline::SwitchInfo& info = s.state->info();
    std::vector<std::uint16_t> tx_queues;
    for (const pipeline::PortInfo& port : info.ports) {
      const ports::Port& device = *s.ports[port.index];
      ports.push_back({info.name + "/" + port.name, s.state->owner_of_port(port.index), device.numa_node()});
      tx_queues.push_back(device.tx_queues());
    }
    std::ranges::copy(describe_senders(info, tx_queues, static_cast<std::uint16_t>(workers_.size())),
                      std::back_inserter(others));
  }
  std::vector<PlacementLine> lines = describe_placement(workers, ports);
  for (std::string& text : others) lines.push_back({false, std::move(text)});
  std::set<std::string> said;
  for (const PlacementLine& line : lines) {
    if (!said_.contains(line.text))
      spdlog::log(line.warning ? spdlog::level::warn : spdlog::level::info, "{}", line.text);
    said.insert(line.text);
  }
  said_ = std::move(said);
}

void Runtime::await_workers() const {
  Worker::await_bursts(workers_);
}

void Runtime::supervise_links() {
  const std::lock_guard lock(links_mutex_);
  for (Switch& s : switches_) {
    for (const pipeline::PortInfo& port : s.state->info().ports) supervise(s, port);
  }
}

void Runtime::supervise(Switch& s, const pipeline::PortInfo& port) {
  ports::Port& device = *s.ports[port.index];
  const std::string name = s.state->info().name + "/" + port.name;
  const auto say = [&](bool warning, const std::string& text) {
    const auto line = link_log_.admit(clock_.now(), name);
    if (line) spdlog::log(warning ? spdlog::level::warn : spdlog::level::info, "{}: {}{}", name, text, line->note());
  };
  const std::uint32_t mtu_before = device.mtu_bytes();
  for (const ports::PortNews& news : device.supervise()) say(news.warning, news.text);
  if (s.kernel) follow_kernel(s, port);
  if (device.mtu_bytes() != mtu_before) {
    s.state->set_mtu(port.index, device.mtu_bytes());
    if (s.kernel) s.kernel->set_mtu(port.index, device.mtu_bytes());
  }
  const bool up = device.is_up();
  if (up == s.state->link_up(port.index)) return;
  say(false, std::string("link ") + (up ? "up" : "down") + (device.is_shut() ? " (shut)" : ""));
  s.state->set_link(port.index, up);
}

// An operator who takes the kernel's interface of a port down, or changes its MTU, means the port itself.
void Runtime::follow_kernel(Switch& s, const pipeline::PortInfo& port) {
  const auto wishes = s.kernel->wishes(port.index);
  if (!wishes) return;
  ports::Port& device = *s.ports[port.index];
  // A device that has no link to take down is shut all the same: nothing is received from it or sent to it.
  static_cast<void>(device.shut(ports::ShutBy::kernel, !wishes->up));
  if (!wishes->mtu_bytes || *wishes->mtu_bytes == device.mtu_bytes()) return;
  const std::string error = device.set_mtu(port, *wishes->mtu_bytes);
  if (error.empty()) return;
  spdlog::warn("{}/{}: its interface in the kernel asks for an MTU of {}, but {}", s.state->info().name, port.name,
               *wishes->mtu_bytes, error);
  s.kernel->set_mtu(port.index, device.mtu_bytes());
}

// RoCE frames that a port cannot take vanish before weft sees them.
void Runtime::warn_of_small_mtus() const {
  for (const Switch& s : switches_) {
    const pipeline::SwitchInfo& info = s.state->info();
    const bool roce = std::any_of(info.pipeline.begin(), info.pipeline.end(),
                                  [](const pipeline::StageSpec& stage) { return stage.name == "rdma_track"; });
    std::string names;
    for (const pipeline::PortInfo& port : info.ports) {
      const bool real = port.type == "veth" || port.type == "tap" || port.type == "pci";
      if (real && port.mtu_bytes < kRoceMtu) {
        names += (names.empty() ? "" : ", ") + port.name + " (" + std::to_string(port.mtu_bytes) + ")";
      }
    }
    if (!roce || names.empty()) continue;
    spdlog::warn(
        "{}: RoCE with a path MTU of 4096 needs ports with an MTU of {}, and these have less: {}; set "
        "mtu_bytes: {}, and as much on the hosts, unless they use a smaller path MTU",
        info.name, kRoceMtu, names, kRoceMtu);
  }
}

bool Runtime::inputs_ended() const {
  for (const Switch& s : switches_) {
    for (const auto& port : s.ports) {
      if (!port->finite() || !port->exhausted()) return false;
    }
  }
  return true;
}

void Runtime::warn_of_endless_inputs() const {
  for (const Switch& s : switches_) {
    for (const pipeline::PortInfo& port : s.state->info().ports) {
      if (s.ports[port.index]->finite()) continue;
      spdlog::warn("{}/{}: the input has no end, so --exit-on-eof will not stop the process", s.state->info().name,
                   port.name);
    }
  }
}

void Runtime::for_each_worker(const std::function<void(Switch&, std::size_t)>& task) {
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    on_worker(w, [&] {
      for (Switch& s : switches_) task(s, w);
    });
  }
}

// Rings between workers and links between switches are inside, so ports of links do not count.
std::uint64_t Runtime::inside() const {
  const auto sum = [this](auto&& of_pipeline, auto&& of_external_port) {
    std::uint64_t total = 0;
    for (const Switch& s : switches_) {
      for (const auto& p : s.pipelines) {
        total += of_pipeline(p->totals());
        for (const pipeline::PortInfo& port : s.state->info().ports) {
          if (port.type != "link") total += of_external_port(p->port_totals(port.index));
        }
      }
    }
    return total;
  };
  using pipeline::FlowTotals;
  using pipeline::PortTotals;
  return count_inside(
      [&] {
        return retired_left_ +
               sum([](const FlowTotals& t) { return t.ended(); }, [](const PortTotals& t) { return t.tx.value(); });
      },
      [&] {
        return retired_came_ +
               sum([](const FlowTotals& t) { return t.made(); }, [](const PortTotals& t) { return t.rx.value(); });
      });
}

bool Runtime::ended_and_empty() {
  if (!inputs_ended()) return false;
  // A worker may hold packets that it has not counted yet. Once it has run a task, all earlier packets are counted.
  for_each_worker([](Switch&, std::size_t) {});
  return inside() == 0;
}

void Runtime::run(const Limits& limits) {
  TimeNs next_links = 0;
  TimeNs next_housekeeping = 0;
  if (limits.exit_on_eof) warn_of_endless_inputs();
  commands_->start_faults();
  while (!limits.stop->load()) {
    if (limits.reload != nullptr && limits.reload->exchange(false)) {
      if (limits.manager != nullptr) limits.manager->reloading();
      static_cast<void>(reload());
      if (limits.manager != nullptr) limits.manager->ready();
    }
    std::shared_lock lock(switches_mutex_);
    const TimeNs now = clock_.now();
    const auto duration = static_cast<TimeNs>(limits.duration.count()) * 1'000'000;
    if (duration != 0 && now - started_ >= duration) break;
    if (link_events_.any() || now >= next_links) {
      supervise_links();
      next_links = now + kLinkPeriodNs;
    }
    if (now >= next_housekeeping) {
      for (Switch& s : switches_) s.state->housekeeping(now);
      sample_rates(now);
      next_housekeeping = now + kHousekeepingNs;
    }
    if (limits.manager != nullptr && now >= limits.manager->next_tick()) limits.manager->tick(now, health());
    if (limits.exit_on_eof && ended_and_empty()) break;
    lock.unlock();
    commands_->expire();
    std::this_thread::sleep_for(kTick);
  }
  commands_->stop_faults();
  stopped_ = clock_.now();
  if (limits.manager != nullptr) limits.manager->stopping();
  drain();
}

void Runtime::drain() {
  {
    const std::lock_guard lock(reload_mutex_);
    reloads_ = false;
  }
  for (Switch& s : switches_) {
    if (s.kernel) s.kernel->stop();
  }
  for (auto& worker : workers_) worker->set_receiving(false);
  for_each_worker([](Switch&, std::size_t) {});
  const auto wait_until_empty = [&](milliseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (inside() != 0 && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(milliseconds(1));
  };
  wait_until_empty(kDrainTime);
  // What stages hold goes on, perhaps to a stage that holds it again.
  for (int round = 0; round < kFlushRounds && inside() != 0; ++round) {
    for_each_worker([&](Switch& s, std::size_t w) { s.pipelines[w]->flush_stages(clock_.now()); });
    wait_until_empty(kFlushTime);
  }
  stop_workers();
  drop_what_is_left();
  finish_outputs();
}

void Runtime::finish_outputs() {
  for (Switch& s : switches_) {
    for (const pipeline::PortInfo& port : s.state->info().ports) {
      const std::string error = s.ports[port.index]->finish();
      if (error.empty()) continue;
      outputs_complete_ = false;
      spdlog::error("{}/{}: {}", s.state->info().name, port.name, error);
    }
  }
}

void Runtime::stop_workers() {
  const std::lock_guard lock(running_mutex_);
  for (auto& worker : workers_) worker->stop();
  rte_eal_mp_wait_lcore();
  for (const auto& worker : workers_) worker->has_ended();
  running_ = false;
}

// Queues of busy devices, packets that a queue's rate or a link's delay keeps, and what was on its way between workers.
void Runtime::drop_what_is_left() {
  const TimeNs now = clock_.now();
  for (int round = 0; round < kDropRounds && inside() != 0; ++round) {
    for (auto& worker : workers_) worker->collect(now);
    for (Switch& s : switches_) {
      for (auto& p : s.pipelines) {
        p->flush_stages(now);
        p->drop_queued(now);
      }
    }
  }
}

std::vector<std::string> Runtime::switch_names() const {
  const std::shared_lock lock(switches_mutex_);
  std::vector<std::string> names;
  for (const Switch& s : switches_) names.push_back(s.state->info().name);
  return names;
}

}  // namespace weft
