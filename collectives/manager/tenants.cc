// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/tenants.h"

#include <algorithm>

namespace weft::inc::manager {
namespace {

bool have_one_in_common(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::find_first_of(a.begin(), a.end(), b.begin(), b.end()) != a.end();
}

}  // namespace

std::optional<Caller> Tenants::caller(const std::vector<std::string>& names) const {
  if (all.empty() || have_one_in_common(names, operators)) return Caller{};
  const Tenant* found = nullptr;
  for (const Tenant& tenant : all) {
    if (!have_one_in_common(names, tenant.identities)) continue;
    if (found != nullptr) return std::nullopt;
    found = &tenant;
  }
  return found == nullptr ? std::nullopt : std::optional(Caller{found->name});
}

const Tenant* Tenants::find(const std::string& name) const {
  const auto at = std::find_if(all.begin(), all.end(), [&](const Tenant& t) { return t.name == name; });
  return at == all.end() ? nullptr : &*at;
}

std::size_t Tenants::place(const std::string& name) const {
  const Tenant* tenant = find(name);
  return tenant == nullptr ? 0 : static_cast<std::size_t>(tenant - all.data()) + 1;
}

}  // namespace weft::inc::manager
