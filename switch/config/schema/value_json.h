// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "switch/config/schema/schema.h"

namespace weft::config {

/// A configuration value as JSON, keys in their order, without positions. Null stays null, also as a child: in a
/// pipeline, `lb:` without options is a stage.
[[nodiscard]] nlohmann::ordered_json to_json(const Value& value);

}  // namespace weft::config
