// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/ports/unmap_guard.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <rte_alarm.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

namespace weft::ports {
namespace {

using std::chrono::milliseconds;

// A page that DPDK's interrupt thread unmaps by a function of DPDK's own library, as drivers do.
class Page {
 public:
  Page() : bytes_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    address_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unmap_ = reinterpret_cast<void (*)(void*, std::size_t)>(dlsym(RTLD_DEFAULT, "rte_mem_unmap"));
    EXPECT_NE(address_, MAP_FAILED);
    EXPECT_NE(unmap_, nullptr) << "DPDK's libraries are not shared ones";
  }
  // Returns before it has happened.
  void unmap_in_interrupt_thread() {
    const auto unmap = [](void* page) {
      auto* self = static_cast<Page*>(page);
      self->unmap_(self->address_, self->bytes_);
      self->done = true;
    };
    ASSERT_EQ(rte_eal_alarm_set(1, unmap, this), 0);
  }
  [[nodiscard]] bool mapped() const {
    unsigned char resident = 0;
    return mincore(address_, bytes_, &resident) == 0 || errno != ENOMEM;
  }
  void unmap_here() { unmap_(address_, bytes_); }
  // Whether it happens within a minute.
  [[nodiscard]] static bool await(const std::atomic<bool>& flag) {
    for (int i = 0; i < 60'000 && !flag; ++i) std::this_thread::sleep_for(milliseconds(1));
    return flag;
  }

  std::atomic<bool> done{false};

 private:
  std::size_t bytes_;
  void* address_;
  void (*unmap_)(void*, std::size_t);
};

TEST(UnmapGuard, TheInterruptThreadWaitsBeforeItUnmaps) {
  std::atomic<bool> waits{false}, go_on{false};
  const UnmapGuard guard([&] {
    waits = true;
    static_cast<void>(Page::await(go_on));
  });
  Page page;
  page.unmap_in_interrupt_thread();
  ASSERT_TRUE(Page::await(waits));
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(page.done);
  EXPECT_TRUE(page.mapped());
  go_on = true;
  ASSERT_TRUE(Page::await(page.done));
  EXPECT_FALSE(page.mapped());
}

TEST(UnmapGuard, OtherThreadsWaitForNothing) {
  std::atomic<bool> asked{false};
  const UnmapGuard guard([&] { asked = true; });
  Page page;
  page.unmap_here();
  EXPECT_FALSE(page.mapped());
  EXPECT_FALSE(asked);
}

TEST(UnmapGuard, NobodyIsAskedWhenItIsGone) {
  std::atomic<bool> asked{false};
  {
    const UnmapGuard guard([&] { asked = true; });
  }
  Page page;
  page.unmap_in_interrupt_thread();
  ASSERT_TRUE(Page::await(page.done));
  EXPECT_FALSE(page.mapped());
  EXPECT_FALSE(asked);
}

}  // namespace
}  // namespace weft::ports
