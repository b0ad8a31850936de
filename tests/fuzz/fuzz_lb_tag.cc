// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Input: an Ethernet frame. Reading the tag of lb_tag stays in bounds; taking it off and putting one on leaves a frame
// that the parser reads as it should, and both together give back every byte.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "switch/stages/lb/conweave_tag.h"
#include "switch/stages/lb/gemma_report.h"
#include "switch/stages/lb/tag.h"
#include "switch/wire/headers.h"
#include "switch/wire/parse.h"
#include "tests/fuzz/require.h"

namespace weft::stages {
namespace {

// Memory of exactly this size, so that the address sanitizer sees any access beyond.
class Frame {
 public:
  explicit Frame(std::span<const std::uint8_t> bytes, std::size_t front = 0)
      : bytes_(new std::uint8_t[front + bytes.size()]()), size_(front + bytes.size()) {
    std::copy(bytes.begin(), bytes.end(), bytes_.get() + front);
  }
  [[nodiscard]] std::uint8_t* data() const { return bytes_.get(); }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(size_); }
  [[nodiscard]] std::span<const std::uint8_t> behind(std::size_t front) const {
    return {bytes_.get() + front, size_ - front};
  }
  [[nodiscard]] wire::Parsed parsed() const {
    wire::Parsed parsed;
    wire::parse_frame(data(), size(), size(), parsed);
    return parsed;
  }

