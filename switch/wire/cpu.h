// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Instruction sets beyond the one that everything is compiled for. Code that uses them carries an attribute and is
// called after asking.
#pragma once

namespace weft::wire {

/// AVX-512 with bytes in any order, as of Ice Lake and Zen 4: the argument of the attribute `target`.
#define WEFT_WIDE "avx512f,avx512bw,avx512vl,avx512vbmi,bmi,bmi2"

/// Whether this CPU has WEFT_WIDE.
[[nodiscard]] inline bool has_wide() noexcept {
#if defined(__x86_64__)
  static const bool has = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
           __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512vbmi") != 0 &&
           __builtin_cpu_supports("bmi") != 0 && __builtin_cpu_supports("bmi2") != 0;
  }();
  return has;
#else
  return false;
#endif
}

}  // namespace weft::wire
