// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Devices opened as weft-switch opens them, and capture files to feed them with.
#pragma once

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "switch/pipeline/packet.h"
#include "switch/pipeline/pool.h"
#include "switch/ports/port.h"

namespace weft::ports {

using Bytes = std::vector<std::uint8_t>;
using config::Value;

/// A directory that goes away with the object.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string name = std::filesystem::temp_directory_path() / "weft_ports_XXXXXX";
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Little-endian, microseconds: the plain form of a capture file.
inline void write_capture(const std::string& file, const std::vector<Bytes>& frames, std::uint32_t link_type = 1) {
  std::ofstream out(file, std::ios::binary);
  const auto word = [&out](std::uint32_t v) { out.write(reinterpret_cast<const char*>(&v), 4); };
  word(0xa1b2c3d4);
  word(2 | 4 << 16);
  word(0);
  word(0);
  word(262'144);
  word(link_type);
  for (const Bytes& frame : frames) {
    word(1);
    word(2);
    word(static_cast<std::uint32_t>(frame.size()));
    word(static_cast<std::uint32_t>(frame.size()));
    out.write(reinterpret_cast<const char*>(frame.data()), static_cast<std::streamsize>(frame.size()));
  }
}

inline std::vector<Bytes> read_capture(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::vector<Bytes> frames;
  for (std::size_t at = 24; at + 16 <= all.size();) {
    std::uint32_t length = 0;
    std::memcpy(&length, all.data() + at + 8, 4);
    at += 16;
    frames.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(at),
                        all.begin() + static_cast<std::ptrdiff_t>(at + length));
    at += length;
  }
  return frames;
}

/// Bytes that differ from frame to frame.
inline Bytes frame_of(std::size_t bytes, std::uint8_t first = 2) {
  Bytes frame(bytes);
  for (std::size_t i = 0; i < bytes; ++i) frame[i] = static_cast<std::uint8_t>(i * 7 + first + bytes);
  return frame;
}

/// A pool and what is needed to open ports with it. The destructor checks that no buffer is lost.
class PortTest : public testing::Test {
 protected:
  void SetUp() override { use_pool(512, 2048 + RTE_PKTMBUF_HEADROOM); }
  void TearDown() override {
    port.reset();
    EXPECT_EQ(rte_mempool_avail_count(pool.get()), buffers) << "buffers leaked";
  }

  void use_pool(std::uint32_t count, std::uint16_t data_room) {
    static int serial = 0;
    port.reset();
    buffers = count;
    pool = pipeline::make_pool("ports" + std::to_string(serial++), count, data_room, 0);
    ASSERT_NE(pool, nullptr);
  }

  static pipeline::PortInfo info(std::string type, Value::Map device, std::uint32_t mtu = 4200) {
    pipeline::PortInfo out;
    out.name = "p";
    out.type = std::move(type);
    out.device = Value(std::move(device));
    out.mtu_bytes = mtu;
    return out;
  }
  /// Opens into `port`; returns why not.
  std::string open(const pipeline::PortInfo& about, std::uint16_t workers = 1) {
    port.reset();
    OpenedPort opened =
        open_port(about, {pool.get(), workers, 7, nullptr, await_bursts, {}, std::nullopt, environment_owner});
    EXPECT_EQ(opened.error.empty(), opened.port != nullptr) << opened.error;
    port = std::move(opened.port);
    return opened.error;
  }
  std::string open_pcap(const std::string& rx, const std::string& tx, bool infinite = false) {
    Value::Map device{{"infinite", Value(infinite)}, {"pace", Value("none")}, {"loops", Value(1)}};
    if (!rx.empty()) device.emplace_back("rx_file", Value(rx));
    if (!tx.empty()) device.emplace_back("tx_file", Value(tx));
    return open(info("pcap", std::move(device)));
  }

  rte_mbuf* packet(const Bytes& frame, std::initializer_list<std::size_t> cuts = {}) {
    rte_mbuf* head = nullptr;
    std::size_t at = 0;
    auto cut = cuts.begin();
    while (at < frame.size() || head == nullptr) {
      rte_mbuf* m = rte_pktmbuf_alloc(pool.get());
      std::size_t bytes = std::min<std::size_t>(frame.size() - at, rte_pktmbuf_tailroom(m));
      if (cut != cuts.end()) bytes = std::min(bytes, *cut++);
      std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(bytes)), frame.data() + at, bytes);
      at += bytes;
      if (head == nullptr) {
        head = m;
      } else {
        rte_pktmbuf_chain(head, m);
      }
    }
    return head;
  }

  /// All that comes in until nothing comes, freed.
  std::vector<Bytes> receive_all(std::uint16_t burst = 32) {
    std::vector<Bytes> frames;
    while (true) {
      rte_mbuf* packets[64];
      const std::uint16_t count = port->receive(now, 0, packets, burst);
      if (count == 0) return frames;
      for (std::uint16_t i = 0; i < count; ++i) frames.push_back(take(packets[i]));
    }
  }
  static Bytes take(rte_mbuf* m) {
    Bytes bytes;
    for (const rte_mbuf* s = m; s != nullptr; s = s->next) {
      const auto* data = rte_pktmbuf_mtod(s, const std::uint8_t*);
      bytes.insert(bytes.end(), data, data + s->data_len);
    }
    EXPECT_EQ(bytes.size(), m->pkt_len);
    rte_pktmbuf_free(m);
    return bytes;
  }

  TimeNs now = 1'000'000'000;
  std::uint32_t buffers = 0;
  pipeline::Pool pool;
  // Of ports that are opened from then on.
  std::function<void()> await_bursts;
  std::uint16_t environment_owner = 0;
  std::unique_ptr<Port> port;
  ScratchDirectory scratch;
};

}  // namespace weft::ports
