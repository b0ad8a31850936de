// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The first stage of every pipeline: reads the headers of each packet once, and optionally checks ICRCs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "switch/pipeline/stage.h"
#include "switch/wire/validity.h"

namespace weft::stages {

/// Which RoCE packets have their ICRC checked.
enum class IcrcCheck : std::uint8_t { off, sample, all };

/// Fills PacketMeta::parsed. Packets whose first buffer holds fewer header bytes than the parser wants
/// (pipeline::kHeaderBytes) have them pulled together there, or are dropped as `header_split` when that buffer has no
/// room or is shared.
///
/// Frames that break a rule above Ethernet go on, counted: a ToR is not the judge of its hosts' packets. MAC control
/// frames end here: they are for the link, never for another port (IEEE 802.3 annex 31B).
class ParseStage : public pipeline::Stage {
 public:
  explicit ParseStage(const config::Value& options);
  void ingress(pipeline::Context& context, pipeline::Batch& batch) override;
  [[nodiscard]] std::span<const Counter> counters() const override { return counters_; }

  // Order of the counters: one per FrameKind, one per Validity that parse_frame() can find, then these. A CounterSet
  // would want one enumeration of all three.
  static constexpr std::size_t kFirstInvalid = wire::kFrameKindCount;
  static constexpr std::size_t kIcrcChecked = kFirstInvalid + wire::kValidityCount - 2;
  static constexpr std::size_t kIcrcBad = kIcrcChecked + 1;
  static constexpr std::size_t kCounters = kIcrcBad + 1;

 private:
  bool parse_one(pipeline::Context& context, pipeline::Batch& batch, std::uint32_t i) noexcept;
  void count_other(pipeline::Context& context, pipeline::Batch& batch, std::uint16_t i) noexcept;
  void check_icrcs(pipeline::Context& context, pipeline::Batch& batch, std::uint32_t roce) noexcept;

  std::array<Counter, kCounters> counters_{};
  std::uint64_t icrc_every_ = 0;  ///< 0: no packet is checked
  std::uint64_t icrc_in_ = 0;     ///< RoCE packets until the next check
  bool drop_bad_icrc_ = false;
};

/// Registered as `parse`; provides `parsed`. Options: icrc_check, icrc_sample_every, icrc_bad.
[[nodiscard]] pipeline::StageType parse_stage_type();

}  // namespace weft::stages
