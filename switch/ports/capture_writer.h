// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <rte_mbuf.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "switch/pipeline/pipeline.h"

namespace weft::ports {

/// A capture file that packets are written to: pcap, with times in nanoseconds. Knows of every packet whether it is in
/// the file, which DPDK's net_pcap does not: a file that cannot grow takes nothing more, ends with its last whole
/// packet, and says so.
class CaptureWriter {
 public:
  /// Creates the file, or empties it. nullptr, and the reason, when that is not possible.
  [[nodiscard]] static std::unique_ptr<CaptureWriter> create(const std::string& path, std::string& error);
  ~CaptureWriter();
  CaptureWriter(const CaptureWriter&) = delete;
  CaptureWriter& operator=(const CaptureWriter&) = delete;

  /// Takes and frees all packets; those that can no longer be written are rejected. One thread.
  pipeline::TxResult write(rte_mbuf** packets, std::uint16_t count) noexcept;
  /// Writes what is still in memory. The thread of write(), or any when that has ended.
  void flush() noexcept;

  /// Packets that write() took without rejecting them and that are not in the file. Any thread.
  [[nodiscard]] std::uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
  /// Why the file takes nothing more; empty while it does. Any thread.
  [[nodiscard]] std::string failure() const;

 private:
  CaptureWriter(std::string path, int fd);
  void append(const rte_mbuf* m, std::uint64_t time_ns) noexcept;
  void fail(int error, std::size_t written) noexcept;

  std::string path_;
  int fd_;
  std::vector<std::uint8_t> buffer_;
  std::vector<std::size_t> ends_;  ///< of the packets in the buffer
  std::uint64_t in_file_ = 0;      ///< bytes, all of whole packets
  std::atomic<int> error_{0};      ///< errno of the write that failed
  std::atomic<std::uint64_t> lost_{0};
};

}  // namespace weft::ports
