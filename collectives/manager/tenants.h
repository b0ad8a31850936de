// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Who may do what with the manager: operators everything, tenants what concerns their own groups. A client with a
// certificate is who one of its names belongs to; whoever can open the unix socket is an operator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft::inc::manager {

struct Caller {
  std::optional<std::string> tenant{};  ///< nullopt: an operator

  /// @param owner  the tenant that has a group; "": none
  [[nodiscard]] bool may(const std::string& owner) const { return !tenant || *tenant == owner; }
};

struct Tenant {
  std::string name;
  std::vector<std::string> identities;  ///< names in certificates
  /// Memory that its groups have at all switches together, at most; nullopt: what there is.
  std::optional<std::uint64_t> memory_bytes{};
};

struct Tenants {
  std::vector<Tenant> all;             ///< none: whoever has a certificate is an operator
  std::vector<std::string> operators;  ///< names in certificates

  /// nullopt: nobody's, or of more than one tenant.
  /// @param names  of a certificate
  [[nodiscard]] std::optional<Caller> caller(const std::vector<std::string>& names) const;
  /// nullptr: there is none.
  [[nodiscard]] const Tenant* find(const std::string& name) const;
  /// Its place among all, from 1 on; 0: there is none.
  [[nodiscard]] std::size_t place(const std::string& name) const;
};

}  // namespace weft::inc::manager
