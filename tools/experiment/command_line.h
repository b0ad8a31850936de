// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Arguments that all programs have that run experiments.
#pragma once

#include <string>

namespace weft::experiment {

/// "" or what is wrong with the argument of --seed, and of --set.
[[nodiscard]] std::string check_seed(const std::string& text);
[[nodiscard]] std::string check_set(const std::string& text);

}  // namespace weft::experiment
