// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/agent/state_text.h"

#include <nlohmann/json.hpp>

namespace weft::agent {
namespace {

using nlohmann::ordered_json;

constexpr int kForm = 1;  // another one is another program's

SavedQp from_json(const ordered_json& in) {
  SavedQp saved;
  HostQp& qp = saved.qp;
  // Everything that is not as it was written throws, and read_state() gives nothing.
  qp.local = wire::IpAddress::parse(in.at("local").get<std::string>()).value();
  qp.remote = wire::IpAddress::parse(in.at("remote").get<std::string>()).value();
  qp.qpn = in.at("qpn").get<std::uint32_t>();
  qp.remote_qpn = in.at("remote_qpn").get<std::uint32_t>();
  qp.transport = in.at("uc").get<bool>() ? Transport::uc : Transport::rc;
  qp.mtu = in.at("mtu").get<std::uint32_t>();
  qp.process = in.at("process").get<std::string>();
  qp.device = in.at("device").get<std::string>();
  qp.pid = in.at("pid").get<std::uint32_t>();
  saved.kernel = in.at("kernel").get<bool>();
  saved.started = in.at("started").get<std::string>();
  return saved;
}

}  // namespace

std::string state_text(const std::vector<SavedQp>& qps) {
  ordered_json list = ordered_json::array();
  for (const SavedQp& saved : qps) {
    const HostQp& qp = saved.qp;
    list.push_back({{"local", qp.local.to_string()},
                    {"qpn", qp.qpn},
                    {"remote", qp.remote.to_string()},
                    {"remote_qpn", qp.remote_qpn},
                    {"uc", qp.transport == Transport::uc},
                    {"mtu", qp.mtu},
                    {"process", qp.process},
                    {"device", qp.device},
                    {"pid", qp.pid},
                    {"kernel", saved.kernel},
                    {"started", saved.started}});
  }
  const ordered_json all{{"form", kForm}, {"qps", list}};
  return all.dump(-1, ' ', true, ordered_json::error_handler_t::replace) + "\n";
}

std::vector<SavedQp> read_state(const std::string& text) {
  try {
    const ordered_json all = ordered_json::parse(text);
    if (all.at("form").get<int>() != kForm) return {};
    std::vector<SavedQp> qps;
    for (const ordered_json& each : all.at("qps")) qps.push_back(from_json(each));
    return qps;
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace weft::agent
