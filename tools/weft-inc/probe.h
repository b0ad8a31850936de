// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Do packets pass between this host's RNIC and its switch: a queue pair sends to an end of a group, which answers for
// itself. The group has one more host, which is not spoken to.
#pragma once

#include <string>
#include <variant>

#include "collectives/comm/transport.h"
#include "collectives/manager/client.h"
#include "tools/weft-inc/findings.h"

namespace weft::inc_tool {

struct ProbePlan {
  std::string switch_name;          ///< that this host is connected with
  std::vector<std::string> others;  ///< addresses of other hosts, the best ones first
};

/// Makes a group, sends, and ends the group again. Takes some seconds where nothing is answered.
/// @return what became of it, or why it could not be tried, in words
[[nodiscard]] std::variant<IcrcFacts, std::string> probe_icrc(inc::comm::RunningTransport& transport,
                                                              inc::manager::Client& client, const ProbePlan& plan);

}  // namespace weft::inc_tool
