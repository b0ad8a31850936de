// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/schema/value_json.h"

#include <nlohmann/json.hpp>
#include <type_traits>

namespace weft::config {

using nlohmann::ordered_json;

ordered_json to_json(const Value& value) {
  return value.visit([](const auto& v) -> ordered_json {
    using T = std::decay_t<decltype(v)>;
    if constexpr (std::is_same_v<T, std::monostate>) {
      return nullptr;
    } else if constexpr (std::is_same_v<T, Value::List>) {
      ordered_json list = ordered_json::array();
      for (const Value& item : v) list.push_back(to_json(item));
      return list;
    } else if constexpr (std::is_same_v<T, Value::Map>) {
      ordered_json map = ordered_json::object();
      for (const auto& [key, child] : v) map[key] = to_json(child);
      return map;
    } else {
      return v;
    }
  });
}

}  // namespace weft::config
