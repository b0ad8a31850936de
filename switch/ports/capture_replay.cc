// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/ports/capture_replay.h"

#include <pcap/pcap.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>

#include "switch/base/time.h"

namespace weft::ports {
namespace {

using Visit = std::function<void(const pcap_pkthdr&, const u_char*)>;

// Reads the whole file, and calls `visit` for every packet.
CaptureSummary read_capture(const std::string& file, const Visit& visit) {
  char text[PCAP_ERRBUF_SIZE];
  CaptureSummary capture;
  pcap_t* handle = pcap_open_offline_with_tstamp_precision(file.c_str(), PCAP_TSTAMP_PRECISION_NANO, text);
  if (handle == nullptr) {
    // libpcap names the file when it cannot open it, but not when it cannot read it.
    capture.error = text;
    if (!capture.error.starts_with(file)) capture.error = file + ": " + capture.error;
    return capture;
  }
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  int result = 0;
  std::uint64_t cut = 0;
  while ((result = pcap_next_ex(handle, &header, &data)) == 1) {
    ++capture.packets;
    if (header->caplen < header->len) ++cut;
    capture.longest = std::max(capture.longest, header->caplen);
    capture.bytes += header->caplen;
    if (visit) visit(*header, data);
  }
  if (pcap_datalink(handle) != DLT_EN10MB) {
    capture.error = file + " does not hold Ethernet frames";
  } else if (result == PCAP_ERROR && std::string_view(pcap_geterr(handle)).starts_with("truncated dump file")) {
    // The capturing program was stopped in the middle of a packet.
    capture.warnings.push_back("the file ends in the middle of a packet; the " + std::to_string(capture.packets) +
                               " before it are taken");
  } else if (result == PCAP_ERROR) {
    capture.error = file + ": " + pcap_geterr(handle);
  }
  if (cut != 0) {
    capture.warnings.push_back(std::to_string(cut) + " of " + std::to_string(capture.packets) +
                               " packets were cut when they were captured (snaplen), and are received as cut frames");
  }
  pcap_close(handle);
  return capture;
}

TimeNs scaled(TimeNs time, double speed) {
  return static_cast<TimeNs>(static_cast<double>(time) / speed);
}

}  // namespace

CaptureSummary examine_capture(const std::string& file) {
  return read_capture(file, nullptr);
}

std::unique_ptr<CaptureReplay> CaptureReplay::load(const std::string& file, const ReplayPace& pace, rte_mempool* pool,
                                                   std::vector<std::string>& warnings, std::string& error) {
  std::unique_ptr<CaptureReplay> replay(new CaptureReplay(pace, pool));
  bool too_large = false;
  const CaptureSummary found = read_capture(file, [&](const pcap_pkthdr& header, const u_char* data) {
    const std::uint64_t start = replay->bytes_.size();
    too_large |= start + header.caplen > kMaxBytes;
    if (too_large) return;
    const TimeNs time = static_cast<TimeNs>(header.ts.tv_sec) * kSecond + static_cast<TimeNs>(header.ts.tv_usec);
    replay->packets_.push_back({time, start, header.caplen});
    replay->bytes_.insert(replay->bytes_.end(), data, data + header.caplen);
  });
  error = found.error;
  if (error.empty() && found.packets == 0 && pace.loops != 1) error = file + " holds no packet to repeat";
  if (error.empty() && too_large) {
    error = file + " holds " + std::to_string(found.bytes >> 20) +
            " MiB of packets; a capture that is received at set" + " times is kept in memory, and may hold " +
            std::to_string(kMaxBytes >> 20);
  }
  if (!error.empty()) return nullptr;
  warnings = found.warnings;
  replay->set_times(warnings);
  if (replay->packets_.empty()) replay->ended_ = true;
  if (pace.loops != 1 && replay->round_ns_ == 0) {
    error = file + " has no two times: it cannot be repeated at its own";
    return nullptr;
  }
  return replay;
}

// From the capture's clock to nanoseconds since the first packet of a round, as the pace wants them.
void CaptureReplay::set_times(std::vector<std::string>& warnings) {
  const std::uint64_t count = packets_.size();
  if (count == 0) return;
  if (pace_.rate_pps != 0) {
    const auto at = [&](std::uint64_t i) {
      return static_cast<TimeNs>(static_cast<unsigned __int128>(i) * kSecond / pace_.rate_pps);
    };
    for (std::uint64_t i = 0; i < count; ++i) packets_[i].time = at(i);
    round_ns_ = at(count);
    return;
  }
  const TimeNs first = packets_[0].time;
  TimeNs latest = first;
  std::uint64_t back = 0;
  for (Packet& p : packets_) {
    back += p.time < latest ? 1 : 0;
    latest = std::max(latest, p.time);
    p.time = scaled(latest - first, pace_.speed);
  }
  round_ns_ = packets_.back().time + (count > 1 ? packets_.back().time / (count - 1) : 0);
  if (back != 0) {
    warnings.push_back("the times of " + std::to_string(back) + " packets go back; these come right behind others");
  }
}

// A chain where one buffer is too small; nullptr when buffers are short.
rte_mbuf* CaptureReplay::make(const Packet& packet) noexcept {
  rte_mbuf* head = nullptr;
  std::uint32_t done = 0;
  do {
    rte_mbuf* m = rte_pktmbuf_alloc(pool_);
    if (m == nullptr) {
      rte_pktmbuf_free(head);
      return nullptr;
    }
    const auto part =
        static_cast<std::uint16_t>(std::min<std::uint32_t>(packet.captured - done, rte_pktmbuf_tailroom(m)));
    std::memcpy(rte_pktmbuf_append(m, part), bytes_.data() + packet.start + done, part);
    done += part;
    if (head == nullptr) {
      head = m;
    } else {
      rte_pktmbuf_chain(head, m);  // has room: libpcap's packets are shorter than the longest chain
    }
  } while (done < packet.captured);
  return head;
}

void CaptureReplay::advance() noexcept {
  if (++at_ == packets_.size()) {
    at_ = 0;
    ++round_;
    round_began_ += round_ns_;
    if (round_ == pace_.loops) {
      next_.store(kNever, std::memory_order_relaxed);
      ended_.store(true, std::memory_order_release);
      return;
    }
  }
  next_.store(round_began_ + packets_[at_].time, std::memory_order_relaxed);
}

std::uint16_t CaptureReplay::receive(TimeNs now, rte_mbuf** packets, std::uint16_t max) noexcept {
  if (!started_) {
    started_ = true;
    round_began_ = now;
    if (!ended()) next_.store(now, std::memory_order_relaxed);
  }
  std::uint16_t count = 0;
  while (count < max && next() <= now) {
    rte_mbuf* m = make(packets_[at_]);
    if (m == nullptr) break;
    packets[count++] = m;
    advance();
  }
  return count;
}

}  // namespace weft::ports
