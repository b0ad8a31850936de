// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/tables/page_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

namespace weft::tables {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
// A table that fills an eighth of a huge page is worth one: a first-level TLB reaches 64 small pages.
constexpr std::size_t kLeastHuge = kHugePage / 8;

}  // namespace

PageMemory::PageMemory(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const bool huge = bytes >= kLeastHuge;
  // Whole huge pages, or the kernel gives small ones for the rest.
  const std::size_t wanted = huge ? (bytes + kHugePage - 1) & ~(kHugePage - 1) : bytes;
  mapped_ = huge ? wanted + kHugePage : bytes;
  mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    throw std::bad_alloc();
  }
  auto at = reinterpret_cast<std::uintptr_t>(mapping_);
  if (huge) at = (at + kHugePage - 1) & ~(kHugePage - 1);
  data_ = reinterpret_cast<void*>(at);
  // Advice only: without huge pages the table works, with more TLB misses.
  if (huge) madvise(data_, wanted, MADV_HUGEPAGE);
  std::memset(data_, 0, bytes);
}

PageMemory::~PageMemory() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

PageMemory::PageMemory(PageMemory&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_(std::exchange(other.mapped_, 0)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

PageMemory& PageMemory::operator=(PageMemory&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace weft::tables
