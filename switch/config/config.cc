// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/config.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <tuple>

#include "switch/base/worker_set.h"
#include "switch/config/config_schema.h"
#include "switch/config/schema/validate.h"
#include "switch/config/switch_builder.h"
#include "switch/config/yaml_reader.h"
#include "switch/pipeline/under_way.h"

namespace weft::config {
namespace {

using pipeline::Registry;

constexpr std::int64_t kHeadroomBytes = 128;
constexpr std::int64_t kVethRoomBytes = 8160;
// What a buffer takes beside its data room: struct rte_mbuf, the private area, and the pool's own header.
constexpr std::int64_t kBufferOverheadBytes = 128 + 64 + 64;

const Schema& whole_file() {
  static const Schema kSchema = config_schema();
  return kSchema;
}
const Schema& one_switch() {
  static const Schema kSchema = switch_schema();
  return kSchema;
}

// Position of a process-wide key, or of what holds it when it is a default.
const Mark& eal_mark(const Value& root, const char* key) {
  const Value& eal = root["eal"];
  if (eal[key].mark().line > 0) return eal[key].mark();
  return eal.mark().line > 0 ? eal.mark() : root.mark();
}

std::vector<std::uint32_t> read_cores(const Value& list, const std::string& key, Diagnostics& diagnostics) {
  std::vector<std::uint32_t> cores;
  std::set<std::int64_t> seen;
  for (const auto& cpu : list.list_or_empty()) {
    if (cpu.is_null()) continue;
    if (cores.size() == WorkerSet::kMost) {
      diagnostics.error(cpu.mark(), key + ": more than " + std::to_string(WorkerSet::kMost));
      break;
    }
    if (!seen.insert(cpu.integer()).second) {
      diagnostics.error(cpu.mark(), key + ": CPU " + std::to_string(cpu.integer()) + " stands twice");
    }
    cores.push_back(static_cast<std::uint32_t>(cpu.integer()));
  }
  return cores;
}

WorkersConfig read_workers(const Value& root, Diagnostics& diagnostics) {
  const Value& workers = root["workers"];
  const Value& of_eal = root["eal"]["workers"];
  WorkersConfig out;
  out.mark = of_eal.is_null() ? workers.mark() : of_eal.mark();
  if (!of_eal.is_null()) {
    out.cores = read_cores(of_eal, "workers", diagnostics);
    out.cores_key = "eal.workers";
  }
  if (workers.is_null()) return out;
  if (const Value& cores = workers["cores"]; !cores.is_null()) {
    if (!of_eal.is_null()) diagnostics.error(cores.mark(), "cores: eal.workers names CPUs, too; one of both is enough");
    out.cores = read_cores(cores, "cores", diagnostics);
    out.cores_key = "workers.cores";
  }
  if (const Value& numa = workers["numa"]; !numa.is_null()) out.numa = static_cast<int>(numa.integer());
  if (const Value& count = workers["count"]; !count.is_null()) {
    out.count = static_cast<std::uint16_t>(count.integer());
    if (!out.cores.empty() && *out.count > out.cores.size()) {
      diagnostics.error(count.mark(), "count: more workers (" + std::to_string(*out.count) + ") than CPUs in " +
                                          out.cores_key + " (" + std::to_string(out.cores.size()) + ")");
      out.count.reset();
    }
  }
  if (const Value& per_port = workers["per_port"]; !per_port.is_null()) {
    out.per_port = static_cast<std::uint16_t>(per_port.integer());
    if (*out.per_port > out.number()) {
      diagnostics.error(per_port.mark(), "per_port: more (" + std::to_string(*out.per_port) +
                                             ") than there are workers (" + std::to_string(out.number()) + ")");
    }
  }
  return out;
}

EalConfig read_eal(const Value& eal, Diagnostics& diagnostics) {
  EalConfig out;
  out.mark = eal.mark();
  const std::string& hugepages = eal["hugepages"].string();
  if (hugepages != "auto") out.hugepages = hugepages == "on" ? Hugepages::on : Hugepages::off;
  out.mbufs = static_cast<std::uint32_t>(eal["mbufs"].integer());
  out.mbuf_data_room_bytes = static_cast<std::uint16_t>(eal["mbuf_data_room_bytes"].integer());
  out.burst = static_cast<std::uint16_t>(eal["burst"].integer());
  for (const auto& argument : eal["extra_args"].list_or_empty()) {
    if (!argument.is_null()) out.extra_args.push_back(argument.string());
  }
  const Value& memory = eal["memory_mb"];
  if (memory.is_null()) return out;
  out.memory_mb = static_cast<std::uint32_t>(memory.integer());
  const std::int64_t needed = out.mbufs * (out.mbuf_data_room_bytes + kBufferOverheadBytes) / (1 << 20) + 1;
  if (memory.integer() < needed) {
    diagnostics.error(memory.mark(), "memory_mb: " + std::to_string(out.mbufs) + " buffers of " +
                                         std::to_string(out.mbuf_data_room_bytes) + " bytes need " +
                                         std::to_string(needed) + ", found " + std::to_string(memory.integer()));
  }
  return out;
}

// A generated frame lies in one buffer.
void check_generator_room(const pipeline::PortInfo& port, const EalConfig& eal, Diagnostics& diagnostics) {
  const Value& payload = port.device["payload_bytes"];
  const std::int64_t needed = payload.integer() + kRoceOverheadBytes + 14 + kHeadroomBytes;
  if (needed <= eal.mbuf_data_room_bytes) return;
  diagnostics.error(payload.mark().line > 0 ? payload.mark() : port.mark,
                    "payload_bytes: generated frames need an mbuf_data_room_bytes of at least " +
                        std::to_string(needed) + ", found " + std::to_string(eal.mbuf_data_room_bytes));
}

// What ports and packet buffers ask of each other.
constexpr std::uint64_t kUsualFrameBytes = 1518;

// A lossless buffer is none when packets cannot be received for want of buffers to put them in.
void check_shared_buffers(const Config& config, Diagnostics& diagnostics) {
  for (const auto& sw : config.switches) {
    if (!sw.qos) continue;
    // What a device's own MTU is, is not known before it is opened.
    std::uint64_t largest = kUsualFrameBytes;
    for (const auto& port : sw.ports) largest = std::max<std::uint64_t>(largest, port.max_frame_bytes());
    if (sw.qos->pool_bytes / largest <= config.eal.mbufs) continue;
    diagnostics.note(sw.mark, "qos: a shared buffer of " + std::to_string(sw.qos->pool_bytes) +
                                  " bytes holds more than " + std::to_string(config.eal.mbufs) +
                                  " packets (mbufs), even of " + std::to_string(largest) + " bytes");
  }
}

std::uint64_t megabytes(std::uint64_t buffers, const EalConfig& eal) {
  return buffers * static_cast<std::uint64_t>(eal.mbuf_data_room_bytes + kBufferOverheadBytes) / 1'000'000;
}

// Packets on an emulated link lie in packet buffers, as long as its delay is. Of a port without `rate_mbps` nothing can
// be said: it is as fast as its device.
void check_links_under_way(const Config& config, const Value& root, Diagnostics& diagnostics) {
  // Links that take less are not worth a line.
  const std::uint64_t worth = config.eal.mbufs / 16;
  const auto room = static_cast<std::uint64_t>(config.eal.mbuf_data_room_bytes - kHeadroomBytes);
  std::uint64_t all = 0;
  for (const auto& sw : config.switches) {
    for (const auto& port : sw.ports) {
      if (port.rate_mbps == 0 || port.delay_ns == 0) continue;
      const std::uint64_t largest = port.mtu_bytes != 0 ? port.max_frame_bytes() : kUsualFrameBytes;
      const auto under_way = [&](std::uint64_t bytes) {
        return pipeline::frames_under_way(port.rate_mbps, port.delay_ns, port.framing,
                                          static_cast<std::uint32_t>(bytes));
      };
      const std::uint64_t packets = std::min(under_way(largest), pipeline::kMostUnderWay);
      const std::uint64_t buffers = packets * ((largest + room - 1) / room);
      all += buffers;
      if (buffers < worth && under_way(0) <= pipeline::kMostUnderWay) continue;
      std::string text = "port '" + port.name + "': " + std::to_string(port.rate_mbps) + " Mbit/s with a delay of " +
                         std::to_string(port.delay_ns) + " ns keep " + std::to_string(packets) + " packets of " +
                         std::to_string(largest) + " bytes under way: " + std::to_string(buffers) + " mbufs, " +
                         std::to_string(megabytes(buffers, config.eal)) + " MB";
      if (under_way(0) > pipeline::kMostUnderWay) {
        text += "; of the " + std::to_string(under_way(0)) + " smallest ones it takes " +
                std::to_string(pipeline::kMostUnderWay) + ", and is slower than its rate";
      }
      diagnostics.note(port.mark, text);
    }
  }
  if (all < config.eal.mbufs) return;
  diagnostics.note(eal_mark(root, "mbufs"),
                   "mbufs: emulated links keep " + std::to_string(all) + " packet buffers (" +
                       std::to_string(megabytes(all, config.eal)) + " MB) under way at their rates, found " +
                       std::to_string(config.eal.mbufs) + ": what arrives when these are used up is lost");
}

void check_workers(const Config& config, Diagnostics& diagnostics) {
  const std::size_t workers = config.workers.number();
  const std::string said = config.workers.count           ? "workers.count is "
                           : config.workers.cores.empty() ? "eal.workers has "
                                                          : config.workers.cores_key + " has ";
  for (const auto& sw : config.switches) {
    for (const auto& port : sw.ports) {
      if (!port.worker || *port.worker < workers) continue;
      diagnostics.error(port.mark, "port '" + port.name + "': " + said + std::to_string(workers) +
                                       ", numbered from 0, found worker " + std::to_string(*port.worker));
    }
  }
}

void check_buffers(const Config& config, const Value& root, Diagnostics& diagnostics) {
  const Mark& room_mark = eal_mark(root, "mbuf_data_room_bytes");
  const std::int64_t room = config.eal.mbuf_data_room_bytes - kHeadroomBytes;
  const std::int64_t queues = config.workers.per_port.value_or(config.workers.number());
  std::int64_t descriptors = 0;
  std::uint32_t largest = 0;
  bool veth = false;
  for (const auto& sw : config.switches) {
    for (const auto& port : sw.ports) {
      if (port.type == "generator") check_generator_room(port, config.eal, diagnostics);
      veth = veth || port.type == "veth";
      if (port.mtu_bytes != 0) largest = std::max(largest, port.max_frame_bytes());
      if (port.type == "pci") descriptors += port.device["rx_descriptors"].integer() * queues;
    }
  }
  if (veth && room < kVethRoomBytes) {
    diagnostics.error(room_mark, "mbuf_data_room_bytes: veth ports need at least " +
                                     std::to_string(kVethRoomBytes + kHeadroomBytes) + ", found " +
                                     std::to_string(config.eal.mbuf_data_room_bytes));
  } else if (largest > room) {
    diagnostics.note(room_mark, "mbuf_data_room_bytes: frames of " + std::to_string(largest) +
                                    " bytes take more than one buffer of " +
                                    std::to_string(config.eal.mbuf_data_room_bytes));
  }
  if (descriptors >= config.eal.mbufs) {
    diagnostics.error(eal_mark(root, "mbufs"), "mbufs: the receive queues of the pci ports take " +
                                                   std::to_string(descriptors) + ", found " +
                                                   std::to_string(config.eal.mbufs));
  }
}

// Whether the files are complete can be said here, and should be, before a restart ends in an error.
void read_control_tcp(ControlConfig& control, const Value& tcp, Diagnostics& diagnostics) {
  if (!tcp.is_map()) return;
  static constexpr std::array kKeys{"certificate", "key", "client_ca", "address"};
  if (std::any_of(kKeys.begin(), kKeys.end(), [&](const char* key) { return !tcp[key].is_string(); })) return;
  control.tcp = {tcp["address"].string(),
                 static_cast<std::uint16_t>(tcp["port"].integer()),
                 {tcp["certificate"].string(), tcp["key"].string(), tcp["client_ca"].string()}};
  if (tcp.has("operators")) {
    auto& names = control.tcp->operators.emplace();
    for (const Value& name : tcp["operators"].list_or_empty()) names.push_back(name.string());
  }
  TlsTexts texts;
  for (const auto& mistake : read_tls_files(control.tcp->files, texts)) {
    const char* key = kKeys[static_cast<std::size_t>(mistake.file)];
    diagnostics.error(tcp[key].mark(), std::string(key) + ": " + mistake.text);
  }
}

void read_process(Config& config, const Value& root, Diagnostics& diagnostics) {
  const std::string& idle = root["idle"].string();
  if (idle != "adaptive") config.idle = idle == "poll" ? IdleMode::poll : IdleMode::sleep;
  if (root["steer"].string() == "qp") config.steer = pipeline::SteerMode::qp;
  config.control.socket = root["control"]["socket"].string();
  read_control_tcp(config.control, root["control"]["tcp"], diagnostics);
  if (const Value& metrics = root["metrics"]; metrics.is_map()) {
    config.metrics = {metrics["address"].string(), static_cast<std::uint16_t>(metrics["port"].integer())};
  }
  static constexpr std::pair<std::string_view, LogLevel> kLevels[] = {{"trace", LogLevel::trace},
                                                                      {"debug", LogLevel::debug},
                                                                      {"info", LogLevel::info},
                                                                      {"warning", LogLevel::warning},
                                                                      {"error", LogLevel::error}};
  for (const auto& [word, level] : kLevels) {
    if (root["log"]["level"].string() == word) config.log.level = level;
  }
}

void read_switches(Config& config, const Value& root, const Registry& registry, Diagnostics& diagnostics) {
  const auto& switches = root["switches"].list_or_empty();
  for (std::size_t i = 0; i < switches.size(); ++i) {
    if (switches[i].is_null()) continue;
    if (i >= kMaxSwitches) {
      diagnostics.error(switches[i].mark(), "switches: more than " + std::to_string(kMaxSwitches));
      break;
    }
    config.switches.push_back(build_switch(switches[i], i, registry, diagnostics));
  }
  check_switch_names(switches, diagnostics);
  check_devices(switches, root["control"], diagnostics);
  check_kernel_interfaces(switches, diagnostics);
  check_links(switches, diagnostics);
}

}  // namespace

std::optional<Config> load_config(std::string_view text, const std::string& file, const Registry& registry,
                                  Diagnostics& diagnostics) {
  const auto document = read_yaml(text, file, diagnostics);
  if (!document) return std::nullopt;
  const Value root = validate(whole_file(), *document, "", &registry, diagnostics);
  if (root.is_null()) return std::nullopt;
  Config config;
  config.source = root;
  config.workers = read_workers(root, diagnostics);
  config.eal = read_eal(root["eal"], diagnostics);
  read_process(config, root, diagnostics);
  read_switches(config, root, registry, diagnostics);
  check_buffers(config, root, diagnostics);
  check_workers(config, diagnostics);
  check_shared_buffers(config, diagnostics);
  check_links_under_way(config, root, diagnostics);
  if (!diagnostics.ok()) return std::nullopt;
  return config;
}

std::optional<Config> load_config_file(const std::string& path, const Registry& registry, Diagnostics& diagnostics) {
  std::ifstream stream(path, std::ios::binary);
  // One byte more than is allowed tells a file that is too large from one that just fits.
  std::string text(kMaxYamlBytes + 1, '\0');
  if (stream) stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream && !stream.eof()) {
    diagnostics.error({path, 0, 0}, std::string("cannot be read: ") + std::strerror(errno));
    return std::nullopt;
  }
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return load_config(text, path, registry, diagnostics);
}

std::optional<pipeline::SwitchInfo> load_switch(std::string_view text, const Registry& registry,
                                                Diagnostics& diagnostics) {
  const auto document = read_yaml(text, "switch", diagnostics);
  if (!document) return std::nullopt;
  const std::vector<Value> switches{validate(one_switch(), *document, "", &registry, diagnostics)};
  if (switches[0].is_null()) return std::nullopt;
  auto info = build_switch(switches[0], 0, registry, diagnostics);
  check_devices(switches, Value(), diagnostics);
  if (!diagnostics.ok()) return std::nullopt;
  return info;
}

std::string format(const Diagnostics& diagnostics) {
  std::string out = diagnostics.to_string();
  // to_string() names each mistake once.
  std::set<std::tuple<int, int, std::string>> distinct;
  for (const auto& e : diagnostics.entries()) distinct.emplace(e.mark.line, e.mark.column, e.text);
  const std::size_t mistakes = distinct.size();
  if (mistakes > 0) out += std::to_string(mistakes) + (mistakes == 1 ? " mistake\n" : " mistakes\n");
  return out;
}

}  // namespace weft::config
