// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/wire/crc_fold.h"

#if defined(__x86_64__)

#include <cpuid.h>

#include "switch/wire/crc_fold_loops.h"

namespace weft::wire::crc {
namespace {

/// Clang's __builtin_cpu_supports() does not know it by name.
bool has_vpclmulqdq() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (c & bit_VPCLMULQDQ) != 0;
}

/// Nothing else to do.
struct Nothing256 {
  __attribute__((target(WEFT_FOLD_256))) void operator()(std::size_t, __m256i) const noexcept {}
};
struct Nothing512 {
  __attribute__((target(WEFT_FOLD_512))) void operator()(std::size_t, __m512i) const noexcept {}
};

__attribute__((target(WEFT_FOLD_256))) __m128i run_256(__m128i state, const std::uint8_t* at,
                                                       const std::uint8_t* end) noexcept {
  return fold_each_256(state, at, end, Nothing256{});
}

__attribute__((target(WEFT_FOLD_512))) __m128i run_512(__m128i state, const std::uint8_t* at,
                                                       const std::uint8_t* end) noexcept {
  return fold_each_512(state, at, end, Nothing512{});
}

}  // namespace

FoldRun fold_run_256() noexcept {
  __builtin_cpu_init();
  return has_vpclmulqdq() && __builtin_cpu_supports("avx2") != 0 ? run_256 : nullptr;
}

FoldRun fold_run_512() noexcept {
  __builtin_cpu_init();
  const bool wide = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
                    __builtin_cpu_supports("avx512vl") != 0;
  return has_vpclmulqdq() && wide ? run_512 : nullptr;
}

}  // namespace weft::wire::crc

#endif
