// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What etcd's replies say of the manager's keys. Whatever listens at a member's address may have sent them, and whoever
// may write to the cluster may have written the values: nothing in them is taken for granted.
#pragma once

#include <optional>
#include <string>

#include "collectives/manager/agents.h"

namespace etcdserverpb {
class TxnResponse;
}

namespace weft::inc::manager {

/// Of the way in which the keys are laid out: the value of PREFIX/version.
inline constexpr const char* kEtcdVersion = "1";

/// @param reply  to a transaction with one range: PREFIX/version
/// @return an error in words when it is not there, or not ours
[[nodiscard]] std::optional<std::string> etcd_version_mistake(const etcdserverpb::TxnResponse& reply,
                                                              const std::string& prefix);

/// @param reply    to a transaction with three ranges: PREFIX/generation, PREFIX/links, and all below PREFIX/groups/
/// @param content  receives what they have; records are texts, which nobody has looked at
/// @return an error in words
[[nodiscard]] std::optional<std::string> read_etcd_content(const etcdserverpb::TxnResponse& reply,
                                                           const std::string& prefix, Store::Content& content);

}  // namespace weft::inc::manager
