// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/agent/bpf_programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "nic/agent/pid_namespace.h"

namespace weft::agent {
namespace {

// What libbpf has to say; the last of it explains a failure.
std::string& last_words() {
  static std::string words;
  return words;
}

int take_words(libbpf_print_level level, const char* format, va_list arguments) {
  if (level != LIBBPF_WARN) return 0;
  char line[512];
  const int bytes = vsnprintf(line, sizeof line, format, arguments);
  if (bytes > 0) last_words() = line;
  return bytes;
}

std::string why(const std::string& what, long error) {
  std::string text = what + ": " + std::strerror(static_cast<int>(error < 0 ? -error : error));
  if (!last_words().empty()) text += " (" + last_words().substr(0, last_words().find('\n')) + ")";
  return text;
}

}  // namespace

BpfPrograms::BpfPrograms() {
  libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
  libbpf_set_print(take_words);
}

BpfPrograms::~BpfPrograms() {
  detach_to(0);
  if (lost_ != nullptr) munmap(const_cast<std::uint64_t*>(lost_), sizeof *lost_);
  ring_buffer__free(ring_);
  bpf_object__close(object_);
}

std::string BpfPrograms::load(std::span<const unsigned char> object, const std::string& name) {
  last_words().clear();
  bpf_object_open_opts options{};
  options.sz = sizeof options;
  options.object_name = name.c_str();
  object_ = bpf_object__open_mem(object.data(), object.size(), &options);
  if (object_ == nullptr) return why("cannot read the BPF programs", errno);
  if (const int error = bpf_object__load(object_); error != 0) return why("cannot load BPF programs", error);
  const std::uint32_t first = 0;
  const weft_pid_namespace own = own_pid_namespace();
  const int own_map = bpf_object__find_map_fd_by_name(object_, "own_namespace");
  if (bpf_map_update_elem(own_map, &first, &own, BPF_ANY) != 0) return why("cannot name the own PID namespace", errno);
  void* const lost =
      mmap(nullptr, sizeof *lost_, PROT_READ, MAP_SHARED, bpf_object__find_map_fd_by_name(object_, "lost"), 0);
  if (lost == MAP_FAILED) return why("cannot map the count of lost events", errno);
  lost_ = static_cast<const std::uint64_t*>(lost);
  events_ = bpf_object__find_map_fd_by_name(object_, "events");
  ring_ = ring_buffer__new(events_, on_event, this, nullptr);
  return ring_ == nullptr ? why("cannot read the ring of events", errno) : "";
}

bpf_program* BpfPrograms::find(const std::string& program) const {
  return bpf_object__find_program_by_name(object_, program.c_str());
}

std::string BpfPrograms::attach(const std::string& program) {
  last_words().clear();
  bpf_link* const link = bpf_program__attach(find(program));
  if (link == nullptr) return why("cannot attach " + program, errno);
  links_.push_back(link);
  return "";
}

std::string BpfPrograms::attach_uprobe(const std::string& program, const std::string& file, std::uint64_t offset) {
  last_words().clear();
  constexpr int kAllProcesses = -1;
  bpf_link* const link = bpf_program__attach_uprobe(find(program), false, kAllProcesses, file.c_str(), offset);
  if (link == nullptr) return why("cannot watch " + file, errno);
  links_.push_back(link);
  return "";
}

void BpfPrograms::detach_to(std::size_t links) {
  while (links_.size() > links) {
    bpf_link__destroy(links_.back());
    links_.pop_back();
  }
}

int BpfPrograms::descriptor() const {
  return events_;
}

int BpfPrograms::on_event(void* self, void* data, std::size_t bytes) {
  const auto& programs = *static_cast<BpfPrograms*>(self);
  weft_qp_event event;
  if (bytes < sizeof event) return 0;
  std::memcpy(&event, data, sizeof event);
  (*programs.sink_)(event);
  return 0;
}

void BpfPrograms::read(const QpEventSource::Sink& sink) {
  sink_ = &sink;
  (void)ring_buffer__consume(ring_);
  sink_ = nullptr;
}

std::uint64_t BpfPrograms::lost() const {
  return lost_ == nullptr ? 0 : __atomic_load_n(lost_, __ATOMIC_RELAXED);
}

}  // namespace weft::agent
