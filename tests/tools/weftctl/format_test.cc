// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weftctl/format.h"

#include <gmock/gmock.h>

#include <sstream>
#include <string>
#include <vector>

namespace weft::weftctl {
namespace {

using Json = nlohmann::ordered_json;

std::string table(const char* rows, const TableStyle& style = {}) {
  return format_table(Json::parse(rows).get<std::vector<Json>>(), style);
}

std::string cell(const char* value) {
  return cell_text(Json::parse(value));
}

std::size_t longest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t longest = 0;
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

TEST(Cell, ScalarsAreShort) {
  EXPECT_EQ(cell("null"), "-");
  EXPECT_EQ(cell(R"("")"), "-");
  EXPECT_EQ(cell("true"), "yes");
  EXPECT_EQ(cell("false"), "no");
  EXPECT_EQ(cell("18446744073709551615"), "18446744073709551615");
  EXPECT_EQ(cell("-1"), "-1");
  EXPECT_EQ(cell("0.1"), "0.1");
  EXPECT_EQ(cell("2.0"), "2");
}

TEST(Cell, NestedValuesAreOneLine) {
  EXPECT_EQ(cell(R"(["10.1.0.1", "10.1.0.3"])"), "10.1.0.1, 10.1.0.3");
  EXPECT_EQ(cell("[]"), "-");
  EXPECT_EQ(cell("{}"), "-");
  EXPECT_EQ(cell(R"({"rx": 1, "tx": null})"), "rx=1 tx=-");
  EXPECT_EQ(cell(R"([{"address": "10.1.0.1", "port": "u1"}, {"address": "10.1.0.3", "port": "u2"}])"),
            "address=10.1.0.1 port=u1, address=10.1.0.3 port=u2");
  EXPECT_EQ(cell(R"({"vlans": [1, [2, 3]], "x": {"y": {}}})"), "vlans=[1, [2, 3]] x={y={}}");
  EXPECT_EQ(cell(R"([[1, 2], []])"), "[1, 2], []");
}

TEST(Cell, NothingInAStringSteersTheTerminal) {
  EXPECT_EQ(cell(R"("a\u001b[2Jb\nc\u007fd")"), "a?[2Jb?c?d");
  EXPECT_EQ(cell(R"("\u00e9")"), "??");
  EXPECT_EQ(cell(R"({"a\nb": 1})"), "a?b=1");
}

TEST(Cell, ThousandsSeparateGroupsOfThreeDigits) {
  EXPECT_EQ(cell_text(Json(1), true), "1");
  EXPECT_EQ(cell_text(Json(999), true), "999");
  EXPECT_EQ(cell_text(Json(1000), true), "1,000");
  EXPECT_EQ(cell_text(Json(-100), true), "-100");
  EXPECT_EQ(cell_text(Json(-1234567), true), "-1,234,567");
  EXPECT_EQ(cell_text(Json(~std::uint64_t{0}), true), "18,446,744,073,709,551,615");
}

TEST(Table, WithoutRowsSaysSo) {
  EXPECT_EQ(format_table({}, {}), "no rows\n");
}

TEST(Table, AlignsNumbersRightAndTextLeft) {
  EXPECT_EQ(table(R"([{"port": "h1", "link": true, "rx_packets": 7, "note": ""},
                      {"port": "uplink1", "link": false, "rx_packets": 123456789012, "note": null}])"),
            "port     link    rx_packets  note\n"
            "h1       yes              7  -\n"
            "uplink1  no    123456789012  -\n");
}

TEST(Table, AColumnOfNumbersAndNullsIsNumeric) {
  EXPECT_EQ(table(R"([{"a": null, "b": null}, {"a": 12345, "b": null}, {"a": 1, "b": "x"}])"),
            "    a  b\n"
            "    -  -\n"
            "12345  -\n"
            "    1  x\n");
}

TEST(Table, AColumnOfNumbersAndWordsIsText) {
  EXPECT_EQ(table(R"([{"vlan": 10, "x": 1}, {"vlan": "trunk", "x": 2}])"),
            "vlan   x\n"
            "10     1\n"
            "trunk  2\n");
}

TEST(Table, KeepsTheKeysOfTheFirstRowAndAppendsLaterOnes) {
  EXPECT_EQ(table(R"([{"stage": "parse", "seen": 4}, {"icmp_sent": 1, "stage": "l3"}])"),
            "stage  seen  icmp_sent\n"
            "parse     4          -\n"
            "l3        -          1\n");
}

TEST(Table, GroupsDigitsWhenAsked) {
  EXPECT_EQ(table(R"([{"bytes": 1234567}])", {100, true}),
            "    bytes\n"
            "1,234,567\n");
}

TEST(Table, OfExactlyTheWidthIsNotShortened) {
  const auto rows = [](std::size_t length) {
    return std::vector<Json>{{{"p", "h1"}, {"text", std::string(length, 'x')}}};
  };
  EXPECT_EQ(format_table(rows(96), {}), "p   text\nh1  " + std::string(96, 'x') + "\n");
  EXPECT_EQ(format_table(rows(97), {}), "p   text\nh1  " + std::string(93, 'x') + "...\n");
}

TEST(Table, ShortensTheWidestTextFirst) {
  EXPECT_EQ(table(R"([{"prefix": "10.0.2.0/24", "next_hops": ["10.1.0.1", "10.1.0.3", "10.1.0.5"], "metric": 20},
                      {"prefix": "2001:db8:aaaa::/48", "next_hops": ["10.1.0.1"], "metric": 5}])",
                  {50, false}),
            "prefix              next_hops               metric\n"
            "10.0.2.0/24         10.1.0.1, 10.1.0.3,...      20\n"
            "2001:db8:aaaa::/48  10.1.0.1                     5\n");
}

