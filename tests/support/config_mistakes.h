// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Configuration texts whose mistakes are marked: '@' stands where the loader must point.
#pragma once

#include <gmock/gmock.h>

#include <string>
#include <string_view>
#include <vector>

#include "switch/config/config.h"
#include "tests/support/config_registry.h"

namespace weft::testing {

/// A text without its '@' marks, and "file:line:column: " of each of them.
struct MarkedText {
  std::string text;
  std::vector<std::string> positions;
};

inline MarkedText strip_marks(std::string_view marked, const std::string& file) {
  MarkedText out;
  int line = 1;
  int column = 1;
  for (const char c : marked) {
    if (c == '@') {
      out.positions.push_back(file + ":" + std::to_string(line) + ":" + std::to_string(column) + ": ");
      continue;
    }
    out.text += c;
    // Continuation bytes of UTF-8 take no column.
    if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) ++column;
    if (c == '\n') {
      ++line;
      column = 1;
    }
  }
  return out;
}

/// The lines that a loader must report: the i-th text at the i-th mark.
inline std::string expected_lines(const MarkedText& marked, const std::vector<std::string>& texts) {
  std::string out;
  for (std::size_t i = 0; i < texts.size(); ++i) out += marked.positions.at(i) + texts[i] + "\n";
  return out;
}

/// Expects that load_config() refuses `marked` with exactly these mistakes, in the order of the file.
inline void expect_mistakes(std::string_view marked, const std::vector<std::string>& texts) {
  const MarkedText stripped = strip_marks(marked, "weft.yaml");
  ASSERT_EQ(stripped.positions.size(), texts.size()) << "one '@' per mistake";
  config::Diagnostics diagnostics;
  const auto config = config::load_config(stripped.text, "weft.yaml", config_registry(), diagnostics);
  EXPECT_FALSE(config.has_value());
  EXPECT_EQ(diagnostics.to_string(), expected_lines(stripped, texts)) << stripped.text;
}

/// Expects that load_config() accepts the text; `texts` are notes at its marks.
inline config::Config expect_accepted(std::string_view marked, const std::vector<std::string>& texts = {}) {
  const MarkedText stripped = strip_marks(marked, "weft.yaml");
  config::Diagnostics diagnostics;
  auto config = config::load_config(stripped.text, "weft.yaml", config_registry(), diagnostics);
  EXPECT_TRUE(config.has_value()) << stripped.text;
  EXPECT_EQ(diagnostics.to_string(), expected_lines(stripped, texts));
  return config ? *config : config::Config{};
}

/// A file with one bridging switch of the ports p1 and p2, whose further keys are `rest` (indented by four).
inline std::string bridge_with(std::string_view rest) {
  return "switches:\n"
         "  - name: s1\n"
         "    ports:\n"
         "      - { name: p1, type: null }\n"
         "      - { name: p2, type: null }\n"
         "    pipeline: [parse, l2]\n" +
         std::string(rest);
}

/// A file with one routing switch: p1 is 10.0.1.1/24 and 2001:db8:1::1/64, p2 is 10.0.2.1/24.
inline std::string router_with(std::string_view rest) {
  return "switches:\n"
         "  - name: s1\n"
         "    ports:\n"
         "      - { name: p1, type: null }\n"
         "      - { name: p2, type: null }\n"
         "    pipeline: [parse, l3, lb]\n"
         "    addresses:\n"
         "      - { port: p1, address: 10.0.1.1/24 }\n"
         "      - { port: p1, address: \"2001:db8:1::1/64\" }\n"
         "      - { port: p2, address: 10.0.2.1/24 }\n" +
         std::string(rest);
}

/// A file with one bridging switch whose ports are `ports` (items, indented by six).
inline std::string ports_of(std::string_view ports) {
  return "switches:\n"
         "  - name: s1\n"
         "    pipeline: [parse, l2]\n"
         "    ports:\n" +
         std::string(ports);
}

}  // namespace weft::testing
