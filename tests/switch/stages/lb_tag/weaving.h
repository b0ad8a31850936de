// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Leaves with ConWeave, whose spines are the test's hands.
#pragma once

#include <string>

#include "switch/stages/lb/conweave_tag.h"
#include "tests/switch/stages/lb_tag/rig.h"

namespace weft::stages::testing {

/// Leaf `number` with policy conweave.
/// @param options  of lb_tag's conweave
inline CongaLeaf weaving(unsigned number, const std::string& options = "{}") {
  return {.number = number, .tag = ", conweave: " + options, .lb = "{ policy: conweave }"};
}

inline TagKind kind_of(const Bytes& frame) {
  EXPECT_EQ(validity(frame), TagValidity::ok);
  return tag_kind(frame.data(), parsed_of(frame));
}
inline ConweaveLabel label_of(const Bytes& frame) {
  EXPECT_EQ(kind_of(frame), TagKind::conweave);
  return read_conweave(tag_header(frame.data(), parsed_of(frame)));
}

/// As a spine hands it to uplink `uplink` (from 1) of a leaf.
inline Bytes by_spine(Bytes frame, unsigned uplink = 1) {
  const auto to = leaf_mac(uplink).bytes, from = other_mac(0x10 + uplink).bytes;
  std::copy(to.begin(), to.end(), frame.begin());
  std::copy(from.begin(), from.end(), frame.begin() + 6);
  return frame;
}
/// The frame with a tag of ConWeave, as it comes out of a spine.
inline Bytes labelled(FrameBuilder frame, const ConweaveLabel& label, unsigned uplink = 1) {
  const Bytes plain = frame.eth(other_mac(0x10 + uplink), leaf_mac(uplink)).build();
  Bytes out(kTagBytes + plain.size());
  std::copy(plain.begin(), plain.end(), out.begin() + kTagBytes);
  put_tag_on(out.data(), parsed_of(plain), label);
  return out;
}

/// The answer of leaf `from` to a frame without a tag, before a spine has handed it on.
inline Bytes answer_to(const Bytes& plain, const ConweaveAnswer& answer) {
  Bytes out(kMaxReplyBytes);
  out.resize(write_answer(out, plain.data(), parsed_of(plain), answer, 48));
  return out;
}

}  // namespace weft::stages::testing
