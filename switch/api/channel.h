// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The client's ends of connections to an RpcServer.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "switch/config/tls_files.h"

namespace grpc {
class Channel;
class ClientContext;
class Status;
}  // namespace grpc

namespace weft::api {

/// Over a connected unix socket, which it owns; see connect_unix(). A channel that connects by itself knows only that
/// it failed, not why.
[[nodiscard]] std::shared_ptr<grpc::Channel> unix_channel(int fd);

/// To a service on another machine, both sides showing certificates. Whether it can be reached, the first call finds
/// out.
/// @param address  HOST:PORT; the service's certificate must name the host
[[nodiscard]] std::shared_ptr<grpc::Channel> tls_channel(const std::string& address, const config::TlsTexts& texts);

/// The same without TLS: to a service that is not ours.
[[nodiscard]] std::shared_ptr<grpc::Channel> plain_channel(const std::string& address);

/// The server had no thread for a call (RpcLimits): it queues none. Nothing of the call ran.
[[nodiscard]] bool lacked_a_thread(const grpc::Status& status);
/// Nobody has answered, so another server may: there is none, it took too long, or it ended meanwhile.
[[nodiscard]] bool went_unanswered(const grpc::Status& status);

/// From one try to the next, as long as the server has no thread: the first, twice as long each time, and at most.
inline constexpr std::chrono::milliseconds kFirstPause{5}, kLongestPause{100};

/// Makes a call; again, as long as the server has no thread for it.
/// @param body  calls with a context that has the deadline
[[nodiscard]] grpc::Status call_until(std::chrono::system_clock::time_point deadline,
                                      const std::function<grpc::Status(grpc::ClientContext&)>& body);

}  // namespace weft::api
