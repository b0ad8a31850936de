// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/stage.h"

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace weft::pipeline {

void StageBuild::abort_without(std::string_view capability) {
  std::fprintf(stderr, "weft: a stage provides '%.*s' and does not publish it\n", static_cast<int>(capability.size()),
               capability.data());
  std::abort();
}

// A stage that names tables overrides rows(): reaching these is our own mistake.
nlohmann::ordered_json StageShared::rows(std::string_view, std::uint64_t&, std::size_t) const {
  std::abort();
}
nlohmann::ordered_json Stage::rows(std::string_view, std::uint64_t&, std::size_t) const {
  std::abort();
}

}  // namespace weft::pipeline
