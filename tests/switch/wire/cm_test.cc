// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/cm.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "switch/wire/headers.h"
#include "tests/switch/wire/samples.h"

namespace weft::wire {
namespace {

using Mad = std::array<std::uint8_t, kMadBytes>;

std::uint32_t word(const Mad& mad, std::size_t at) {
  return header_at<be32>(mad.data() + 24 + at).value();
}
std::uint64_t double_word(const Mad& mad, std::size_t at) {
  return header_at<be64>(mad.data() + 24 + at).value();
}
unsigned byte(const Mad& mad, std::size_t at) {
  return mad[24 + at];
}

template <std::size_t kBytes>
void fill(std::array<std::uint8_t, kBytes>& bytes, TestRandom& random) {
  for (auto& b : bytes) b = static_cast<std::uint8_t>(random(256));
}

CmPath random_path(TestRandom& r) {
  CmPath p;
  p.local_lid = static_cast<std::uint16_t>(r.word());
  p.remote_lid = static_cast<std::uint16_t>(r.word());
  fill(p.local_gid, r);
  fill(p.remote_gid, r);
  p.flow_label = r(1 << 20);
  p.packet_rate = static_cast<std::uint8_t>(r(64));
  p.traffic_class = static_cast<std::uint8_t>(r(256));
  p.hop_limit = static_cast<std::uint8_t>(r(256));
  p.service_level = static_cast<std::uint8_t>(r(16));
  p.subnet_local = r(2) != 0;
  p.local_ack_timeout = static_cast<std::uint8_t>(r(32));
  return p;
}

CmReq random_req(TestRandom& r) {
  CmReq m;
  m.local_comm_id = r.word();
  m.service_id = std::uint64_t{r.word()} << 32 | r.word();
  m.local_ca_guid = std::uint64_t{r.word()} << 32 | r.word();
  m.local_qkey = r.word();
  m.local_qpn = Qpn(r.word());
  m.responder_resources = static_cast<std::uint8_t>(r(256));
  m.local_eecn = r(1 << 24);
  m.initiator_depth = static_cast<std::uint8_t>(r(256));
  m.remote_eecn = r(1 << 24);
  m.remote_cm_response_timeout = static_cast<std::uint8_t>(r(32));
  m.transport = static_cast<CmTransport>(r(4));
  m.end_to_end_flow_control = r(2) != 0;
  m.starting_psn = Psn(r.word());
  m.local_cm_response_timeout = static_cast<std::uint8_t>(r(32));
  m.retry_count = static_cast<std::uint8_t>(r(8));
  m.pkey = static_cast<std::uint16_t>(r.word());
  m.path_mtu = static_cast<std::uint8_t>(r(16));
  m.rdc_exists = r(2) != 0;
  m.rnr_retry_count = static_cast<std::uint8_t>(r(8));
  m.max_cm_retries = static_cast<std::uint8_t>(r(16));
  m.srq = r(2) != 0;
  m.extended_transport = static_cast<std::uint8_t>(r(8));
  m.primary = random_path(r);
  m.alternate = random_path(r);
  m.sap_supported = r(2) != 0;
  fill(m.private_data, r);
  return m;
}

CmRep random_rep(TestRandom& r) {
  CmRep m;
  m.local_comm_id = r.word();
  m.remote_comm_id = r.word();
  m.local_qkey = r.word();
  m.local_qpn = Qpn(r.word());
  m.local_eecn = r(1 << 24);
  m.starting_psn = Psn(r.word());
  m.responder_resources = static_cast<std::uint8_t>(r(256));
  m.initiator_depth = static_cast<std::uint8_t>(r(256));
  m.target_ack_delay = static_cast<std::uint8_t>(r(32));
  m.failover_accepted = static_cast<std::uint8_t>(r(4));
  m.end_to_end_flow_control = r(2) != 0;
  m.rnr_retry_count = static_cast<std::uint8_t>(r(8));
  m.srq = r(2) != 0;
  m.local_ca_guid = std::uint64_t{r.word()} << 32 | r.word();
  fill(m.private_data, r);
  return m;
}

/// One random message of the kind with this index in the variant.
CmMessage random_message(TestRandom& r, std::size_t index) {
  CmMessage m;
  m.transaction_id = std::uint64_t{r.word()} << 32 | r.word();
  const auto ids = [&](auto body) {
    body.local_comm_id = r.word();
    body.remote_comm_id = r.word();
    fill(body.private_data, r);
    return body;
  };
  switch (index) {
    case 0:
      m.body = random_req(r);
      break;
    case 1: {
      auto b = ids(CmMra{});
      b.answered = static_cast<CmAnswered>(r(4));
      b.service_timeout = static_cast<std::uint8_t>(r(32));
      m.body = b;
      break;
    }
    case 2: {
      auto b = ids(CmRej{});
      b.rejected = static_cast<CmAnswered>(r(4));
      b.info_length = static_cast<std::uint8_t>(r(73));
      b.reason = static_cast<CmRejectReason>(r(65536));
      fill(b.info, r);
      m.body = b;
      break;
    }
    case 3:
      m.body = random_rep(r);
      break;
    case 4:
      m.body = ids(CmRtu{});
      break;
    case 5: {
      auto b = ids(CmDreq{});
      b.remote_qpn = Qpn(r.word());
      m.body = b;
      break;
    }
    case 6:
      m.body = ids(CmDrep{});
      break;
    case 7: {
      CmSidrReq b;
      b.request_id = r.word();
      b.pkey = static_cast<std::uint16_t>(r.word());
      b.service_id = std::uint64_t{r.word()} << 32 | r.word();
      fill(b.private_data, r);
      m.body = b;
      break;
    }
    default: {
      CmSidrRep b;
      b.request_id = r.word();
      b.status = static_cast<std::uint8_t>(r(256));
      b.info_length = static_cast<std::uint8_t>(r(256));
      b.qpn = Qpn(r.word());
      b.service_id = std::uint64_t{r.word()} << 32 | r.word();
      b.qkey = r.word();
      fill(b.info, r);
      fill(b.private_data, r);
      m.body = b;
      break;
    }
  }
  return m;
}

TEST(Cm, EveryMessageSurvivesBuildingAndParsing) {
  TestRandom random;
  for (int round = 0; round < 2000; ++round) {
    for (std::size_t index = 0; index < 9; ++index) {
      const CmMessage m = random_message(random, index);
      const Mad mad = build_cm(m);
      CmMessage parsed;
      ASSERT_EQ(parse_cm(mad, parsed), CmValidity::ok);
      ASSERT_EQ(parsed, m) << name(m.attribute()) << " seed " << random.seed();
      ASSERT_EQ(build_cm(parsed), mad);
    }
  }
}

TEST(Cm, TheHeaderNamesClassMethodAttributeAndTransaction) {
  TestRandom random;
  for (std::size_t index = 0; index < 9; ++index) {
    const CmMessage m = random_message(random, index);
    const Mad mad = build_cm(m);
    EXPECT_EQ(header_at<be32>(mad.data()).value(), 0x01070203u);
    EXPECT_EQ(header_at<be32>(mad.data() + 4).value(), 0u);
    EXPECT_EQ(header_at<be64>(mad.data() + 8).value(), m.transaction_id);
    EXPECT_EQ(header_at<be16>(mad.data() + 16).value(), 0x10 + index);
    EXPECT_EQ(header_at<be16>(mad.data() + 18).value(), 0);
    EXPECT_EQ(header_at<be32>(mad.data() + 20).value(), 0u);
  }
}

TEST(Cm, ReqFieldsLieInTheWordsOfTheStandard) {
  TestRandom random;
  for (int round = 0; round < 200; ++round) {
    const CmReq m = random_req(random);
    const Mad mad = build_cm({1, m});
    EXPECT_EQ(word(mad, 0), m.local_comm_id);
    EXPECT_EQ(word(mad, 4), 0u);
    EXPECT_EQ(double_word(mad, 8), m.service_id);
    EXPECT_EQ(double_word(mad, 16), m.local_ca_guid);
    EXPECT_EQ(word(mad, 24), 0u);
    EXPECT_EQ(word(mad, 28), m.local_qkey);
    EXPECT_EQ(word(mad, 32), m.local_qpn.value() * 256 + m.responder_resources);
    EXPECT_EQ(word(mad, 36), m.local_eecn * 256 + m.initiator_depth);
    EXPECT_EQ(word(mad, 40), m.remote_eecn * 256 + m.remote_cm_response_timeout * 8u +
                                 static_cast<unsigned>(m.transport) * 2 + (m.end_to_end_flow_control ? 1 : 0));
    EXPECT_EQ(word(mad, 44), m.starting_psn.value() * 256 + m.local_cm_response_timeout * 8u + m.retry_count);
    EXPECT_EQ(word(mad, 48) >> 16, m.pkey);
    EXPECT_EQ(byte(mad, 50), m.path_mtu * 16u + (m.rdc_exists ? 8 : 0) + m.rnr_retry_count);
    EXPECT_EQ(byte(mad, 51), m.max_cm_retries * 16u + (m.srq ? 8 : 0) + m.extended_transport);
    for (const auto& [at, path] : {std::pair<std::size_t, CmPath>{52, m.primary}, {96, m.alternate}}) {
      EXPECT_EQ(word(mad, at), path.local_lid * 65536u + path.remote_lid);
      EXPECT_TRUE(std::equal(path.local_gid.begin(), path.local_gid.end(), mad.begin() + 24 + at + 4));
      EXPECT_TRUE(std::equal(path.remote_gid.begin(), path.remote_gid.end(), mad.begin() + 24 + at + 20));
      EXPECT_EQ(word(mad, at + 36), path.flow_label * 4096 + path.packet_rate);
      EXPECT_EQ(byte(mad, at + 40), path.traffic_class);
      EXPECT_EQ(byte(mad, at + 41), path.hop_limit);
      EXPECT_EQ(byte(mad, at + 42), path.service_level * 16u + (path.subnet_local ? 8 : 0));
      const unsigned sap = at == 96 && m.sap_supported ? 4 : 0;
      EXPECT_EQ(byte(mad, at + 43), path.local_ack_timeout * 8u + sap);
    }
    EXPECT_TRUE(std::equal(m.private_data.begin(), m.private_data.end(), mad.begin() + 24 + 140));
  }
}

TEST(Cm, RepFieldsLieInTheWordsOfTheStandard) {
  TestRandom random;
  for (int round = 0; round < 200; ++round) {
    const CmRep m = random_rep(random);
    const Mad mad = build_cm({1, m});
    EXPECT_EQ(word(mad, 0), m.local_comm_id);
    EXPECT_EQ(word(mad, 4), m.remote_comm_id);
    EXPECT_EQ(word(mad, 8), m.local_qkey);
    EXPECT_EQ(word(mad, 12), m.local_qpn.value() * 256);
    EXPECT_EQ(word(mad, 16), m.local_eecn * 256);
    EXPECT_EQ(word(mad, 20), m.starting_psn.value() * 256);
    EXPECT_EQ(byte(mad, 24), m.responder_resources);
    EXPECT_EQ(byte(mad, 25), m.initiator_depth);
    EXPECT_EQ(byte(mad, 26), m.target_ack_delay * 8u + m.failover_accepted * 2u + (m.end_to_end_flow_control ? 1 : 0));
    EXPECT_EQ(byte(mad, 27), m.rnr_retry_count * 32u + (m.srq ? 16 : 0));
    EXPECT_EQ(double_word(mad, 28), m.local_ca_guid);
    EXPECT_TRUE(std::equal(m.private_data.begin(), m.private_data.end(), mad.begin() + 24 + 36));
  }
}

TEST(Cm, FieldsOfTheOtherMessagesLieInTheWordsOfTheStandard) {
  TestRandom random;
  const auto rej = std::get<CmRej>(random_message(random, 2).body);
  Mad mad = build_cm({1, rej});
  EXPECT_EQ(byte(mad, 8), static_cast<unsigned>(rej.rejected) * 64);
  EXPECT_EQ(byte(mad, 9), rej.info_length * 2u);
  EXPECT_EQ(word(mad, 8) & 0xffff, static_cast<unsigned>(rej.reason));
  EXPECT_EQ(byte(mad, 12), rej.info[0]);
  EXPECT_EQ(byte(mad, 84), rej.private_data[0]);
  const auto mra = std::get<CmMra>(random_message(random, 1).body);
  mad = build_cm({1, mra});
  EXPECT_EQ(byte(mad, 8), static_cast<unsigned>(mra.answered) * 64);
  EXPECT_EQ(byte(mad, 9), mra.service_timeout * 8u);
  EXPECT_EQ(byte(mad, 10), mra.private_data[0]);
  const auto dreq = std::get<CmDreq>(random_message(random, 5).body);
  mad = build_cm({1, dreq});
  EXPECT_EQ(word(mad, 4), dreq.remote_comm_id);
  EXPECT_EQ(word(mad, 8), dreq.remote_qpn.value() * 256);
  EXPECT_EQ(byte(mad, 12), dreq.private_data[0]);
  const auto request = std::get<CmSidrReq>(random_message(random, 7).body);
  mad = build_cm({1, request});
  EXPECT_EQ(word(mad, 0), request.request_id);
  EXPECT_EQ(word(mad, 4), request.pkey * 65536u);
  EXPECT_EQ(double_word(mad, 8), request.service_id);
  EXPECT_EQ(byte(mad, 16), request.private_data[0]);
  const auto reply = std::get<CmSidrRep>(random_message(random, 8).body);
  mad = build_cm({1, reply});
  EXPECT_EQ(byte(mad, 4), reply.status);
  EXPECT_EQ(byte(mad, 5), reply.info_length);
  EXPECT_EQ(word(mad, 8), reply.qpn.value() * 256);
  EXPECT_EQ(double_word(mad, 12), reply.service_id);
  EXPECT_EQ(word(mad, 20), reply.qkey);
  EXPECT_EQ(byte(mad, 24), reply.info[0]);
  EXPECT_EQ(byte(mad, 96), reply.private_data[0]);
}

TEST(Cm, EachBrokenRuleIsNamed) {
  TestRandom random;
  const Mad good = build_cm(random_message(random, 0));
  CmMessage untouched{77, CmRtu{}};
  CmMessage out = untouched;
  const auto check = [&](const Mad& mad) { return parse_cm(mad, out); };
  EXPECT_EQ(parse_cm(std::span(good).first(255), out), CmValidity::truncated);
  std::vector<std::uint8_t> longer(good.begin(), good.end());
  longer.push_back(0);
  EXPECT_EQ(parse_cm(longer, out), CmValidity::oversized);
  const auto broken = [&](std::size_t at, std::uint8_t v) {
    Mad mad = good;
    mad[at] = v;
    return check(mad);
  };
  EXPECT_EQ(broken(0, 0), CmValidity::base_version);
  EXPECT_EQ(broken(1, 0x03), CmValidity::management_class);
  EXPECT_EQ(broken(2, 1), CmValidity::class_version);
  EXPECT_EQ(broken(3, 0x81), CmValidity::method);
  EXPECT_EQ(broken(17, 0x0f), CmValidity::attribute);
  EXPECT_EQ(broken(17, 0x19), CmValidity::attribute);
  EXPECT_EQ(broken(16, 0x01), CmValidity::attribute);
  Mad rej = build_cm({1, CmRej{}});
  rej[24 + 9] = 73 << 1;
  EXPECT_EQ(check(rej), CmValidity::rej_info_length);
  EXPECT_EQ(out, untouched);
}

TEST(Cm, EveryRuleAndMessageHasAName) {
  std::set<std::string_view> names, sentences;
  for (unsigned i = 0; i < kCmValidityCount; ++i) {
    names.insert(name(static_cast<CmValidity>(i)));
    sentences.insert(description(static_cast<CmValidity>(i)));
  }
  EXPECT_EQ(names.size(), kCmValidityCount);
  EXPECT_EQ(sentences.size(), kCmValidityCount);
  EXPECT_EQ(name(CmValidity::rej_info_length), "rej_info_length");
  EXPECT_EQ(name(CmAttribute::req), "REQ");
  EXPECT_EQ(name(CmAttribute::sidr_rep), "SIDR_REP");
}

TEST(Cm, AReqTravelsThroughAFrameToQp1) {
  TestRandom random;
  const CmMessage m = random_message(random, 0);
  const auto frame = FrameBuilder().mad(build_cm(m)).build();
  const Parsed p = parse(frame);
  CmMessage out;
  ASSERT_EQ(parse_cm(mad_in_frame(frame.data(), static_cast<std::uint32_t>(frame.size()), p), out), CmValidity::ok);
  EXPECT_EQ(out, m);
}

TEST(Cm, TimeoutCodesAreMultiplesOf4096Nanoseconds) {
  EXPECT_EQ(cm_timeout_ns(0), 4'096u);
  EXPECT_EQ(cm_timeout_ns(14), 67'108'864u);
  EXPECT_EQ(cm_timeout_ns(31), 4096ull << 31);
}

TEST(Gid, HoldsIpv6AndMappedIpv4Addresses) {
  const auto v4 = *IpAddress::parse("10.0.0.1"), v6 = *IpAddress::parse("2001:db8::1");
  EXPECT_EQ(gid_address(v4.bytes()), v4);
  EXPECT_EQ(gid_address(v6.bytes()), v6);
}

TEST(Cma, HeaderHasTheLayoutOfAnnexA11) {
  const CmaHeader v4{0, 0x1234, *IpAddress::parse("10.0.0.1"), *IpAddress::parse("10.0.0.2")};
  const auto bytes = build_cma(v4);
  EXPECT_EQ(bytes[0], 0);
  EXPECT_EQ(bytes[1], 0x40);
  EXPECT_EQ(bytes[2], 0x12);
  EXPECT_EQ(bytes[3], 0x34);
  EXPECT_EQ(header_at<be64>(bytes.data() + 4).value(), 0u);
  EXPECT_EQ(header_at<be32>(bytes.data() + 12).value(), 0u);
  EXPECT_EQ(header_at<be32>(bytes.data() + 16).value(), 0x0a000001u);
  EXPECT_EQ(header_at<be32>(bytes.data() + 32).value(), 0x0a000002u);
}

TEST(Cma, BothFamiliesSurviveBuildingAndParsing) {
  const CmaHeader v4{0, 1, *IpAddress::parse("10.0.0.1"), *IpAddress::parse("10.0.0.2")};
  const CmaHeader v6{0, 65535, *IpAddress::parse("2001:db8::1"), *IpAddress::parse("fe80::2")};
  EXPECT_EQ(parse_cma(build_cma(v4)), v4);
  EXPECT_EQ(parse_cma(build_cma(v6)), v6);
}

TEST(Cma, OtherVersionsAndShortDataAreRejected) {
  auto bytes = build_cma({0, 1, *IpAddress::parse("10.0.0.1"), *IpAddress::parse("10.0.0.2")});
  EXPECT_FALSE(parse_cma(std::span(bytes).first(35)));
  bytes[0] = 1;
  EXPECT_FALSE(parse_cma(bytes));
  bytes[0] = 0;
  bytes[1] = 0x50;
  EXPECT_FALSE(parse_cma(bytes));
}

TEST(Cma, ServiceIdentifierHoldsPortSpaceAndPort) {
  EXPECT_EQ((CmaServiceId{CmaServiceId::kTcp, 18515}.encode()), 0x0000000001064853u);
  EXPECT_EQ(CmaServiceId::decode(0x0000000001064853).port, 18515);
  EXPECT_EQ(CmaServiceId::decode(0x0000000001064853).port_space, CmaServiceId::kTcp);
}

}  // namespace
}  // namespace weft::wire
