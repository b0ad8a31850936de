// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/schema/prefixes.h"

#include <string>

namespace weft::config {

std::vector<wire::IpPrefix> prefixes_of(const Value& list) {
  std::vector<wire::IpPrefix> out;
  for (const Value& item : list.list()) out.push_back(*wire::IpPrefix::parse(item.string()));
  return out;
}

void check_host_bits(std::string_view key, const Value& item, Diagnostics& diagnostics) {
  const auto prefix = wire::IpPrefix::parse(item.string());
  if (!prefix || prefix->network() == *prefix) return;
  diagnostics.error(item.mark(), std::string(key) + ": expected " + prefix->network().to_string() + ", found " +
                                     prefix->to_string() + ", which has host bits");
}

}  // namespace weft::config
