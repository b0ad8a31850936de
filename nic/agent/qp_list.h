// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The connected queue pairs of a host, as its calls of ibv_modify_qp() tell: which number, at which address, is
// connected to which number at which other one. No system calls: the source of events and the addresses of devices come
// from outside.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nic/agent/qp_event.h"
#include "switch/wire/addresses.h"

namespace weft::agent {

/// Transport services that connect two queue pairs.
enum class Transport : std::uint8_t { rc = 2, uc = 3 };  // as ibv_qp_type

/// A connected queue pair.
struct HostQp {
  wire::IpAddress local{}, remote{};
  std::uint32_t qpn = 0, remote_qpn = 0;
  Transport transport = Transport::rc;
  std::uint32_t mtu = 0;                  ///< path MTU in bytes; 0: not known
  std::optional<std::uint32_t> sq_psn{};  ///< PSN of its first request
  std::optional<std::uint32_t> rq_psn{};  ///< PSN of the first request that it expects
  std::string process{}, device{};
  std::uint32_t pid = 0;

  friend bool operator==(const HostQp&, const HostQp&) = default;
};

/// What has become of a queue pair.
struct Change {
  bool up = false;  ///< connected, or more is known; false: gone, and only local and qpn count
  HostQp qp{};

  friend bool operator==(const Change&, const Change&) = default;
};

class QpList {
 public:
  /// Names a queue pair on its host: numbers are those of a device.
  using Key = std::pair<std::string, std::uint32_t>;
  /// The address of a device's GID; nullopt when it is none of RoCEv2.
  using AddressOf =
      std::function<std::optional<wire::IpAddress>(const std::string& device, unsigned port, unsigned index)>;
  struct Counters {
    std::uint64_t events = 0;
    std::uint64_t unread = 0;   ///< events that could not be read in whole
    std::uint64_t foreign = 0;  ///< connections over no address, or to no number, that RoCEv2 has
    std::uint64_t full = 0;     ///< connections that found no room
  };

  /// @param most  queue pairs that there is room for
  explicit QpList(AddressOf address_of, std::size_t most = 1 << 20);

  /// What a call changes, in order: nothing, one thing, or, where a number serves a new connection, two.
  [[nodiscard]] std::vector<Change> on_event(const weft_qp_event& event);
  /// The processes for which this holds are gone, and with them what they have made; queue pairs of the kernel's are
  /// its own to end.
  [[nodiscard]] std::vector<Change> on_exit(const std::function<bool(std::uint32_t pid)>& is_gone);

  /// A connection that an earlier agent saw. What is known already stays.
  void restore(HostQp qp, bool kernel);
  /// All connections, and whether the kernel tells of their end.
  [[nodiscard]] std::vector<std::pair<HostQp, bool>> all() const;

  /// Processes that have queue pairs whose end only their own calls tell.
  [[nodiscard]] std::vector<std::uint32_t> processes() const;
  /// The connected ones, from the one behind `after` on, at most so many; `after` becomes the last of them.
  [[nodiscard]] std::vector<HostQp> list(std::optional<Key>& after, std::size_t most) const;
  [[nodiscard]] std::size_t size() const noexcept { return qps_.size(); }
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }

 private:
  struct Record {
    HostQp qp;
    bool kernel;
  };

  [[nodiscard]] std::vector<Change> connect(const weft_qp_event& event, const Key& key);
  [[nodiscard]] std::vector<Change> complete(const weft_qp_event& event, const Key& key);
  [[nodiscard]] std::vector<Change> remove(const Key& key);

  AddressOf address_of_;
  std::size_t most_;
  std::map<Key, Record> qps_;
  Counters counters_;
};

/// The IP address that a GID of RoCEv2 stands for: IPv4 ones are mapped into IPv6.
[[nodiscard]] wire::IpAddress address_of_gid(const std::uint8_t (&gid)[16]) noexcept;

}  // namespace weft::agent
