// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What `weft-inc top` makes of two answers of the manager.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "collectives/manager/inc.pb.h"

namespace weft::inc_tool {

/// A row for each group: group, ranks, collectives_per_s, mbytes_per_s (10^6 bytes of vectors, as the root adds them
/// up), collective, waits_for, still_s.
///
/// `waits_for` names the ranks whose packets switches wait for, with their hosts; where there are none the switches
/// that wait for other switches; switches that do not answer.
/// @param before  an earlier answer; rates are null of groups that were not there, and without one
[[nodiscard]] std::vector<nlohmann::ordered_json> activity_rows(const inc::v1::ShowActivityReply& now,
                                                                const inc::v1::ShowActivityReply* before);

}  // namespace weft::inc_tool
