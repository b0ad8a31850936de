// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// A network interface of the kernel whose other end is this process (tun(4)), and network namespaces. Needs
// CAP_NET_ADMIN, and CAP_SYS_ADMIN to enter a namespace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "switch/wire/addresses.h"

namespace weft::kernel {

/// Moves the calling thread into a namespace named as in `ip netns`. Empty, or why not.
[[nodiscard]] std::string enter_network_namespace(const std::string& name);

/// An open file.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_ = -1;
};

/// Vanishes when it is closed.
class Tap {
 public:
  /// Largest frame that read() gives.
  static constexpr std::size_t kMaxFrame = 65'535;

  /// Creates the interface in the namespace of the calling thread, up but without a carrier. An interface of that name
  /// must not exist. Empty, or what went wrong.
  /// @param ipv6  false: the kernel gives it no IPv6 address and sends nothing of that family by itself
  [[nodiscard]] std::string open(const std::string& name, const wire::MacAddress& mac, std::uint32_t mtu_bytes,
                                 bool ipv6);

  [[nodiscard]] int descriptor() const noexcept { return file_.get(); }
  /// Of the interface.
  [[nodiscard]] int index() const noexcept { return index_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// One frame that the kernel sends; its bytes, 0 when there is none. Does not wait.
  [[nodiscard]] std::size_t read(std::span<std::uint8_t> frame) const noexcept;
  /// Hands a frame to the kernel; false when it does not take it.
  [[nodiscard]] bool write(std::span<const std::uint8_t> frame) const noexcept;
  /// How the kernel's side has the interface now, whatever its name is; nothing when it is gone.
  struct Settings {
    bool up = false;  ///< administratively
    std::uint32_t mtu_bytes = 0;
  };
  [[nodiscard]] std::optional<Settings> settings() const noexcept;
  /// Errors are of no consequence.
  void set_mtu(std::uint32_t mtu_bytes) const noexcept;

  /// Whether the kernel sees a carrier. Errors are of no consequence: a kernel before 5.0 always sees one.
  void set_carrier(bool on) const noexcept;

 private:
  Descriptor file_;
  Descriptor control_;  ///< a socket of the interface's namespace, for questions about it
  std::string name_;
  int index_ = 0;
};

}  // namespace weft::kernel
