// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/agent/verbs_source.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "nic/agent/bpf_objects.h"
#include "nic/agent/elf_symbol.h"

namespace weft::agent {
namespace {

// The BPF programs read these structs by number: here the numbers meet their names.
static_assert(offsetof(ibv_qp, context) == WEFT_QP_CONTEXT);
static_assert(offsetof(ibv_qp, qp_num) == WEFT_QP_NUM);
static_assert(offsetof(ibv_qp, qp_type) == WEFT_QP_TYPE);
static_assert(offsetof(ibv_context, device) == WEFT_CONTEXT_DEVICE);
static_assert(offsetof(ibv_device, name) == WEFT_DEVICE_NAME_AT);
static_assert(offsetof(ibv_qp_attr, qp_state) == WEFT_ATTR_STATE);
static_assert(offsetof(ibv_qp_attr, path_mtu) == WEFT_ATTR_PATH_MTU);
static_assert(offsetof(ibv_qp_attr, rq_psn) == WEFT_ATTR_RQ_PSN);
static_assert(offsetof(ibv_qp_attr, sq_psn) == WEFT_ATTR_SQ_PSN);
static_assert(offsetof(ibv_qp_attr, dest_qp_num) == WEFT_ATTR_DEST_QPN);
static_assert(offsetof(ibv_qp_attr, ah_attr) + offsetof(ibv_ah_attr, grh) + offsetof(ibv_global_route, dgid) ==
              WEFT_ATTR_DGID);
static_assert(offsetof(ibv_qp_attr, ah_attr) + offsetof(ibv_ah_attr, grh) + offsetof(ibv_global_route, sgid_index) ==
              WEFT_ATTR_SGID_INDEX);
static_assert(offsetof(ibv_qp_attr, ah_attr) + offsetof(ibv_ah_attr, port_num) == WEFT_ATTR_AH_PORT);
static_assert(sizeof(ibv_device::name) == WEFT_DEVICE_NAME);
static_assert(static_cast<int>(IBV_QP_STATE) == static_cast<int>(WEFT_MASK_STATE));
static_assert(static_cast<int>(IBV_QP_AV) == static_cast<int>(WEFT_MASK_AV));
static_assert(static_cast<int>(IBV_QP_PATH_MTU) == static_cast<int>(WEFT_MASK_PATH_MTU));
static_assert(static_cast<int>(IBV_QP_RQ_PSN) == static_cast<int>(WEFT_MASK_RQ_PSN));
static_assert(static_cast<int>(IBV_QP_SQ_PSN) == static_cast<int>(WEFT_MASK_SQ_PSN));
static_assert(static_cast<int>(IBV_QP_DEST_QPN) == static_cast<int>(WEFT_MASK_DEST_QPN));
static_assert(static_cast<int>(IBV_QPS_RTR) == static_cast<int>(WEFT_STATE_RTR));
static_assert(static_cast<int>(IBV_QPS_RTS) == static_cast<int>(WEFT_STATE_RTS));

// A file in memory, for reading.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    struct stat found {};
    if (fstat(fd, &found) == 0 && found.st_size > 0) {
      void* const at = mmap(nullptr, static_cast<std::size_t>(found.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
      if (at != MAP_FAILED) bytes_ = {static_cast<const std::uint8_t*>(at), static_cast<std::size_t>(found.st_size)};
    }
    close(fd);
  }
  ~MappedFile() {
    if (!bytes_.empty()) munmap(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size());
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  [[nodiscard]] std::span<const std::uint8_t> bytes() const noexcept { return bytes_; }

 private:
  std::span<const std::uint8_t> bytes_;
};

}  // namespace

std::string VerbsSource::open() {
  return programs_.load(verbs_watch_object(), "weft_verbs");
}

std::string VerbsSource::watch(const std::string& library) {
  struct stat found {};
  if (stat(library.c_str(), &found) != 0) return library + ": " + std::strerror(errno);
  const File file{found.st_dev, found.st_ino};
  if (watched_.contains(file)) return "";
  const MappedFile image(library);
  const std::size_t before = programs_.links();
  for (const auto& [function, program] :
       {std::pair{"ibv_modify_qp", "verbs_modify_qp"}, std::pair{"ibv_destroy_qp", "verbs_destroy_qp"}}) {
    const auto offset = function_offset(image.bytes(), function);
    std::string error = offset ? programs_.attach_uprobe(program, library, *offset)
                               : library + " has no function " + function + ", or is no library of this machine's kind";
    if (error.empty()) continue;
    programs_.detach_to(before);
    return error;
  }
  watched_.insert(file);
  return "";
}

void VerbsSource::watch_processes(const std::function<void(const std::string&)>& complain) {
  for (const std::string& library : processes_.look()) {
    struct stat found {};
    if (stat(library.c_str(), &found) != 0) continue;  // its process has ended, or the file was replaced
    const File file{found.st_dev, found.st_ino};
    if (given_up_.contains(file)) continue;
    if (const std::string error = watch(library); !error.empty()) {
      given_up_.insert(file);
      complain(error);
    }
  }
}

}  // namespace weft::agent
