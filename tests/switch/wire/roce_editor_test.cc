// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/roce_editor.h"

#include <gtest/gtest.h>

#include "switch/wire/checksum.h"
#include "tests/switch/wire/reference_icrc.h"
#include "tests/switch/wire/samples.h"

namespace weft::wire {
namespace {

/// The UDP checksum of a packet is right, or there is none.
bool udp_checksum_ok(std::vector<std::uint8_t> frame, const Parsed& p) {
  auto& udp = header_at<UdpHeader>(frame.data() + p.l4_offset);
  const std::uint16_t checksum = udp.checksum.value();
  if (checksum == 0) return true;
  udp.checksum.set(0);
  const auto datagram = std::span<const std::uint8_t>(frame).subspan(p.l4_offset, udp.length.value());
  const auto* ip = frame.data() + p.l3_offset;
  const std::uint16_t expected = p.has(ParsedFlag::ipv6)
                                     ? l4_checksum(header_at<Ipv6Header>(ip), IpProtocol::udp, datagram)
                                     : l4_checksum(header_at<Ipv4Header>(ip), IpProtocol::udp, datagram);
  return checksum == expected;
}

IpAddress random_address(TestRandom& random, bool v6) {
  if (!v6) return IpAddress::v4(random.word());
  std::array<std::uint8_t, 16> bytes{};
  for (auto& b : bytes) b = static_cast<std::uint8_t>(random(256));
  return IpAddress::v6(bytes);
}

/// Any number of edits of any fields.
void edit_at_random(RoceEditor& editor, TestRandom& random, const Parsed& p) {
  const OpcodeInfo& row = opcode_info(p.opcode);
  for (std::uint32_t edits = random(14); edits > 0; --edits) {
    switch (random(8)) {
      case 0:
        editor.set_source_port(static_cast<std::uint16_t>(random.word()));
        break;
      case 1:
        editor.set_dest_qp(Qpn(1 + random(0xffffff)));
        break;
      case 2:
        editor.set_psn(Psn(random.word()));
        break;
      case 3:
        editor.set_ack_req(random(2) == 0);
        break;
      case 4:
        editor.set_source(random_address(random, p.has(ParsedFlag::ipv6)));
        break;
      case 5:
        editor.set_destination(random_address(random, p.has(ParsedFlag::ipv6)));
        break;
      case 6:
        if (row.has(HeaderMask::aeth)) {
          editor.set_aeth(Syndrome(static_cast<std::uint8_t>(random(256))), random(1 << 24));
        }
        break;
      default:
        if (row.has(HeaderMask::reth)) editor.set_reth(random.word(), random.word(), random.word());
        break;
    }
  }
}

/// Every sample with and without a UDP checksum, longer ones, and one with a covered length that is odd.
std::vector<Sample> editable_samples() {
  auto samples = roce_samples();
  const auto add = [&](const char* name, FrameBuilder b) { samples.push_back({name, b.build()}); };
  const auto write = [] { return FrameBuilder().bth(Opcode::RC_RDMA_WRITE_ONLY, Qpn(5), Psn(6)).payload(1024); };
  add("summed", write().with_udp_checksum());
  add("summed v6", write().ipv6("::1", "::2").with_udp_checksum());
  add("summed tagged", write().vlan(9).with_udp_checksum());
  add("jumbo", write().payload(9000));
  add("options", write().ip_options(std::vector<std::uint8_t>(12, 1)).with_udp_checksum());
  add("extensions", write().ipv6("::1", "::2").extension(60, 3).with_udp_checksum());
  for (std::uint16_t cut = 1; cut < 4; ++cut) {
    // Without pad, so that the covered part has no multiple of four bytes.
    auto frame = write().payload(64).build();
    const Parsed p = parse(frame);
    const auto length =
        static_cast<std::uint16_t>(header_at<UdpHeader>(frame.data() + p.l4_offset).length.value() - cut);
    frame = write().payload(64).udp_length(length).build();
    const RoceLayout layout = roce_layout(frame.data(), parse(frame));
    store_icrc(frame.data() + layout.icrc, icrc_full(frame.data(), layout));
    auto& udp = header_at<UdpHeader>(frame.data() + layout.l4);
    const auto datagram = std::span<const std::uint8_t>(frame).subspan(layout.l4, length);
    udp.checksum.set(l4_checksum(header_at<Ipv4Header>(frame.data() + layout.l3), IpProtocol::udp, datagram));
    samples.push_back({"cut by " + std::to_string(cut), frame});
  }
  return samples;
}

TEST(RoceEditor, RandomEditsLeaveAValidPacketInBothModes) {
  TestRandom random;
  for (int round = 0; round < 30; ++round) {
    for (const auto& s : editable_samples()) {
      for (const IcrcMode mode : {IcrcMode::incremental, IcrcMode::full}) {
        auto frame = s.frame;
        Parsed p = parse(frame);
        ASSERT_EQ(p.kind, FrameKind::roce) << s.name;
        RoceEditor editor(frame.data(), p);
        edit_at_random(editor, random, p);
        editor.finish(mode);
        const RoceLayout layout = roce_layout(frame.data(), p);
        ASSERT_EQ(load_icrc(frame.data() + layout.icrc), reference_icrc(frame, layout))
            << s.name << " seed " << random.seed();
        if (!p.has(ParsedFlag::ipv6)) {
          ASSERT_TRUE(ipv4_checksum_ok(header_at<Ipv4Header>(frame.data() + p.l3_offset))) << s.name;
        }
        ASSERT_TRUE(udp_checksum_ok(frame, p)) << s.name << " seed " << random.seed();
        ASSERT_TRUE(same(p, parse(frame))) << s.name << ": Parsed does not follow the packet";
      }
    }
  }
}

TEST(RoceEditor, EditsTouchNothingButTheirFieldAndTheChecksums) {
  const auto before = FrameBuilder().bth(Opcode::RC_RDMA_WRITE_ONLY, Qpn(5), Psn(6)).fecn().payload(64).build();
  auto frame = before;
  Parsed p = parse(frame);
  RoceEditor editor(frame.data(), p);
  editor.set_psn(Psn(0xabcdef));
  editor.finish(IcrcMode::incremental);
  for (std::size_t i = 0; i < frame.size(); ++i) {
    const bool psn = i >= 51 && i < 54, icrc = i >= frame.size() - 4;
    EXPECT_TRUE(psn || icrc || frame[i] == before[i]) << i;
  }
  EXPECT_EQ(header_at<Bth>(frame.data() + 42).psn.value(), 0xabcdefu);
}

TEST(RoceEditor, AWrongIcrcStaysWrongIncrementallyAndIsHiddenByAFullOne) {
  TestRandom random;
  for (const auto& s : editable_samples()) {
    for (const IcrcMode mode : {IcrcMode::incremental, IcrcMode::full}) {
      auto frame = s.frame;
      Parsed p = parse(frame);
      const RoceLayout layout = roce_layout(frame.data(), p);
      const std::uint32_t error = 1 + random(0xfffffffe);
      store_icrc(frame.data() + layout.icrc, load_icrc(frame.data() + layout.icrc) ^ error);
      RoceEditor editor(frame.data(), p);
      edit_at_random(editor, random, p);
      editor.finish(mode);
      const std::uint32_t wrong_by = load_icrc(frame.data() + layout.icrc) ^ reference_icrc(frame, layout);
      ASSERT_EQ(wrong_by, mode == IcrcMode::full ? 0 : error) << s.name << " seed " << random.seed();
    }
  }
}

TEST(RoceEditor, ACorruptPayloadStaysDetectableIncrementally) {
  auto frame = FrameBuilder().bth(Opcode::RC_SEND_ONLY, Qpn(5), Psn(6)).payload(64).build();
  frame[60] ^= 4;
  Parsed p = parse(frame);
  RoceEditor editor(frame.data(), p);
  editor.set_source_port(1);
  editor.finish(IcrcMode::incremental);
  EXPECT_FALSE(icrc_ok(frame.data(), p));
}

TEST(RoceEditor, APacketInPiecesComesOutLikeOneInOnePieceWhereverItIsCut) {
  for (const IcrcMode mode : {IcrcMode::incremental, IcrcMode::full}) {
    const auto original =
        FrameBuilder().bth(Opcode::RC_SEND_ONLY, Qpn(5), Psn(6)).with_udp_checksum().payload(33).build();
    auto whole = original;
    Parsed p = parse(whole);
    RoceEditor editor(whole.data(), p);
    editor.set_dest_qp(Qpn(0x777));
    editor.set_psn(Psn(0x888));
    editor.finish(mode);
    // Three pieces; every pair of cuts, those inside the ICRC included.
    for (std::size_t first = 54; first <= original.size(); ++first) {
      for (std::size_t second = first; second <= original.size(); ++second) {
        std::vector<std::uint8_t> a(original.begin(), original.begin() + static_cast<std::ptrdiff_t>(first));
        std::vector<std::uint8_t> b(original.begin() + static_cast<std::ptrdiff_t>(first),
                                    original.begin() + static_cast<std::ptrdiff_t>(second));
        std::vector<std::uint8_t> c(original.begin() + static_cast<std::ptrdiff_t>(second), original.end());
        Parsed q = parse(original);
        RoceEditor pieces(a.data(), q);
        pieces.set_dest_qp(Qpn(0x777));
        pieces.set_psn(Psn(0x888));
        const std::array<std::span<std::uint8_t>, 3> segments{a, b, c};
        pieces.finish(mode, segments);
        a.insert(a.end(), b.begin(), b.end());
        a.insert(a.end(), c.begin(), c.end());
        ASSERT_EQ(a, whole) << first << " " << second;
      }
    }
  }
}

TEST(RoceEditor, OpcodesWithTheSameHeadersCanBeExchanged) {
  auto frame = FrameBuilder().bth(Opcode::RC_SEND_LAST, Qpn(5), Psn(6)).payload(64).build();
  Parsed p = parse(frame);
  RoceEditor editor(frame.data(), p);
  editor.set_opcode(Opcode::RC_SEND_MIDDLE);
  editor.finish(IcrcMode::incremental);
  EXPECT_TRUE(same(p, parse(frame)));
  EXPECT_TRUE(icrc_ok(frame.data(), p));
}

TEST(RoceEditor, OfAFrameWithoutItsEndOnlyTheUdpChecksumIsWritten) {
  for (const bool summed : {false, true}) {
    auto builder = FrameBuilder().bth(Opcode::RC_SEND_ONLY, Qpn(5), Psn(6)).payload(64);
    auto frame = (summed ? builder.with_udp_checksum() : builder).build();
    const std::vector<std::uint8_t> end(frame.end() - 68, frame.end());
    Parsed p = parse(frame);
    RoceEditor editor(frame.data(), p);
    editor.set_source_port(0xc123);
    editor.finish_headers();
    EXPECT_EQ(header_at<UdpHeader>(frame.data() + p.l4_offset).checksum.value() != 0, summed);
    EXPECT_TRUE(udp_checksum_ok(frame, p)) << "over the ICRC that was there";
    EXPECT_EQ(std::vector<std::uint8_t>(frame.end() - 68, frame.end()), end);
  }
}

TEST(RoceEditor, TheUdpChecksumCanBeTakenOut) {
  auto frame = FrameBuilder().bth(Opcode::RC_SEND_ONLY, Qpn(5), Psn(6)).with_udp_checksum().payload(64).build();
  Parsed p = parse(frame);
  frame[60] = 99;
  RoceEditor editor(frame.data(), p);
  editor.clear_udp_checksum();
  editor.finish(IcrcMode::full);
  EXPECT_EQ(header_at<UdpHeader>(frame.data() + p.l4_offset).checksum.value(), 0);
  EXPECT_TRUE(icrc_ok(frame.data(), p));
}

}  // namespace
}  // namespace weft::wire
