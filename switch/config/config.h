// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The configuration of a switch process, and its loader: YAML text in, values that are known to make sense out.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "switch/config/schema/schema.h"
#include "switch/config/tls_files.h"
#include "switch/pipeline/registry.h"
#include "switch/pipeline/steer.h"
#include "switch/pipeline/switch_info.h"

namespace weft::config {

/// Whether packet memory comes from hugepages.
enum class Hugepages : std::uint8_t {
  auto_,  ///< when the machine has free ones
  on,
  off,
};

/// How many workers there are, and where. Whether the CPUs exist is found out at start.
struct WorkersConfig {
  std::vector<std::uint32_t> cores{};       ///< CPU ids, of which each worker gets one; empty: chosen at start
  std::string cores_key = "workers.cores";  ///< the key that named them: there are two
  std::optional<std::uint16_t> count{};     ///< nullopt: as many as cores, or one
  std::optional<int> numa{};                ///< node on which all of them are
  std::optional<std::uint16_t> per_port{};  ///< workers that poll a port of several queues; nullopt: all
  Mark mark{};

  [[nodiscard]] std::uint16_t number() const noexcept {
    return count.value_or(static_cast<std::uint16_t>(cores.empty() ? 1 : cores.size()));
  }
};

/// What DPDK's environment is started with. Whether the memory exists is found out at start.
struct EalConfig {
  Hugepages hugepages = Hugepages::auto_;
  std::optional<std::uint32_t> memory_mb;  ///< nullopt: chosen from the packet buffers
  std::uint32_t mbufs = 16384;
  std::uint16_t mbuf_data_room_bytes = 8320;  ///< per buffer, 128 bytes of headroom included
  std::uint16_t burst = 32;                   ///< packets per burst, 1 to 64
  std::vector<std::string> extra_args;        ///< handed to the environment as they are
  Mark mark{};
};

/// What a worker does when it has nothing to do.
enum class IdleMode : std::uint8_t {
  poll,      ///< asks its ports again at once
  sleep,     ///< sleeps until its next deadline, at most a millisecond
  adaptive,  ///< polls for a while, then sleeps
};

/// Where the control service listens to clients on other machines, who must show a certificate.
struct ControlTcp {
  std::string address;
  std::uint16_t port = 9796;  ///< 0: a free one
  TlsFiles files;
  /// Names in certificates of clients that may do everything, others being agents on hosts; nullopt: all clients may.
  std::optional<std::vector<std::string>> operators{};
};

struct ControlConfig {
  std::string socket = "/run/weft/weft.sock";  ///< path of the unix socket; "": none
  std::optional<ControlTcp> tcp;
};

/// Where counters are given to Prometheus.
struct MetricsConfig {
  std::string address = "127.0.0.1";
  std::uint16_t port = 9795;  ///< 0: a free one
};

enum class LogLevel : std::uint8_t { trace, debug, info, warning, error };

struct LogConfig {
  LogLevel level = LogLevel::info;
};

/// A configuration file, checked.
struct Config {
  WorkersConfig workers;
  EalConfig eal;
  IdleMode idle = IdleMode::adaptive;
  pipeline::SteerMode steer = pipeline::SteerMode::ip_pair;
  ControlConfig control;
  std::optional<MetricsConfig> metrics;
  LogConfig log;
  std::vector<pipeline::SwitchInfo> switches;  ///< at least one; `index` is the position
  Value source{};                              ///< all of the file, validated, defaults filled in
};

/// Reads and checks a configuration. On nullopt `diagnostics` holds every mistake that was found; otherwise it holds
/// none, and perhaps notes.
/// @param text  YAML
/// @param file  how messages call the text
[[nodiscard]] std::optional<Config> load_config(std::string_view text, const std::string& file,
                                                const pipeline::Registry& registry, Diagnostics& diagnostics);

/// The same from a file. A file that cannot be read is one of the mistakes.
[[nodiscard]] std::optional<Config> load_config_file(const std::string& path, const pipeline::Registry& registry,
                                                     Diagnostics& diagnostics);

/// Reads and checks one item of `switches`. Peers of link ports are not looked for.
[[nodiscard]] std::optional<pipeline::SwitchInfo> load_switch(std::string_view text, const pipeline::Registry& registry,
                                                              Diagnostics& diagnostics);

/// The mistakes and notes as a user should see them: one per line, and how many mistakes there were.
[[nodiscard]] std::string format(const Diagnostics& diagnostics);

/// What a configuration file may hold, as JSON Schema (draft 2020-12) for editors and other tools. It knows the shape;
/// what refers to something else in the file only the loader checks.
[[nodiscard]] nlohmann::json config_json_schema(const pipeline::Registry& registry);

}  // namespace weft::config
