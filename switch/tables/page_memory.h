// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Memory for large tables: allocated once at start, zeroed, already backed by pages, on huge pages where the kernel
// gives them.
#pragma once

#include <cstddef>
#include <type_traits>

namespace weft::tables {

/// A zeroed block of memory that starts on a page (on a 2 MiB boundary from 256 KiB on). Every page is touched at
/// construction, so that using it never faults.
class PageMemory {
 public:
  PageMemory() = default;
  /// @throws std::bad_alloc when the memory is not there.
  explicit PageMemory(std::size_t bytes);
  ~PageMemory();
  PageMemory(PageMemory&& other) noexcept;
  PageMemory& operator=(PageMemory&& other) noexcept;

  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  void* mapping_ = nullptr;
  std::size_t mapped_ = 0;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A fixed array of plain records in PageMemory; all bytes are zero at first.
template <typename T>
class PageArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  PageArray() = default;
  explicit PageArray(std::size_t count) : memory_(count * sizeof(T)), at_(static_cast<T*>(memory_.data())) {}

  [[nodiscard]] T& operator[](std::size_t i) noexcept { return at_[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return at_[i]; }
  [[nodiscard]] std::size_t bytes() const noexcept { return memory_.bytes(); }

 private:
  PageMemory memory_;
  T* at_ = nullptr;
};

}  // namespace weft::tables
