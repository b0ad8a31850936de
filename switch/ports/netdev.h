// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What a kernel network interface needs before DPDK may use it: the traps of veth and tap, handled here so that no
// user has to know them. Needs CAP_NET_ADMIN; CAP_SYS_ADMIN to reach a peer in another network namespace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft::ports {

/// A kernel interface by name in the namespace of the calling thread. Functions return an empty string, or the
/// sentence that says what went wrong.
class Netdev {
 public:
  explicit Netdev(std::string name) : name_(std::move(name)) {}

  [[nodiscard]] bool exists() const;
  [[nodiscard]] std::optional<std::uint32_t> mtu() const;
  [[nodiscard]] std::string set_mtu(std::uint32_t mtu_bytes) const;
  [[nodiscard]] std::string set_up(bool up = true) const;
  /// Administratively up and carrier present.
  [[nodiscard]] bool running() const;

  /// Switches off checksum, segmentation and receive offloads. Without this, veth hands over packets whose checksum
  /// was never computed and super-frames larger than any MTU.
  [[nodiscard]] std::string disable_offloads() const;
  /// Keeps the kernel's own IPv6 (router solicitations, MLD) off an interface that belongs to the switch. No error
  /// when the kernel has no IPv6.
  void silence_kernel() const;

  /// Result of preparing the other end of a veth pair.
  struct Peer {
    bool is_veth = false;
    std::string name;   ///< empty when it was not found
    std::string error;  ///< why its offloads are not off; empty when they are
  };
  /// Finds the other end of a veth pair in any network namespace that has a name or a process, and switches its
  /// offloads off.
  [[nodiscard]] Peer disable_peer_offloads() const;

 private:
  std::string name_;
};

}  // namespace weft::ports
