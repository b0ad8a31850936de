// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/ports/capture_writer.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weft::ports {
namespace {

// The buffer is written when it holds this much; it has room for what a burst of the largest packets adds.
constexpr std::size_t kWriteBytes = 64 * 1024;
constexpr std::size_t kLargestPacket = 256 * 1024;
constexpr std::uint32_t kSnapLength = 262'144;

// pcap-savefile(5), in the byte order of the machine.
struct FileHeader {
  std::uint32_t magic = 0xa1b23c4d;  // times in nanoseconds
  std::uint16_t major = 2, minor = 4;
  std::uint32_t reserved[2]{};
  std::uint32_t snap_length = kSnapLength;
  std::uint32_t link_type = 1;  // Ethernet
};
struct PacketHeader {
  std::uint32_t seconds, nanoseconds, captured, length;
};

void put(std::vector<std::uint8_t>& buffer, const void* data, std::size_t bytes) noexcept {
  const auto* from = static_cast<const std::uint8_t*>(data);
  buffer.insert(buffer.end(), from, from + bytes);  // within what create() has reserved
}

}  // namespace

std::unique_ptr<CaptureWriter> CaptureWriter::create(const std::string& path, std::string& error) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) {
    error = "cannot write " + path + ": " + std::strerror(errno);
    return nullptr;
  }
  std::unique_ptr<CaptureWriter> made(new CaptureWriter(path, fd));
  const FileHeader header;
  put(made->buffer_, &header, sizeof header);
  made->flush();
  error = made->failure();
  if (!error.empty()) made.reset();
  return made;
}

CaptureWriter::CaptureWriter(std::string path, int fd) : path_(std::move(path)), fd_(fd) {
  buffer_.reserve(kWriteBytes + kLargestPacket + sizeof(PacketHeader));
  ends_.reserve(buffer_.capacity() / sizeof(PacketHeader));
}

CaptureWriter::~CaptureWriter() {
  flush();
  close(fd_);
}

pipeline::TxResult CaptureWriter::write(rte_mbuf** packets, std::uint16_t count) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const std::uint64_t time_ns = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
  pipeline::TxResult result{.taken = count};
  for (std::uint16_t i = 0; i < count; ++i) {
    if (error_.load(std::memory_order_relaxed) == 0 && packets[i]->pkt_len <= kLargestPacket) {
      append(packets[i], time_ns);
    } else {
      ++result.rejected;
      result.rejected_bytes += packets[i]->pkt_len;
    }
    rte_pktmbuf_free(packets[i]);
  }
  return result;
}

void CaptureWriter::append(const rte_mbuf* m, std::uint64_t time_ns) noexcept {
  const PacketHeader header{static_cast<std::uint32_t>(time_ns / 1'000'000'000),
                            static_cast<std::uint32_t>(time_ns % 1'000'000'000), m->pkt_len, m->pkt_len};
  put(buffer_, &header, sizeof header);
  for (; m != nullptr; m = m->next) put(buffer_, rte_pktmbuf_mtod(m, const void*), m->data_len);
  ends_.push_back(buffer_.size());
  if (buffer_.size() >= kWriteBytes) flush();
}

void CaptureWriter::flush() noexcept {
  std::size_t written = 0;
  while (written < buffer_.size() && error_.load(std::memory_order_relaxed) == 0) {
    const ssize_t bytes = ::write(fd_, buffer_.data() + written, buffer_.size() - written);
    if (bytes >= 0) {
      written += static_cast<std::size_t>(bytes);
    } else if (errno != EINTR) {
      fail(errno, written);
    }
  }
  in_file_ += written;
  buffer_.clear();
  ends_.clear();
}

// Counts the packets that are not whole in the file, and cuts the file behind the last whole one, so that readers
// accept it.
void CaptureWriter::fail(int error, std::size_t written) noexcept {
  std::uint64_t whole = 0;
  std::size_t end = 0;
  for (const std::size_t at : ends_) {
    if (at > written) break;
    ++whole;
    end = at;
  }
  lost_.fetch_add(ends_.size() - whole, std::memory_order_relaxed);
  // Fails where it makes no sense: pipes, /dev/full.
  static_cast<void>(ftruncate(fd_, static_cast<off_t>(in_file_ + end)) == 0);
  error_.store(error, std::memory_order_relaxed);
}

std::string CaptureWriter::failure() const {
  const int error = error_.load(std::memory_order_relaxed);
  return error == 0 ? "" : "cannot write " + path_ + ": " + std::strerror(error);
}

}  // namespace weft::ports