 private:
  std::unique_ptr<std::uint8_t[]> bytes_;
  std::size_t size_;
};

// Of one's complement sums 0 is written in two ways, and what is changed back has the other one.
bool has_odd_checksum(const Frame& frame, const wire::Parsed& parsed) {
  if (parsed.has(wire::ParsedFlag::ipv6)) return false;
  return wire::header_at<wire::Ipv4Header>(frame.data() + parsed.l3_offset).checksum.value() == 0xffff;
}

bool is_tail_on_the_new_path(const ConweaveTag& tag) {
  return tag.tail && tag.rerouted;
}

// What is read of a report, written anew, is read again.
void require_report_in_bounds(const Frame& head, const wire::Parsed& parsed) {
  std::vector<GemmaEntry> entries(kMaxReportEntries);
  const auto found = read_report(head.data(), head.size(), parsed, entries);
  const Frame out{std::vector<std::uint8_t>(std::max(report_bytes(found.size()), wire::kMinFrameBytes))};
  const ReportSender sender{wire::MacAddress::from_u64(2), wire::IpAddress::v4(1), 48};
  require(write_report({out.data(), out.size()}, sender, found) == out.size(), "a report has the room it asks for");
  const wire::Parsed again = out.parsed();
  require(tag_validity(out.data(), out.size(), again) == TagValidity::ok, "a report has a tag");
  require(tag_kind(out.data(), again) == TagKind::gemma_report && is_from_neighbour(again), "of its kind");
  std::vector<GemmaEntry> room(kMaxReportEntries);
  const auto back = read_report(out.data(), out.size(), again, room);
  require(std::equal(back.begin(), back.end(), found.begin(), found.end()), "it says what it was given");
}

void require_reads_in_bounds(std::span<const std::uint8_t> input) {
  for (const std::size_t contiguous : {input.size(), input.size() / 2, std::min<std::size_t>(input.size(), 60)}) {
    const Frame head(input.first(contiguous));
    wire::Parsed parsed;
    wire::parse_frame(head.data(), head.size(), static_cast<std::uint32_t>(input.size()), parsed);
    if (tag_validity(head.data(), head.size(), parsed) != TagValidity::ok) continue;
    if (tag_kind(head.data(), parsed) == TagKind::conga) {
      const LbTag tag = read_tag(head.data(), parsed);
      raise_congestion(head.data(), parsed, 200);
      require(read_tag(head.data(), parsed).congestion == std::max<std::uint8_t>(tag.congestion, 200), "raised");
    } else if (tag_kind(head.data(), parsed) == TagKind::gemma_report) {
      require_report_in_bounds(head, parsed);
    } else {
      require(!is_tail_on_the_new_path(read_conweave(tag_header(head.data(), parsed)).tag), "a TAIL on the old path");
      static_cast<void>(read_answer(tag_header(head.data(), parsed)));
      static_cast<void>(answered_flow(head.data(), parsed));
    }
  }
}

void take_off(std::span<const std::uint8_t> input) {
  const Frame frame(input);
  const wire::Parsed parsed = frame.parsed();
  if (tag_validity(frame.data(), frame.size(), parsed) != TagValidity::ok) return;
  take_tag_off(frame.data(), parsed);
  const Frame rest(frame.behind(kTagBytes));
  const wire::Parsed again = rest.parsed();
  require(again.l3_length + kTagBytes == parsed.l3_length, "shorter by the tag");
  require(again.address_key == parsed.address_key && again.source_port == parsed.source_port, "the same flow");
}

void put_on_and_take_off(std::span<const std::uint8_t> input) {
  const wire::Parsed before = Frame(input).parsed();
  if (!may_have_tag(before) || before.l3_length + kTagBytes > 0xffff) return;
  const Frame frame(input, kTagBytes);
  const LbTag tag{.leaf = 77, .path = 5, .congestion = 3, .has_feedback = true, .feedback_path = 1, .feedback = 2};
  put_tag_on(frame.data(), before, tag);
  const wire::Parsed parsed = frame.parsed();
  require(parsed.kind == wire::FrameKind::udp && parsed.l3_length == before.l3_length + kTagBytes, "longer by the tag");
  require(parsed.source_port == before.source_port && parsed.address_key == before.address_key, "the same flow");
  require(tag_validity(frame.data(), frame.size(), parsed) == TagValidity::ok, "a tag");
  require(read_tag(frame.data(), parsed) == tag, "what it was given");
  take_tag_off(frame.data(), parsed);
  if (has_odd_checksum(Frame(input), before)) return;
  require(std::equal(input.begin(), input.end(), frame.behind(kTagBytes).begin()), "every byte");
}

// The same for a tag of ConWeave, and what is answered to it.
void put_conweave_on(std::span<const std::uint8_t> input) {
  const wire::Parsed before = Frame(input).parsed();
  if (!may_have_tag(before) || before.l3_length + kTagBytes > 0xffff) return;
  const Frame frame(input, kTagBytes);
  const ConweaveLabel label{
      .leaf = 77,
      .path = 5,
      .tag = {.epoch = 9, .rerouted = true, .sent = ConweaveTime::of(1 << 20), .tail_sent = ConweaveTime::of(1 << 19)}};
  put_tag_on(frame.data(), before, label);
  const wire::Parsed parsed = frame.parsed();
  require(tag_validity(frame.data(), frame.size(), parsed) == TagValidity::ok, "a tag");
  require(tag_kind(frame.data(), parsed) == TagKind::conweave, "of its kind");
  require(read_conweave(tag_header(frame.data(), parsed)) == label, "what it was given");

  const Frame plain(input);
  const Frame room{std::vector<std::uint8_t>(kMaxReplyBytes)};
  const ConweaveAnswer answer{77, 5, {ConweaveReply::Kind::clear, 9}};
  const std::size_t used = write_answer({room.data(), room.size()}, plain.data(), before, answer, 48);
  if (used == 0) return require((input[0] & 1) != 0, "only what went to a group has no answer");
  require(used >= 60, "any reply has room");
  const Frame reply(room.behind(0).first(used));
  const wire::Parsed back = reply.parsed();
  require(tag_validity(reply.data(), reply.size(), back) == TagValidity::ok, "an answer has a tag");
  require(read_answer(tag_header(reply.data(), back)) == answer, "it says what it was given");
  require(answered_flow(reply.data(), back) == FlowKey::of_qp(before), "it is about the flow");
}

}  // namespace
}  // namespace weft::stages

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kLargestFrame = 16384;
  if (size > kLargestFrame) return 0;
  weft::stages::require_reads_in_bounds({data, size});
  weft::stages::take_off({data, size});
  weft::stages::put_on_and_take_off({data, size});
  weft::stages::put_conweave_on({data, size});
  return 0;
}
