// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Memory that is registered with an RNIC: what the program has registered, what a cache keeps, and the rest for as long
// as a request takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>

#include "collectives/comm/transport.h"

namespace weft::inc::comm {

/// What a cache keeps of memory that no request uses any more. Zeros: nothing.
struct CacheLimits {
  std::size_t regions = 0;
  std::size_t bytes = 0;
};

class Memory {
  struct Cached;

 public:
  /// @param transport  outlives it
  explicit Memory(Transport& transport, const CacheLimits& limits = {}) noexcept
      : transport_(transport), limits_(limits) {}
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] Transport& transport() noexcept { return transport_; }
  /// The program registers memory, until remove().
  void add(const void* data, std::size_t bytes);
  void remove(const void* data);

  /// A part of registered memory, until done().
  struct Use {
    std::uint32_t key = 0;
    bool temporary = false;    ///< registered for this use alone
    Cached* cached = nullptr;  ///< the cache's, which keeps it
  };
  /// @throws TransportError
  [[nodiscard]] Use use(const void* data, std::size_t bytes);
  void done(const Use& use);

  /// The program gives memory back to the system, or puts other memory in its place: the cache forgets all that has a
  /// part in it. What a request still uses is forgotten when that is over, and no other one gets it.
  void gone(const void* data, std::size_t bytes);
  /// Of the cache: regions that are registered, used or not.
  [[nodiscard]] std::size_t cached() const noexcept { return cache_.size(); }
  [[nodiscard]] std::size_t cached_bytes() const noexcept { return cached_bytes_; }

 private:
  struct Region {
    std::size_t bytes;
    std::uint32_t key;
  };
  struct Cached {
    std::uintptr_t begin;
    std::size_t bytes;
    std::uint32_t key;
    std::size_t users = 0;
    bool stale = false;  ///< its memory is gone
  };
  using Cache = std::list<Cached>;
  [[nodiscard]] Cached* find(std::uintptr_t begin, std::size_t bytes);
  Cache::iterator forget(Cache::iterator region);
  /// Forgets what nobody uses, the longest unused first, until there is room for so many bytes more. False: there is
  /// none.
  bool make_room(std::size_t bytes);

  Transport& transport_;
  CacheLimits limits_;
  std::multimap<std::uintptr_t, Region> regions_;  ///< by address
  Cache cache_;                                    ///< the last used first
  std::size_t cached_bytes_ = 0;
};

}  // namespace weft::inc::comm
