// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Sees queue pairs where programs call libibverbs. An uprobe belongs to a file, so each copy of the library (of a
// container, or the new one after an upgrade) is watched by itself.
#pragma once

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "nic/agent/bpf_programs.h"
#include "nic/agent/process_libraries.h"

namespace weft::agent {

class VerbsSource : public QpEventSource {
 public:
  /// @param proc  where /proc is
  explicit VerbsSource(std::string proc = "/proc") : processes_(std::move(proc), "libibverbs.so") {}

  /// "" or what is wrong.
  [[nodiscard]] std::string open();
  /// Watches a copy of the library; "" also when it is watched already.
  [[nodiscard]] std::string watch(const std::string& library);
  /// Watches the copies that processes have opened, see ProcessLibraries. What cannot be watched is said to `complain`,
  /// once for each.
  void watch_processes(const std::function<void(const std::string&)>& complain);
  [[nodiscard]] std::size_t watched() const noexcept { return watched_.size(); }

  [[nodiscard]] int descriptor() const override { return programs_.descriptor(); }
  void read(const Sink& sink) override { programs_.read(sink); }
  [[nodiscard]] std::uint64_t lost() const override { return programs_.lost(); }
  [[nodiscard]] std::string name() const override { return "calls of libibverbs"; }

 private:
  using File = std::pair<std::uint64_t, std::uint64_t>;  // device and inode

  ProcessLibraries processes_;
  BpfPrograms programs_;
  std::set<File> watched_, given_up_;
};

}  // namespace weft::agent
