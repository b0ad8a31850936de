// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A BPF object in the kernel: its programs, and the ring by which they hand over events. Errors are sentences.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nic/agent/event_source.h"

struct bpf_link;
struct bpf_object;
struct bpf_program;
struct ring_buffer;

namespace weft::agent {

class BpfPrograms {
 public:
  BpfPrograms();
  ~BpfPrograms();
  BpfPrograms(const BpfPrograms&) = delete;
  BpfPrograms& operator=(const BpfPrograms&) = delete;

  /// Loads an object file's programs into the kernel; "" or what is wrong.
  [[nodiscard]] std::string load(std::span<const unsigned char> object, const std::string& name);
  /// Attaches a program to where its section says.
  [[nodiscard]] std::string attach(const std::string& program);
  /// Attaches a program to an offset of a file, for all processes.
  [[nodiscard]] std::string attach_uprobe(const std::string& program, const std::string& file, std::uint64_t offset);
  /// Detaches what was attached since there were so many links.
  void detach_to(std::size_t links);
  [[nodiscard]] std::size_t links() const noexcept { return links_.size(); }

  [[nodiscard]] int descriptor() const;
  void read(const QpEventSource::Sink& sink);
  [[nodiscard]] std::uint64_t lost() const;

 private:
  [[nodiscard]] bpf_program* find(const std::string& program) const;
  static int on_event(void* self, void* data, std::size_t bytes);

  bpf_object* object_ = nullptr;
  ring_buffer* ring_ = nullptr;
  int events_ = -1;                      // the ring's map
  const std::uint64_t* lost_ = nullptr;  // the BPF programs count in it
  std::vector<bpf_link*> links_;
  const QpEventSource::Sink* sink_ = nullptr;
};

}  // namespace weft::agent
