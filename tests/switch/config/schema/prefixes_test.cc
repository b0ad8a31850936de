// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/schema/prefixes.h"

#include <gmock/gmock.h>

namespace weft::config {
namespace {

using ::testing::ElementsAre;

TEST(Prefixes, AreReadInTheirOrder) {
  const Value list(Value::List{Value("10.2.0.0/16"), Value("fd02::/32")});
  EXPECT_THAT(prefixes_of(list),
              ElementsAre(*wire::IpPrefix::parse("10.2.0.0/16"), *wire::IpPrefix::parse("fd02::/32")));
  EXPECT_TRUE(prefixes_of(Value(Value::List{})).empty());
}

TEST(Prefixes, HostBitsAreAMistakeWithThePrefixThatWasMeant) {
  Diagnostics diagnostics;
  for (const char* right : {"10.2.0.0/16", "0.0.0.0/0", "10.2.0.1/32", "fd02::/32", "no prefix"}) {
    check_host_bits("remote", Value(right), diagnostics);
  }
  EXPECT_TRUE(diagnostics.entries().empty());
  check_host_bits("remote", Value("10.2.0.1/16"), diagnostics);
  check_host_bits("prefixes", Value("fd02::1/32"), diagnostics);
  ASSERT_EQ(diagnostics.entries().size(), 2u);
  EXPECT_EQ(diagnostics.entries()[0].text, "remote: expected 10.2.0.0/16, found 10.2.0.1/16, which has host bits");
  EXPECT_EQ(diagnostics.entries()[1].text, "prefixes: expected fd02::/32, found fd02::1/32, which has host bits");
}

}  // namespace
}  // namespace weft::config
