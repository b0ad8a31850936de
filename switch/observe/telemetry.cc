// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/observe/telemetry.h"

#include <rte_telemetry.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "switch/pipeline/dpdk_compat.h"

namespace weft {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMaxRows = 100'000;
constexpr int kRefused = -1;

// DPDK's callbacks carry no context of ours.
std::mutex mutex;
api::Backend* source = nullptr;

// What a command is asked about: "tor1" or "tor1/port".
struct Subject {
  std::string switch_name;
  std::string part;
};

std::optional<Subject> subject_of(const char* parameters, const api::Backend& backend) {
  const std::string text = parameters == nullptr ? "" : parameters;
  const auto slash = text.find('/');
  Subject subject{text.substr(0, slash), slash == std::string::npos ? "" : text.substr(slash + 1)};
  const auto names = backend.switch_names();
  if (std::find(names.begin(), names.end(), subject.switch_name) == names.end()) return std::nullopt;
  return subject;
}

// Calls `answer` with the rows of a table of the switch that the parameters name.
template <typename Answer>
int with_rows(const char* table, const char* parameters, Answer&& answer) {
  const std::lock_guard lock(mutex);
  if (source == nullptr) return kRefused;
  const auto subject = subject_of(parameters, *source);
  if (!subject) return kRefused;
  const api::ShowResult result = source->show_uncleared(table, subject->switch_name, kMaxRows);
  return result.error.empty() ? answer(result.rows, subject->part) : kRefused;
}

// Adds what is a number, a text or a truth value; DPDK ignores what exceeds its limits.
void add_value(rte_tel_data* data, const std::string& name, const ordered_json& value) {
  if (value.is_string()) {
    rte_tel_data_add_dict_string(data, name.c_str(), value.get<std::string>().c_str());
  } else if (value.is_boolean()) {
    pipeline::add_telemetry_number(data, name.c_str(), value.get<bool>() ? 1 : 0);
  } else if (value.is_number()) {
    pipeline::add_telemetry_number(data, name.c_str(), value.get<std::uint64_t>());
  }
}

void add_row(rte_tel_data* data, const ordered_json& row) {
  rte_tel_data_start_dict(data);
  for (const auto& [key, value] : row.items()) add_value(data, key, value);
}

void add_named_row(rte_tel_data* data, const std::string& name, const ordered_json& row) {
  rte_tel_data* part = rte_tel_data_alloc();
  if (part == nullptr) return;
  add_row(part, row);
  if (rte_tel_data_add_dict_container(data, name.c_str(), part, 0) != 0) rte_tel_data_free(part);
}

int switches(const char*, const char*, rte_tel_data* data) {
  const std::lock_guard lock(mutex);
  if (source == nullptr) return kRefused;
  rte_tel_data_start_array(data, RTE_TEL_STRING_VAL);
  for (const auto& name : source->switch_names()) rte_tel_data_add_array_string(data, name.c_str());
  return 0;
}

int ports(const char*, const char* parameters, rte_tel_data* data) {
  return with_rows("ports", parameters, [data](const ordered_json& rows, const std::string&) {
    rte_tel_data_start_array(data, RTE_TEL_STRING_VAL);
    for (const auto& row : rows) rte_tel_data_add_array_string(data, row["port"].get<std::string>().c_str());
    return 0;
  });
}

int port(const char*, const char* parameters, rte_tel_data* data) {
  return with_rows("ports", parameters, [data](const ordered_json& rows, const std::string& name) {
    for (const auto& row : rows) {
      if (row["port"] != name) continue;
      add_row(data, row);
      return 0;
    }
    return kRefused;
  });
}

int drops(const char*, const char* parameters, rte_tel_data* data) {
  return with_rows("drops", parameters, [data](const ordered_json& rows, const std::string&) {
    rte_tel_data_start_dict(data);
    for (const auto& row : rows) add_value(data, row["reason"].get<std::string>(), row["packets"]);
    return 0;
  });
}

int stages(const char*, const char* parameters, rte_tel_data* data) {
  return with_rows("stages", parameters, [data](const ordered_json& rows, const std::string&) {
    rte_tel_data_start_dict(data);
    for (const auto& row : rows) {
      const auto name = row["stage"].get<std::string>() + "_" + row["half"].get<std::string>();
      add_named_row(data, name, {{"packets", row["packets"]}, {"bursts", row["bursts"]}, {"cycles", row["cycles"]}});
    }
    return 0;
  });
}

int counters(const char*, const char* parameters, rte_tel_data* data) {
  return with_rows("counters", parameters, [data](const ordered_json& rows, const std::string& stage) {
    bool found = false;
    rte_tel_data_start_dict(data);
    for (const auto& row : rows) {
      if (row["stage"] != stage) continue;
      add_value(data, row["counter"].get<std::string>(), row["value"]);
      found = true;
    }
    return found ? 0 : kRefused;
  });
}

int totals(const char*, const char* parameters, rte_tel_data* data) {
  return with_rows("totals", parameters, [data](const ordered_json& rows, const std::string&) {
    add_row(data, rows.at(0));
    return 0;
  });
}

int workers(const char*, const char*, rte_tel_data* data) {
  const std::lock_guard lock(mutex);
  if (source == nullptr) return kRefused;
  rte_tel_data_start_dict(data);
  for (const auto& row : source->show_uncleared("workers", "", kMaxRows).rows) {
    add_named_row(data, std::to_string(row["worker"].get<unsigned>()), row);
  }
  return 0;
}

void register_commands() {
  rte_telemetry_register_cmd("/weft/switches", switches, "Names of the switches. Takes no parameters");
  rte_telemetry_register_cmd("/weft/ports", ports, "Names of the ports. Parameters: SWITCH");
  rte_telemetry_register_cmd("/weft/port", port, "Counters of a port. Parameters: SWITCH/PORT");
  rte_telemetry_register_cmd("/weft/drops", drops, "Dropped packets by reason. Parameters: SWITCH");
  rte_telemetry_register_cmd("/weft/stages", stages, "Packets and cycles of the stages. Parameters: SWITCH");
  rte_telemetry_register_cmd("/weft/counters", counters, "Counters of a stage. Parameters: SWITCH/STAGE");
  rte_telemetry_register_cmd("/weft/totals", totals, "Where packets came from and went. Parameters: SWITCH");
  rte_telemetry_register_cmd("/weft/workers", workers, "What the workers do. Takes no parameters");
}

}  // namespace

Telemetry::Telemetry(api::Backend& backend) {
  static const bool registered = (register_commands(), true);
  static_cast<void>(registered);
  const std::lock_guard lock(mutex);
  source = &backend;
}

Telemetry::~Telemetry() {
  const std::lock_guard lock(mutex);
  source = nullptr;
}

}  // namespace weft
