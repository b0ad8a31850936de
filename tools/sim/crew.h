// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Threads that do pieces of work together, round by round.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace weft::sim {

class Crew {
 public:
  /// @param threads  that work, the caller's included; at least 1
  explicit Crew(unsigned threads);
  /// Between two rounds.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  [[nodiscard]] unsigned threads() const noexcept { return static_cast<unsigned>(threads_.size()) + 1; }

  /// Calls work(i) for each i below `pieces` once, on any of the threads; those with small numbers are begun first.
  /// What happened before is seen by all of them, and what they do by the caller afterwards.
  void run(std::uint32_t pieces, const std::function<void(std::uint32_t)>& work);

 private:
  void follow();
  void take_pieces();

  std::vector<std::thread> threads_;
  const std::function<void(std::uint32_t)>* work_ = nullptr;
  std::uint32_t pieces_ = 0;
  std::atomic<std::uint32_t> next_{0};
  std::atomic<std::uint32_t> round_{0};
  std::atomic<std::uint32_t> busy_{0};  ///< threads that have not ended the round
  bool over_ = false;
};

}  // namespace weft::sim
