// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <string>

namespace weft::ports {

/// Notices that something about a network interface of the namespace has changed: one came, went, went up or down, or
/// has another MTU or name (RTNLGRP_LINK, rtnetlink(7)).
class LinkEvents {
 public:
  /// In the namespace of the calling thread. Without netlink it never notices anything.
  LinkEvents();
  ~LinkEvents();
  LinkEvents(const LinkEvents&) = delete;
  LinkEvents& operator=(const LinkEvents&) = delete;

  /// True when something has changed since the call before. Does not wait. One thread.
  [[nodiscard]] bool any() const noexcept;

 private:
  int fd_;
};

}  // namespace weft::ports
