// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which copies of a library processes have open. Containers have copies of their own, and a probe belongs to a file.
#pragma once

#include <map>
#include <set>
#include <string>

namespace weft::agent {

class ProcessLibraries {
 public:
  /// Each so many looks, the maps of all processes are read.
  static constexpr unsigned kWholeLook = 10;

  /// @param proc  where /proc is
  /// @param name  what the name of the file begins with: "libibverbs.so"
  ProcessLibraries(std::string proc, std::string name) : proc_(std::move(proc)), name_("/" + std::move(name)) {}

  /// Copies, as paths through the root of a process that has them open. The kernel writes the maps of a process out
  /// whenever somebody reads them, which takes long. So they are read only where the size of the process is another one
  /// than at the last look: a process that opens a library grows. Copies that no other process has opened since the
  /// last whole look may be missing.
  [[nodiscard]] std::set<std::string> look();

 private:
  [[nodiscard]] bool has_changed(const std::string& process);
  void add_libraries(const std::string& process, std::set<std::string>& found) const;

  std::string proc_, name_;
  std::map<std::string, std::string> sizes_;  ///< by process, in pages
  unsigned looks_ = 0;
};

}  // namespace weft::agent
