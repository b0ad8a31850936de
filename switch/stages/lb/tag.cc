// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/stages/lb/tag.h"

#include <algorithm>

#include "switch/wire/headers.h"

namespace weft::stages {
namespace {

using wire::header_at;
using wire::Parsed;

}  // namespace

LbTag read_tag(const std::uint8_t* frame, const Parsed& parsed) noexcept {
  const auto& header = header_at<LbTagHeader>(frame + tag_offset(parsed));
  const auto& content = content_of<CongaContent>(header);
  const bool feedback = (header.flags & CongaContent::kFeedback) != 0;
  return {.leaf = header.leaf.value(),
          .path = header.path,
          .congestion = content.congestion,
          .has_feedback = feedback,
          .feedback_path = feedback ? content.feedback_path : std::uint8_t{0},
          .feedback = feedback ? content.feedback : std::uint8_t{0}};
}

void raise_congestion(std::uint8_t* frame, const Parsed& parsed, std::uint8_t congestion) noexcept {
  std::uint8_t& so_far =
      frame[tag_offset(parsed) + offsetof(LbTagHeader, content) + offsetof(CongaContent, congestion)];
  so_far = std::max(so_far, congestion);
}

}  // namespace weft::stages
