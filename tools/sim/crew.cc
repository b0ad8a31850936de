// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/sim/crew.h"

#include <rte_lcore.h>
#include <rte_pause.h>

namespace weft::sim {
namespace {

// Who waits looks for a few microseconds before it sleeps: rounds follow each other closely, but the machine may have
// other work.
constexpr int kLooks = 400;

std::uint32_t wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t is) {
  for (int i = 0; i < kLooks; ++i) {
    if (const std::uint32_t now = value.load(std::memory_order_acquire); now != is) return now;
    rte_pause();
  }
  value.wait(is, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

}  // namespace

Crew::Crew(unsigned threads) {
  for (unsigned i = 1; i < threads; ++i) threads_.emplace_back([this] { follow(); });
}

Crew::~Crew() {
  over_ = true;
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Crew::take_pieces() {
  for (;;) {
    const std::uint32_t piece = next_.fetch_add(1, std::memory_order_relaxed);
    if (piece >= pieces_) return;
    (*work_)(piece);
  }
}

void Crew::follow() {
  // The number gives a thread a cache of its own in packet pools. Without one it works more slowly.
  const bool known = rte_thread_register() == 0;
  for (std::uint32_t seen = 0;;) {
    seen = wait_while(round_, seen);
    if (over_) break;
    take_pieces();
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
  if (known) rte_thread_unregister();
}

void Crew::run(std::uint32_t pieces, const std::function<void(std::uint32_t)>& work) {
  work_ = &work;
  pieces_ = pieces;
  next_.store(0, std::memory_order_relaxed);
  busy_.store(static_cast<std::uint32_t>(threads_.size()), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  take_pieces();
  for (std::uint32_t busy = busy_.load(std::memory_order_acquire); busy != 0;) busy = wait_while(busy_, busy);
}

}  // namespace weft::sim
