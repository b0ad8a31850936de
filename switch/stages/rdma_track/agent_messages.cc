// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/rdma_track/agent_messages.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "switch/stages/rdma_track/order.h"

namespace weft::stages {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLargest24 = 0xffffff;
constexpr std::uint64_t kLeastQpn = 2;  // 0 and 1 are for management

// Reads the members of one object; the first mistake stays.
class ChangeReader {
 public:
  explicit ChangeReader(const json& object) : object_(object) {}

  std::string read(AgentChange& change) {
    if (!object_.is_object()) return "a change is no object";
    change.up = boolean("up");
    change.qp.local = address("local");
    change.qp.qpn = wire::Qpn(static_cast<std::uint32_t>(number("qpn", kLeastQpn, kLargest24)));
    if (change.up && error_.empty()) read_connection(change.qp);
    return error_;
  }

 private:
  void read_connection(AgentQp& qp) {
    qp.remote = address("remote");
    qp.remote_qpn = wire::Qpn(static_cast<std::uint32_t>(number("remote_qpn", kLeastQpn, kLargest24)));
    if (error_.empty() && qp.remote.is_v6() != qp.local.is_v6()) error_ = "local and remote differ in their family";
    if (const json* transport = find("transport")) {
      if (*transport == "uc") {
        qp.transport = tables::QpTransport::uc;
      } else if (*transport != "rc") {
        wrong("transport", "rc or uc");
      }
    }
    if (find("mtu") != nullptr) {
      qp.pmtu_code = pmtu_code(static_cast<std::uint32_t>(number("mtu", 256, 4096)));
      if (qp.pmtu_code == 0) wrong("mtu", "256, 512, 1024, 2048 or 4096");
    }
    qp.first_sent = psn("sq_psn");
    qp.first_due = psn("rq_psn");
    qp.process = name("process");
    qp.device = name("device");
    if (find("pid") != nullptr) qp.pid = static_cast<std::uint32_t>(number("pid", 0, 0xffffffff));
  }

  [[nodiscard]] const json* find(const char* key) const {
    const auto at = object_.find(key);
    return at == object_.end() ? nullptr : &*at;
  }
  void wrong(const char* key, const char* expected) {
    if (error_.empty()) error_ = std::string(key) + ": expected " + expected;
  }
  bool boolean(const char* key) {
    const json* value = find(key);
    if (value != nullptr && value->is_boolean()) return value->get<bool>();
    wrong(key, "true or false");
    return false;
  }
  std::uint64_t number(const char* key, std::uint64_t low, std::uint64_t high) {
    const json* value = find(key);
    if (value != nullptr && value->is_number_unsigned()) {
      const auto found = value->get<std::uint64_t>();
      if (found >= low && found <= high) return found;
    }
    wrong(key, ("a number from " + std::to_string(low) + " to " + std::to_string(high)).c_str());
    return low;
  }
  wire::IpAddress address(const char* key) {
    const json* value = find(key);
    if (value != nullptr && value->is_string()) {
      if (const auto found = wire::IpAddress::parse(value->get_ref<const std::string&>())) return *found;
    }
    wrong(key, "an IP address");
    return {};
  }
  std::optional<wire::Psn> psn(const char* key) {
    if (find(key) == nullptr) return std::nullopt;
    return wire::Psn(static_cast<std::uint32_t>(number(key, 0, kLargest24)));
  }
  // Names are shown on terminals: what could steer one does not get there.
  std::string name(const char* key) {
    const json* value = find(key);
    if (value == nullptr) return "";
    if (!value->is_string() || value->get_ref<const std::string&>().size() > kMaxAgentName) {
      wrong(key, "a text of at most 64 bytes");
      return "";
    }
    std::string text = value->get<std::string>();
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    return text;
  }

  const json& object_;
  std::string error_;
};

}  // namespace

std::string read_agent_changes(std::string_view text, std::vector<AgentChange>& changes) {
  const json list = json::parse(text, nullptr, false);
  if (!list.is_array()) return "expected a JSON list";
  if (list.size() > kMaxAgentChanges) return "more than " + std::to_string(kMaxAgentChanges) + " changes";
  for (const json& item : list) {
    AgentChange change;
    if (std::string error = ChangeReader(item).read(change); !error.empty()) return error;
    changes.push_back(std::move(change));
  }
  return "";
}

}  // namespace weft::stages
