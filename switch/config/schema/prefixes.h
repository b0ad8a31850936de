// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Lists of networks in a configuration, as Schema::list(Schema::prefix()) lets them pass.
#pragma once

#include <string_view>
#include <vector>

#include "switch/config/schema/document.h"
#include "switch/config/schema/schema.h"
#include "switch/wire/addresses.h"

namespace weft::config {

/// @param list  without mistakes
[[nodiscard]] std::vector<wire::IpPrefix> prefixes_of(const Value& list);

/// Reports a network that has host bits, such as 10.2.0.1/16, at its place. What is no prefix is not looked at: the
/// schema has refused it.
/// @param key  of the list, as the file spells it
void check_host_bits(std::string_view key, const Value& item, Diagnostics& diagnostics);

}  // namespace weft::config
