// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/pipeline/drop_reason.h"

#include <cstdio>
#include <cstdlib>

namespace weft::pipeline {
namespace {

constexpr DropReasonInfo kUndeclared{"undeclared", Severity::error,
                                     "A stage dropped it for a reason that it did not declare: a defect of the stage."};

[[noreturn]] void refuse(std::string_view module, std::string_view other, std::string_view name) {
  std::fprintf(stderr, "drop reason '%.*s' of module '%.*s': its value or its name is taken by module '%.*s'\n",
               static_cast<int>(name.size()), name.data(), static_cast<int>(module.size()), module.data(),
               static_cast<int>(other.size()), other.data());
  std::abort();
}

}  // namespace

DropReasons::DropReasons() {
  add({"pipeline", 0, kEngineDrops});
}

void DropReasons::add(const DropBlock& block) {
  for (std::size_t i = 0; i < block.reasons.size(); ++i) {
    const std::size_t value = block.first + i;
    const DropReasonInfo& info = block.reasons[i];
    if (value >= kDropReasonSlots) refuse(block.module, "nobody: there is no such value", info.name);
    if (infos_[value] != nullptr) {
      // Several stages may use one module.
      if (modules_[value] == block.module && infos_[value]->name == info.name) continue;
      refuse(block.module, modules_[value], info.name);
    }
    if (const auto known = find(info.name)) {
      refuse(block.module, modules_[static_cast<std::size_t>(*known)], info.name);
    }
    infos_[value] = &info;
    modules_[value] = block.module;
  }
}

const DropReasonInfo& DropReasons::operator[](DropReason reason) const noexcept {
  const DropReasonInfo* info = infos_[static_cast<std::size_t>(reason)];
  return info != nullptr ? *info : kUndeclared;
}

std::optional<DropReason> DropReasons::find(std::string_view name) const noexcept {
  for (std::size_t i = 0; i < kDropReasonSlots; ++i) {
    if (infos_[i] != nullptr && infos_[i]->name == name) return static_cast<DropReason>(i);
  }
  return std::nullopt;
}

std::vector<DropReason> DropReasons::all() const {
  std::vector<DropReason> reasons;
  for (std::size_t i = 0; i < kDropReasonSlots; ++i) {
    if (infos_[i] != nullptr) reasons.push_back(static_cast<DropReason>(i));
  }
  return reasons;
}

}  // namespace weft::pipeline
