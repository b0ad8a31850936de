// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The manager's store in a file of SQLite: one process at a time. Writes go to its log in their order; sync() brings
// the log to the disk, once for all who wait for it.
#pragma once

#include <memory>

#include "collectives/manager/agents.h"

namespace weft::inc::manager {

class SqliteStore : public Store {
 public:
  SqliteStore();
  ~SqliteStore() override;
  SqliteStore(const SqliteStore&) = delete;
  SqliteStore& operator=(const SqliteStore&) = delete;

  /// Opens or makes the file. An error as a sentence that names it: it cannot be written, is none of ours, is of a
  /// newer version, or another process has it.
  [[nodiscard]] std::optional<std::string> open(const std::string& path);

  [[nodiscard]] std::optional<std::string> put(GroupId group, std::uint64_t generation,
                                               const std::string& record) override;
  [[nodiscard]] std::optional<std::string> erase(GroupId group) override;
  [[nodiscard]] std::optional<std::string> put_links(const std::string& text) override;
  [[nodiscard]] std::optional<std::string> load(Content& content) override;
  [[nodiscard]] std::optional<std::string> sync() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::inc::manager