TEST(Table, SharesTheShortageAmongWideColumns) {
  const std::string long_text(80, 'y');
  const std::string text = format_table({{{"a", long_text}, {"b", long_text}, {"c", "short"}}}, {});
  EXPECT_EQ(longest_line(text), 100U);
  EXPECT_EQ(text, "a" + std::string(45, ' ') + "  b" + std::string(44, ' ') + "  c\n" + std::string(43, 'y') + "...  " +
                      std::string(42, 'y') + "...  short\n");
}

TEST(Table, NeverShortensANumberOrAHeading) {
  const std::string text = table(R"([{"name": "x", "a_long_heading_of_text": "short", "n": 123456789}])", {20, false});
  EXPECT_EQ(text,
            "name  a_long_heading_of_text\n"
            "x     short\n"
            "\n"
            "name          n\n"
            "x     123456789\n");
}

TEST(Table, MovesColumnsThatHaveNoRoomBelow) {
  EXPECT_EQ(table(R"([{"switch": "tor1", "port": "h1", "rx_packets": 1, "rx_bytes": 2, "tx_packets": 3, "tx_bytes": 4},
                      {"switch": "tor2", "port": "h2", "rx_packets": 5, "rx_bytes": 6, "tx_packets": 7,
                       "tx_bytes": 8}])",
                  {36, false}),
            "switch  port  rx_packets  rx_bytes\n"
            "tor1    h1             1         2\n"
            "tor2    h2             5         6\n"
            "\n"
            "switch  port  tx_packets  tx_bytes\n"
            "tor1    h1             3         4\n"
            "tor2    h2             7         8\n");
}

TEST(Table, EveryBlockHasTheColumnsThatTellItsRowsApart) {
  EXPECT_EQ(table(R"([{"port": "p1", "queue": 3, "packets": 1, "bytes": 2, "dropped": 3, "marked": 4},
                      {"port": "p1", "queue": 4, "packets": 5, "bytes": 6, "dropped": 7, "marked": 8}])",
                  {30, false}),
            "port  queue  packets  bytes\n"
            "p1        3        1      2\n"
            "p1        4        5      6\n"
            "\n"
            "port  queue  dropped  marked\n"
            "p1        3        3       4\n"
            "p1        4        7       8\n");
}

TEST(Table, ShortensTextBeforeItMovesColumns) {
  EXPECT_EQ(table(R"([{"id": "qp1", "state": "one two three four", "packets": 1}])", {26, false}),
            "id   state         packets\n"
            "qp1  one two t...        1\n");
}

TEST(Table, WithoutALimitShortensNothing) {
  const std::string text(500, 'x');
  EXPECT_EQ(format_table({{{"text", text}, {"n", 1}}}, {0, false}),
            "text" + std::string(496, ' ') + "  n\n" + text + "  1\n");
}

TEST(Table, FitsAHundredColumnsWhateverTheRows) {
  for (std::size_t columns = 1; columns < 30; ++columns) {
    for (const std::size_t length : {1UL, 13UL, 40UL, 200UL, 5000UL}) {
      Json row;
      for (std::size_t i = 0; i < columns; ++i) {
        const std::string key = "key" + std::to_string(i);
        row[key] = i % 3 == 0 ? Json(std::string(length, 'x')) : Json(length);
      }
      const std::string text = format_table({row, row}, {});
      EXPECT_LE(longest_line(text), 100U) << columns << " columns, texts of " << length;
    }
  }
}

TEST(Facts, AreAlignedLines) {
  EXPECT_EQ(
      format_facts(Json::parse(R"({"version": "0.1.0", "uptime_s": 12, "workers": [1, 2], "configuration": ""})")),
      "version        0.1.0\n"
      "uptime_s       12\n"
      "workers        1, 2\n"
      "configuration  -\n");
  EXPECT_EQ(format_facts(Json::object()), "");
}

}  // namespace
}  // namespace weft::weftctl
