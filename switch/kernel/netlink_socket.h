// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

struct nl_sock;
struct nlmsghdr;

namespace weft::kernel {

/// A socket to rtnetlink of the network namespace in which it was opened; threads may then use it in any other one.
class NetlinkSocket {
 public:
  using Handler = std::function<void(const nlmsghdr*)>;

  NetlinkSocket();
  ~NetlinkSocket();

  /// @param groups  multicast groups (RTNLGRP_ROUTE and so on) to listen to. Empty, or what went wrong.
  [[nodiscard]] std::string open(std::initializer_list<int> groups);
  [[nodiscard]] int descriptor() const noexcept;

  enum class Received : std::uint8_t {
    some,     ///< messages were handled
    nothing,  ///< none is there
    lost,     ///< the kernel had more to say than the socket could hold: messages are missing
  };
  /// Handles what one read gives. Does not wait.
  Received receive(const Handler& handler);

  /// Asks for all objects of a kind (RTM_GETROUTE and so on) and handles them. False when the answer is incomplete,
  /// also because the objects changed meanwhile.
  bool dump(int type, int family, const Handler& handler);

  /// Sends a message: a header of rtnetlink and attributes behind it. Errors come back as messages, which nobody reads
  /// here: for wishes whose outcome shows elsewhere.
  struct Attribute {
    int type;
    const void* data;
    std::size_t bytes;
  };
  void send(int type, int flags, const void* header, std::size_t bytes, std::initializer_list<Attribute> attributes);

 private:
  struct Free {
    void operator()(nl_sock* s) const;
  };
  // Bytes of one datagram; 0 when there is none, negative for an error.
  [[nodiscard]] long read_datagram(bool wait);

  std::unique_ptr<nl_sock, Free> socket_;
  std::vector<char> buffer_;
};

}  // namespace weft::kernel
