// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/etcd_replies.h"

#include <charconv>

#include "collectives/manager/etcd.pb.h"

namespace weft::inc::manager {
namespace {

std::string not_answered(int has, int wanted) {
  return "etcd's reply has " + std::to_string(has) + " responses to " + std::to_string(wanted) +
         (wanted == 1 ? " question" : " questions");
}

}  // namespace

std::optional<std::string> etcd_version_mistake(const etcdserverpb::TxnResponse& reply, const std::string& prefix) {
  if (reply.responses_size() != 1) return not_answered(reply.responses_size(), 1);
  const auto& kvs = reply.responses(0).response_range().kvs();
  if (!kvs.empty() && kvs[0].value() == kEtcdVersion) return std::nullopt;
  return prefix + " in etcd was written by a newer version";
}

std::optional<std::string> read_etcd_content(const etcdserverpb::TxnResponse& reply, const std::string& prefix,
                                             Store::Content& content) {
  content = {};
  if (reply.responses_size() != 3) return not_answered(reply.responses_size(), 3);
  const auto& generation = reply.responses(0).response_range().kvs();
  if (!generation.empty()) {
    const std::string& digits = generation[0].value();
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), content.last_generation);
    if (read.ec != std::errc{} || read.ptr != digits.data() + digits.size()) {
      return prefix + "/generation in etcd is no number: " + digits;
    }
  }
  const auto& links = reply.responses(1).response_range().kvs();
  if (!links.empty()) content.links = links[0].value();
  for (const auto& kv : reply.responses(2).response_range().kvs()) content.records.push_back(kv.value());
  return std::nullopt;
}

}  // namespace weft::inc::manager
