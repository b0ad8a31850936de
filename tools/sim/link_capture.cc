// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/link_capture.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "switch/pipeline/packet.h"

namespace weft::sim {
namespace {

// The file format of libpcap: nanosecond magic, version 2.4, Ethernet.
struct PcapHeader {
  std::uint32_t magic = 0xa1b23c4d;
  std::uint16_t major = 2, minor = 4;
  std::uint32_t zone = 0, precision = 0, snap_length = 65535, link_type = 1;
};

}  // namespace

std::string LinkCapture::start(const std::string& path) {
  path_ = path;
  file_ = std::fopen(path.c_str(), "wb");
  if (file_ == nullptr) return "cannot write " + path_ + ": " + std::strerror(errno);
  const PcapHeader header;
  // On the disk before the run begins: that it is full is known then.
  if (std::fwrite(&header, sizeof header, 1, file_) != 1 || std::fflush(file_) != 0) error_ = errno;
  return error_ == 0 ? "" : finish();
}

std::string LinkCapture::finish() {
  if (file_ == nullptr) return "";
  if (std::fclose(file_) != 0 && error_ == 0) error_ = errno;
  file_ = nullptr;
  if (error_ == 0) return "";
  return "cannot write " + path_ + ": " + std::strerror(error_) + "; the capture ends at packet " +
         std::to_string(packets_);
}

void LinkCapture::packet(TimeNs now, const rte_mbuf* m) noexcept {
  if (file_ == nullptr || error_ != 0) return;
  const std::array<std::uint32_t, 4> record{static_cast<std::uint32_t>(now / kSecond),
                                            static_cast<std::uint32_t>(now % kSecond),
                                            std::min<std::uint32_t>(m->data_len, m->pkt_len), m->pkt_len};
  if (std::fwrite(record.data(), sizeof record, 1, file_) != 1 ||
      std::fwrite(pipeline::frame(m), 1, record[2], file_) != record[2]) {
    error_ = errno;
    return;
  }
  ++packets_;
}

}  // namespace weft::sim
