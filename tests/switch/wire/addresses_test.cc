// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/addresses.h"

#include <gtest/gtest.h>

namespace weft::wire {
namespace {

TEST(MacAddress, ParsesAndFormatsBothCases) {
  const auto m = MacAddress::parse("aB:cD:eF:01:23:45");
  ASSERT_TRUE(m);
  EXPECT_EQ(m->to_u64(), 0xabcdef012345u);
  EXPECT_EQ(m->to_string(), "ab:cd:ef:01:23:45");
}

TEST(MacAddress, RejectsOtherForms) {
  for (const char* text : {"", "ab:cd:ef:01:23", "ab:cd:ef:01:23:45:", "abcd.ef01.2345", "ab-cd-ef-01-23-45",
                           "ab:cd:ef:01:23:4g", "ab:cd:ef:01:23:4", " b:cd:ef:01:23:45", "ab:cd:ef:01:2345:"}) {
    EXPECT_FALSE(MacAddress::parse(text)) << text;
  }
}

TEST(MacAddress, KnowsMulticastBroadcastAndZero) {
  EXPECT_TRUE(MacAddress::parse("01:80:c2:00:00:01")->is_multicast());
  EXPECT_FALSE(MacAddress::parse("02:00:00:00:00:01")->is_multicast());
  EXPECT_TRUE(MacAddress::parse("ff:ff:ff:ff:ff:ff")->is_broadcast());
  EXPECT_FALSE(MacAddress::parse("ff:ff:ff:ff:ff:fe")->is_broadcast());
  EXPECT_TRUE(MacAddress{}.is_zero());
}

TEST(MacAddress, ConvertsToIntegerAndBack) {
  for (unsigned bit = 0; bit < 48; ++bit) {
    const std::uint64_t v = std::uint64_t{1} << bit;
    EXPECT_EQ(MacAddress::from_u64(v).to_u64(), v);
  }
  EXPECT_EQ(MacAddress::from_u64(0x0102030405060708).to_u64(), 0x030405060708u);
}

TEST(IpAddress, ParsesAndFormatsIpv4) {
  const auto a = IpAddress::parse("10.1.2.255");
  ASSERT_TRUE(a);
  EXPECT_FALSE(a->is_v6());
  EXPECT_EQ(a->v4_value(), 0x0a0102ffu);
  EXPECT_EQ(a->to_string(), "10.1.2.255");
}

TEST(IpAddress, ParsesAndFormatsIpv6) {
  const auto a = IpAddress::parse("2001:DB8:0:0::1");
  ASSERT_TRUE(a);
  EXPECT_TRUE(a->is_v6());
  EXPECT_EQ(a->bytes()[1], 0x01);
  EXPECT_EQ(a->to_string(), "2001:db8::1");
}

TEST(IpAddress, RejectsOtherForms) {
  for (const char* text : {"", "10.1.2", "10.1.2.256", "010.1.2.3.4", "10.1.2.3 ", "1::2::3", "::g", "10.0.0.0/8"}) {
    EXPECT_FALSE(IpAddress::parse(text)) << text;
  }
}

TEST(IpAddress, AnIpv4AddressIsNotItsMappedIpv6Address) {
  EXPECT_NE(*IpAddress::parse("10.0.0.1"), *IpAddress::parse("::ffff:10.0.0.1"));
  EXPECT_EQ(IpAddress::parse("10.0.0.1")->bytes(), IpAddress::parse("::ffff:10.0.0.1")->bytes());
}

TEST(IpAddress, ClassifiesSpecialAddresses) {
  const auto is = [](const char* text, auto predicate) { return (*IpAddress::parse(text).*predicate)(); };
  EXPECT_TRUE(is("224.0.0.1", &IpAddress::is_multicast));
  EXPECT_TRUE(is("239.255.255.255", &IpAddress::is_multicast));
  EXPECT_FALSE(is("223.255.255.255", &IpAddress::is_multicast));
  EXPECT_TRUE(is("ff02::1", &IpAddress::is_multicast));
  EXPECT_TRUE(is("169.254.1.1", &IpAddress::is_link_local));
  EXPECT_TRUE(is("febf::1", &IpAddress::is_link_local));
  EXPECT_FALSE(is("fec0::1", &IpAddress::is_link_local));
  EXPECT_TRUE(is("127.1.2.3", &IpAddress::is_loopback));
  EXPECT_TRUE(is("::1", &IpAddress::is_loopback));
  EXPECT_FALSE(is("::2", &IpAddress::is_loopback));
  EXPECT_TRUE(is("0.0.0.0", &IpAddress::is_unspecified));
  EXPECT_TRUE(is("::", &IpAddress::is_unspecified));
}

TEST(IpPrefix, ParsesAndKeepsHostBits) {
  const auto p = IpPrefix::parse("10.1.2.3/20");
  ASSERT_TRUE(p);
  EXPECT_EQ(p->to_string(), "10.1.2.3/20");
  EXPECT_EQ(p->network().to_string(), "10.1.0.0/20");
}

TEST(IpPrefix, RejectsLengthsOutOfRangeAndOtherForms) {
  for (const char* text : {"10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8x", "::/129", "/8"}) {
    EXPECT_FALSE(IpPrefix::parse(text)) << text;
  }
  EXPECT_TRUE(IpPrefix::parse("0.0.0.0/0"));
  EXPECT_TRUE(IpPrefix::parse("::/128"));
}

TEST(IpPrefix, ContainsExactlyTheAddressesWithItsFirstBitsAtEveryLength) {
  const std::uint32_t base = 0xabcdef95;
  for (unsigned length = 0; length <= 32; ++length) {
    const IpPrefix p{IpAddress::v4(base), static_cast<std::uint8_t>(length)};
    for (unsigned bit = 0; bit < 32; ++bit) {
      EXPECT_EQ(p.contains(IpAddress::v4(base ^ 0x80000000u >> bit)), bit >= length) << length << " " << bit;
    }
  }
}

TEST(IpPrefix, ContainsWhatAgreesInItsBitsOfIpv6) {
  const auto base = IpAddress::parse("2001:db8:1234:5678:9abc:def0:1357:2468")->bytes();
  for (unsigned length = 0; length <= 128; ++length) {
    const IpPrefix p{IpAddress::v6(base), static_cast<std::uint8_t>(length)};
    EXPECT_TRUE(p.contains(IpAddress::v6(base)));
    for (unsigned bit = 0; bit < 128; ++bit) {
      auto other = base;
      other[bit / 8] ^= static_cast<std::uint8_t>(0x80u >> bit % 8);
      EXPECT_EQ(p.contains(IpAddress::v6(other)), bit >= length) << length << " " << bit;
    }
  }
}

TEST(IpPrefix, NeverContainsAnAddressOfTheOtherFamily) {
  EXPECT_FALSE(IpPrefix::parse("::/0")->contains(*IpAddress::parse("10.0.0.1")));
  EXPECT_FALSE(IpPrefix::parse("0.0.0.0/0")->contains(*IpAddress::parse("::1")));
}

}  // namespace
}  // namespace weft::wire
