// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/observe/capture_session.h"

#include <bit>

#include "switch/capture/pcapng.h"

namespace weft {
namespace {

using capture::Record;
using capture::RecordKind;

// What the bytes of the packet do not hold: blocks, options and comments, generously.
constexpr std::size_t kBlockBytes = 256;

std::string drop_comment(const SwitchNames& names, const Record& record) {
  const auto& reason = (*names.drops)[record.reason];
  std::string text = "dropped: " + std::string(reason.name) + ": " + std::string(reason.text) + " Switch " +
                     names.name + ", in " + names.port(record.in_port) + ", out " + names.port(record.out_port);
  if (record.refused != 0) {
    text += "; the device refused " + std::to_string(record.refused) + " packet(s) of this burst";
  }
  return text;
}

std::string refusal_comment(const Record& record) {
  return "tx_failed: the device refused " + std::to_string(record.refused) +
         " packet(s) of the burst that this one belongs to";
}

}  // namespace

CaptureSession::CaptureSession(PipelineSet& pipelines, std::vector<SwitchNames> switches,
                               std::vector<capture::SwitchFilter> filters, const api::CaptureRequest& request)
    : Session(pipelines), switches_(std::move(switches)), request_(request) {
  const auto epoch = std::chrono::system_clock::now().time_since_epoch();
  epoch_offset_ =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(epoch).count()) - pipelines.now();
  end_after(request.duration_ms);
  describe_interfaces(filters);
  attach_taps(filters);
}

CaptureSession::~CaptureSession() {
  detach();
}

void CaptureSession::describe_interfaces(std::vector<capture::SwitchFilter>& filters) {
  capture::append_section(start_, "weft " WEFT_VERSION);
  for (std::size_t i = 0; i < switches_.size(); ++i) {
    first_interface_.push_back(static_cast<std::uint32_t>(packets_of_.size()));
    if (!filters[i].chosen) continue;
    const SwitchNames& names = switches_[i];
    for (const std::string& port : names.ports) {
      capture::append_interface(start_, names.name + "/" + port, "", request_.snaplen);
    }
    capture::append_interface(start_, names.name + " drops", "packets that the switch dropped", request_.snaplen);
    packets_of_.resize(packets_of_.size() + names.ports.size() + 1);
  }
  bytes_ = start_.size();
}

void CaptureSession::attach_taps(const std::vector<capture::SwitchFilter>& filters) {
  const std::size_t ring_bytes = std::bit_ceil(std::size_t{request_.buffer_mib} << 20);
  for (std::uint16_t w = 0; w < pipelines_.worker_count(); ++w) {
    rings_.push_back(std::make_unique<capture::RecordRing>(ring_bytes));
  }
  std::map<std::pair<std::size_t, std::size_t>, pipeline::Tap*> by_pipeline;
  for (std::size_t i = 0; i < filters.size(); ++i) {
    if (!filters[i].chosen) continue;
    for (std::size_t w = 0; w < rings_.size(); ++w) {
      taps_.push_back(std::make_unique<capture::CaptureTap>(*rings_[w], filters[i].filter, static_cast<std::uint8_t>(i),
                                                            request_.snaplen));
      by_pipeline[{i, w}] = taps_.back().get();
    }
  }
  attach(std::move(by_pipeline));
}

bool CaptureSession::bound_reached(std::size_t next_bytes) {
  if (full_) return true;
  if (request_.max_packets != 0 && packets_ >= request_.max_packets) {
    stop("the number of packets was reached");
    return full_ = true;
  }
  if (request_.max_bytes != 0 && bytes_ + next_bytes > request_.max_bytes) {
    stop("the size was reached");
    return full_ = true;
  }
  return false;
}

void CaptureSession::append(std::string& out, const Record& record) {
  const SwitchNames& names = switches_[record.switch_index];
  capture::PcapngPacket packet{
      .interface = first_interface_[record.switch_index], .time = epoch(record.time), .length = record.length};
  std::string comment;
  switch (record.kind) {
    case RecordKind::rx:
      packet.interface += record.in_port;
      packet.direction = capture::PcapngDirection::inbound;
      break;
    case RecordKind::tx:
      packet.interface += record.out_port;
      packet.direction = capture::PcapngDirection::outbound;
      if (record.refused != 0) comment = refusal_comment(record);
      break;
    default:
      packet.interface += static_cast<std::uint32_t>(names.ports.size());
      comment = drop_comment(names, record);
      break;
  }
  packet.comment = comment;
  capture::append_packet(out, packet, {capture::packet_of(record), record.captured});
  ++packets_of_[packet.interface];
}

// Rings are emptied in the order of time, as far as workers have got.
void CaptureSession::collect(api::SessionPart& part, std::size_t max_bytes) {
  if (!start_.empty()) part.data = std::move(start_);
  start_.clear();
  while (part.data.size() < max_bytes) {
    capture::RecordRing* oldest = nullptr;
    for (const auto& ring : rings_) {
      const Record* record = ring->front();
      if (record != nullptr && (oldest == nullptr || record->time < oldest->front()->time)) oldest = ring.get();
    }
    if (oldest == nullptr) break;
    const std::size_t before = part.data.size();
    if (!bound_reached(oldest->front()->captured + kBlockBytes)) {
      append(part.data, *oldest->front());
      bytes_ += part.data.size() - before;
      ++packets_;
    }
    oldest->pop();
  }
  static_cast<void>(bound_reached(0));
  part.packets = packets_;
  part.lost = lost();
}

std::uint64_t CaptureSession::lost() const {
  std::uint64_t sum = 0;
  for (const auto& ring : rings_) sum += ring->lost();
  return sum;
}

// Copies find no room per worker, not per interface: all of them are told at the first one that has packets.
void CaptureSession::finish(api::SessionPart& part) {
  std::uint64_t lost_ones = lost();
  for (std::uint32_t i = 0; i < packets_of_.size(); ++i) {
    if (packets_of_[i] == 0) continue;
    capture::append_statistics(part.data, i, epoch(pipelines_.now()), packets_of_[i], lost_ones);
    lost_ones = 0;
  }
  part.packets = packets_;
  part.lost = lost();
}

}  // namespace weft
