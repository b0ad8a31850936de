// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/json_text.h"

#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

namespace weft::inc::manager {
namespace {

TEST(JsonText, HasCommasBetweenValuesOnly) {
  JsonText out;
  out.open_object().member("a", 1u).key("b").open_array().close_array().key("c").open_object().close_object();
  out.key("d").open_array().value(true).open_array().value(false).close_array();
  out.open_object().member("e", "f").close_object().open_object().close_object().close_array();
  out.key("g").values(std::vector<std::uint32_t>{1, 2, 3}).close_object();
  EXPECT_EQ(out.take(), R"({"a":1,"b":[],"c":{},"d":[true,[false],{"e":"f"},{}],"g":[1,2,3]})");
}

TEST(JsonText, TextIsReadBackAsItWas) {
  std::string all;
  for (int c = 0; c < 128; ++c) all += static_cast<char>(c);
  for (const std::string& text : {all, std::string("M\xc3\xbcnster"), std::string(), std::string("ends with ["),
                                  std::string("a\\"), std::string("{:,\"")}) {
    JsonText out;
    out.open_array().value(text).value(text).close_array();
    EXPECT_EQ(nlohmann::json::parse(out.take()), nlohmann::json::array({text, text})) << text;
  }
}

TEST(JsonText, NumbersHave64Bits) {
  JsonText out;
  out.open_array().value(std::numeric_limits<std::uint64_t>::max()).value(std::uint16_t{0}).close_array();
  EXPECT_EQ(out.take(), "[18446744073709551615,0]");
}

}  // namespace
}  // namespace weft::inc::manager
