// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What a kernel network interface needs before DPDK may use it: the traps of veth and tap, handled here so that no
// user has to know them. Needs CAP_NET_ADMIN; CAP_SYS_ADMIN to reach a peer in another network namespace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft::ports {

/// A kernel interface by name in the namespace of the calling thread. Functions return an empty string, or the
/// sentence that says what went wrong.
class Netdev {
 public:
  explicit Netdev(std::string name) : name_(std::move(name)) {}

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] bool exists() const;
  /// The kernel's number for it; 0 when there is none of that name.
  [[nodiscard]] unsigned index() const;
  [[nodiscard]] std::optional<std::uint32_t> mtu() const;
  [[nodiscard]] std::string set_mtu(std::uint32_t mtu_bytes) const;
  [[nodiscard]] std::string set_up(bool up = true) const;
  /// Administratively up and carrier present.
  [[nodiscard]] bool running() const;

  /// Switches off checksum, segmentation and receive offloads. Without this, veth hands over packets whose checksum
  /// was never computed and super-frames larger than any MTU.
  [[nodiscard]] std::string disable_offloads() const;
  /// What the kernel itself dropped: frames that it did not take for the interface (larger than its MTU, no memory),
  /// and frames that it was given to send and did not. Zeros when there is no such interface.
  struct Drops {
    std::uint64_t rx = 0;
    std::uint64_t tx = 0;
  };
  [[nodiscard]] Drops drops() const;

  /// What weft changes of an interface, so that it can be put back.
  struct Settings {
    unsigned index = 0;  ///< of the interface that had them; another one of the same name never had them
    bool up = false;
    std::uint32_t mtu_bytes = 0;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> offloads{};  ///< the command of ethtool that sets it, value
    std::string ipv6_off{};                                           ///< disable_ipv6; empty without IPv6
  };
  [[nodiscard]] Settings settings() const;
  /// Puts back what is different now; nothing when the interface is another one. Errors are of no consequence.
  void restore(const Settings& settings) const;

  /// Keeps the kernel's own IPv6 (router solicitations, MLD) off an interface that belongs to the switch. No error
  /// when the kernel has no IPv6.
  void silence_kernel() const;

  /// Result of preparing the other end of a veth pair.
  struct Peer {
    bool is_veth = false;
    std::string name;   ///< empty when it was not found
    std::string error;  ///< why its offloads are not off; empty when they are
    Settings before{};  ///< of the other end, before its offloads were switched off
  };
  /// Finds the other end of a veth pair in any network namespace that has a name or a process, and switches its
  /// offloads off.
  [[nodiscard]] Peer disable_peer_offloads() const;
  /// Puts the offloads of the other end back, if it is still the one that had them. Looks for it again: whoever held on
  /// to its namespace would keep that alive.
  void restore_peer_offloads(const Settings& before) const;

 private:
  std::string name_;
};

}  // namespace weft::ports
