// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Declares the drop reasons of one module. No include guard: a module's drops.h includes drop_reason.h first, opens its
// namespace, defines what follows, and includes this.
//   WEFT_DROPS_STRUCT  the name of the struct to declare
//   WEFT_DROPS_MODULE  the module's name, for messages
//   WEFT_DROPS_BLOCK   which sixteen of the 256 reasons are the module's: 2 to 15, used by no other module of a binary.
//                      DropReasons::add() refuses two modules that overlap.
//   WEFT_DROPS_LIST    the path of its list of WEFT_DROP(name, severity, sentence)
struct WEFT_DROPS_STRUCT {
  static constexpr std::uint8_t kFirst = WEFT_DROPS_BLOCK * weft::pipeline::kDropsPerBlock;
  static_assert(WEFT_DROPS_BLOCK >= weft::pipeline::kFirstBlockOfModules &&
                WEFT_DROPS_BLOCK < weft::pipeline::kDropReasonSlots / weft::pipeline::kDropsPerBlock);

  enum Place : std::uint8_t {
#define WEFT_DROP(name, severity, text) at_##name,
#include WEFT_DROPS_LIST
#undef WEFT_DROP
    count_,
  };
  static_assert(count_ <= weft::pipeline::kDropsPerBlock, "a module has room for so many reasons");

#define WEFT_DROP(name, severity, text) static constexpr weft::pipeline::DropReason name{kFirst + at_##name};
#include WEFT_DROPS_LIST
#undef WEFT_DROP

  static constexpr std::array<weft::pipeline::DropReasonInfo, count_> kRows{{
#define WEFT_DROP(name, severity, text) {#name, weft::pipeline::Severity::severity, text},
#include WEFT_DROPS_LIST
#undef WEFT_DROP
  }};

  /// What StageType::drops takes.
  static constexpr weft::pipeline::DropBlock block() noexcept {
    return {WEFT_DROPS_MODULE, kFirst, kRows};
  }
};

#undef WEFT_DROPS_STRUCT
#undef WEFT_DROPS_MODULE
#undef WEFT_DROPS_BLOCK
#undef WEFT_DROPS_LIST
