// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Trees of groups on the fabric, as a picture (SVG) and a table of the groups that have none.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/flow/cluster.h"
#include "tools/flow/experiment.h"

namespace weft::flow {

/// Groups at the moment of Cluster::snapshot(): `at_s`, and of each group `job` (its number), `kind`, `gpus`, and
/// `root` and `links` of its tree, or `reason` and the place `at` which it has none.
[[nodiscard]] nlohmann::ordered_json trees_of(const Cluster& cluster);

/// A part of a page: cores above spines above leaves above the GPUs of each leaf, with a colour for each job.
/// @param trees   as trees_of() makes it
/// @param fabric  of the experiment: its section `fabric`, with defaults filled in
/// @param jobs    of the report: names by number
[[nodiscard]] std::string picture_of(const nlohmann::ordered_json& trees, const nlohmann::ordered_json& fabric,
                                     const nlohmann::ordered_json& jobs);

}  // namespace weft::flow
