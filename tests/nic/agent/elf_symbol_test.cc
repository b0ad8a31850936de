// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/agent/elf_symbol.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace weft::testing {
namespace {

using agent::function_offset;

// This program and the C library: files that some linker wrote.
std::vector<std::uint8_t> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
std::string library_of(void* function) {
  Dl_info info{};
  return dladdr(function, &info) != 0 ? info.dli_fname : "";
}

TEST(ElfSymbol, FindsTheDefaultVersionOfAFunction) {
  // glibc has two versions of it, at different places; a program gets the default one.
  void* const now = dlsym(RTLD_DEFAULT, "pthread_cond_wait");
  void* const old = dlvsym(RTLD_DEFAULT, "pthread_cond_wait", "GLIBC_2.2.5");
  ASSERT_NE(now, nullptr);
  ASSERT_NE(old, nullptr);
  ASSERT_NE(now, old);
  const auto image = bytes_of(library_of(now));
  const auto offset = function_offset(image, "pthread_cond_wait");
  ASSERT_TRUE(offset);
  const auto* const code = static_cast<const std::uint8_t*>(now);
  EXPECT_TRUE(std::equal(code, code + 32, image.begin() + static_cast<std::ptrdiff_t>(*offset)));
  EXPECT_EQ(function_offset(image, "pthread_cond_wai"), std::nullopt);
  EXPECT_EQ(function_offset(image, ""), std::nullopt);
}

TEST(ElfSymbol, WhatIsNoLibraryHasNoFunctions) {
  EXPECT_EQ(function_offset({}, "f"), std::nullopt);
  const std::vector<std::uint8_t> text(4096, 'x');
  EXPECT_EQ(function_offset(text, "f"), std::nullopt);
}

TEST(ElfSymbol, AFileThatLiesIsReadNowhereOutside) {
  const auto image = bytes_of(library_of(dlsym(RTLD_DEFAULT, "pthread_cond_wait")));
  for (std::size_t bytes : {std::size_t{16}, std::size_t{63}, std::size_t{64}, image.size() / 2, image.size() - 1}) {
    const std::vector<std::uint8_t> cut(image.begin(), image.begin() + static_cast<std::ptrdiff_t>(bytes));
    (void)function_offset(cut, "pthread_cond_wait");
  }
  for (std::size_t at = 16; at < 64; ++at) {
    auto wrong = image;
    wrong[at] ^= 0xff;
    (void)function_offset(wrong, "pthread_cond_wait");
  }
}

}  // namespace
}  // namespace weft::testing
