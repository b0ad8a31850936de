// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The C interface: arguments are checked here, and nothing is thrown beyond it.
#include "collectives/comm/weft_inc.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "collectives/comm/context.h"
#include "collectives/comm/structures.h"
#include "nic/rnic/config.h"

namespace c = weft::inc::comm;

struct weft_inc_context {
  explicit weft_inc_context(std::string daemon) : context(std::move(daemon)) {}
  c::Context context;
};

struct weft_inc_group {
  c::Context& context;
  c::Group& group;
};

struct weft_inc_memory {
  c::Context& context;
  void* data;
};

struct weft_inc_request {
  c::Context& context;
  std::shared_ptr<c::Request> request;
};

namespace {

constexpr std::int64_t kLeaveNs = 2'000'000'000;
constexpr std::uint32_t kMaxMessagePackets = 64, kMaxWindow = 256, kMaxPollUs = 1'000'000, kMaxPeriodUs = 1'000'000'000;
constexpr std::size_t kCachedRegions = 1000;

thread_local std::string last_error;

weft_inc_status error(weft_inc_status status, std::string why) {
  last_error = std::move(why);
  return status;
}

weft_inc_status invalid(std::string why) {
  return error(WEFT_INC_INVALID, std::move(why));
}

/// Runs what may throw.
template <class Body>
weft_inc_status guarded(Body&& body) {
  try {
    return body();
  } catch (const c::TransportError& e) {
    return error(WEFT_INC_UNAVAILABLE, e.what());
  } catch (const std::exception& e) {
    return error(WEFT_INC_UNAVAILABLE, std::string("no memory, or no thread: ") + e.what());
  }
}

std::string daemon_socket(const weft_inc_options& options) {
  if (options.socket != nullptr) return options.socket;
  const char* named = std::getenv("WEFT_INC_SOCKET");
  return named == nullptr ? std::string(c::kDaemonSocket) : named;
}

/// What is wrong with options, or an empty string.
std::string read(const weft_inc_options& from, c::ContextSettings& to) {
  if (from.memif != nullptr && from.memif[0] != 0) {
    to.memif = from.memif;
    const auto prefix = weft::wire::IpPrefix::parse(from.address == nullptr ? "" : from.address);
    if (!prefix) return "a memif needs an address with the length of its network, as 10.0.0.2/24";
    to.address = prefix->address;
    to.prefix_bits = prefix->length;
  } else if (from.address != nullptr) {
    to.address = weft::wire::IpAddress::parse(from.address);
    if (!to.address) return std::string("'") + from.address + "' is no IP address";
  }
  if (from.interface != nullptr) to.interface = from.interface;
  if (from.device != nullptr) to.device = from.device;
  if (!to.device.empty() && !to.memif.empty()) return "a device is no memif: only one of them can be named";
  if (!to.device.empty() && !to.interface.empty()) return "a device has its interface: only one of them can be named";
  if (from.poll_us > kMaxPollUs) return "who waits polls for 1,000,000 us at most";
  if (from.cache_bytes > 0) to.cache = {kCachedRegions, static_cast<std::size_t>(from.cache_bytes)};
  to.poll_ns = weft::nic::Time{from.poll_us} * weft::nic::kUs;
  const char* log = std::getenv("WEFT_INC_LOG");
  to.logs = log != nullptr && std::string_view(log) == "info";
  return "";
}

/// What is wrong with options, or an empty string.
std::string read(const weft_inc_group_options& from, c::GroupSettings& to) {
  if (from.backend < WEFT_INC_BACKEND_AUTO || from.backend > WEFT_INC_BACKEND_TREE) return "there is no such backend";
  to.backend = from.backend;
  if (from.mtu != 0) to.shape.mtu = from.mtu;
  if (!weft::nic::is_path_mtu(to.shape.mtu)) return "an MTU is 256, 512, 1024, 2048 or 4096";
  if (from.message_packets != 0) to.shape.message_packets = from.message_packets;
  if (to.shape.message_packets > kMaxMessagePackets) return "a message has 64 packets at most";
  if (from.window != 0) to.shape.window = from.window;
  if (to.shape.window > kMaxWindow) return "a window has 256 messages at most";
  if (from.mode >= c::kGroupModes) return "a mode is 1, 2 or 3, or 0 for the manager's choice";
  to.mode = static_cast<c::GroupMode>(from.mode);
  to.reproducible = from.reproducible != 0;
  to.min_bytes = from.min_bytes;
  to.max_bytes = from.max_bytes;
  if (from.duty_per_mille > 1000) return "duty_per_mille is at most 1000";
  if (from.period_us > kMaxPeriodUs) return "a period has 1,000,000,000 us at most";
  to.rhythm = {from.duty_per_mille, from.period_us, from.job};
  return "";
}

weft_inc_status status_of(const c::Group& group) {
  if (group.formed()) return WEFT_INC_OK;
  if (group.state() == c::Group::State::created) return error(WEFT_INC_INVALID, "the group is not being connected");
  if (group.state() != c::Group::State::failed) return WEFT_INC_AGAIN;
  const bool refused = group.error().starts_with("the group gets no switches");
  return error(refused ? WEFT_INC_REFUSED : WEFT_INC_FAILED, group.error());
}

weft_inc_status begin(weft_inc_group* group, const c::Call& call, weft_inc_request** request) {
  if (group == nullptr || request == nullptr) return invalid("a group or a request is a null pointer");
  return guarded([&] {
    c::Group& g = group->group;
    const auto held = group->context.lock();
    if (!g.formed()) {
      const weft_inc_status status = status_of(g);
      return status < 0 ? status : invalid("the group is not connected yet");
    }
    if (auto why = c::check(call, g.rank(), g.ranks()); !why.empty()) return invalid(std::move(why));
    auto made = std::make_unique<weft_inc_request>(weft_inc_request{group->context, nullptr});
    made->request = g.post(call);
    if (made->request == nullptr) return WEFT_INC_AGAIN;
    group->context.push();
    *request = made.release();
    return WEFT_INC_OK;
  });
}

c::Call call(c::Collective collective, const void* send, void* receive, size_t count, weft_inc_type type,
             weft_inc_op op, uint32_t root) {
  return {collective, send, receive, count, static_cast<weft::inc::DataType>(type), static_cast<weft::inc::Op>(op),
          root};
}

bool over(const c::Request& request) noexcept {
  return request.state == c::Request::State::done || request.state == c::Request::State::failed;
}

/// Of a request that is over.
weft_inc_status end(weft_inc_request** request) {
  const std::unique_ptr<weft_inc_request> ended(*request);
  *request = nullptr;
  if (ended->request->state == c::Request::State::done) return WEFT_INC_OK;
  return error(WEFT_INC_FAILED, ended->request->error);
}

}  // namespace

extern "C" {

const char* weft_inc_last_error(void) {
  return last_error.c_str();
}

enum weft_inc_status weft_inc_open(const weft_inc_options* options, weft_inc_context** context) {
  if (context == nullptr) return invalid("the context is a null pointer");
  return guarded([&] {
    c::ContextSettings settings;
    weft_inc_options known{};
    if (options != nullptr) {
      if (auto why = c::take(*options, "weft_inc_options", known); !why.empty()) return invalid(std::move(why));
    }
    if (auto why = read(known, settings); !why.empty()) return invalid(std::move(why));
    auto made = std::make_unique<weft_inc_context>(daemon_socket(known));
    if (auto why = made->context.open(settings); !why.empty()) return error(WEFT_INC_UNAVAILABLE, std::move(why));
    *context = made.release();
    return WEFT_INC_OK;
  });
}

void weft_inc_close(weft_inc_context* context) {
  delete context;
}

enum weft_inc_status weft_inc_group_create(weft_inc_context* context, const weft_inc_group_options* options,
                                           uint32_t rank, uint32_t ranks, weft_inc_handle* handle,
                                           weft_inc_group** group) {
  if (context == nullptr || handle == nullptr || group == nullptr) {
    return invalid("a context, handle or group is a null pointer");
  }
  if (ranks == 0 || ranks > c::kMaxGroupRanks) return invalid("a group has 1 to 1024 ranks");
  if (rank >= ranks) return invalid("ranks are numbered from 0 to one below their number");
  return guarded([&] {
    c::GroupSettings settings;
    weft_inc_group_options known{};
    if (options != nullptr) {
      if (auto why = c::take(*options, "weft_inc_group_options", known); !why.empty()) return invalid(std::move(why));
    }
    if (auto why = read(known, settings); !why.empty()) return invalid(std::move(why));
    const auto held = context->context.lock();
    const uint32_t most = context->context.transport().largest_mtu();
    if (settings.shape.mtu > most) {
      return error(WEFT_INC_UNAVAILABLE, context->context.transport().name() + " takes packets of " +
                                             std::to_string(most) + " bytes at most, and the group has " +
                                             std::to_string(settings.shape.mtu));
    }
    c::Group& made = context->context.add(rank, ranks, settings);
    const auto bytes = c::write_handle(made.handle());
    static_assert(sizeof handle->bytes == c::kHandleBytes);
    std::copy(bytes.begin(), bytes.end(), handle->bytes);
    *group = new weft_inc_group{context->context, made};
    return WEFT_INC_OK;
  });
}

enum weft_inc_status weft_inc_group_member(const weft_inc_group* group, weft_inc_member* member) {
  if (group == nullptr || member == nullptr) return invalid("a group or member is a null pointer");
  return guarded([&] {
    const auto held = group->context.lock();
    if (group->group.state() != c::Group::State::created) return invalid("the group is being connected already");
    const c::Handle handle = group->group.handle();
    *member = {};
    handle.switch_end.address.to_string().copy(member->address, sizeof member->address - 1);
    member->qp = handle.switch_end.qpn;
    member->first_psn = handle.switch_end.first_psn;
    member->expects_psn = handle.switch_end.expects_psn;
    member->mtu = handle.shape.mtu;
    return WEFT_INC_OK;
  });
}

enum weft_inc_status weft_inc_group_connect(weft_inc_group* group, const weft_inc_handle* handles,
                                            const weft_inc_endpoint* endpoint) {
  if (group == nullptr || handles == nullptr) return invalid("a group or its handles are a null pointer");
  return guarded([&] {
    std::vector<c::Handle> all;
    for (uint32_t rank = 0; rank < group->group.ranks(); ++rank) {
      auto one = c::read_handle(std::span<const std::uint8_t, c::kHandleBytes>(handles[rank].bytes));
      if (!one) return invalid("the handle of rank " + std::to_string(rank) + " is none");
      all.push_back(std::move(*one));
    }
    std::optional<c::SwitchEnd> known;
    if (endpoint != nullptr) {
      const auto address = weft::wire::IpAddress::parse(endpoint->address == nullptr ? "" : endpoint->address);
      if (!address) return invalid("the endpoint's address is none");
      if (endpoint->qp >= 1u << 24) return invalid("a queue pair's number has 24 bits");
      if (endpoint->window == 0) return invalid("the endpoint's window is 0");
      known = c::SwitchEnd{*address, endpoint->qp, endpoint->group, endpoint->window};
    }
    const auto held = group->context.lock();
    if (auto why = group->group.connect(std::move(all), known); !why.empty()) return invalid(std::move(why));
    group->context.run();
    return WEFT_INC_OK;
  });
}

enum weft_inc_status weft_inc_group_test(weft_inc_group* group) {
  if (group == nullptr) return invalid("the group is a null pointer");
  return guarded([&] {
    const auto held = group->context.lock();
    group->context.run();
    return status_of(group->group);
  });
}

enum weft_inc_status weft_inc_group_info_get(const weft_inc_group* group, weft_inc_group_info* info) {
  if (group == nullptr || info == nullptr) return invalid("a group or its info is a null pointer");
  const auto held = group->context.lock();
  if (auto why = c::give(group->group.info(), "weft_inc_group_info", *info); !why.empty()) {
    return invalid(std::move(why));
  }
  return WEFT_INC_OK;
}

void weft_inc_group_destroy(weft_inc_group* group) {
  if (group == nullptr) return;
  const std::unique_ptr<weft_inc_group> ended(group);
  c::Group& g = group->group;
  guarded([&] {
    std::shared_ptr<c::Request> all_here;
    {
      const auto held = group->context.lock();
      if (g.state() == c::Group::State::ready && g.idle()) all_here = g.post_barrier();
    }
    if (all_here != nullptr) group->context.wait([&] { return over(*all_here); }, kLeaveNs);
    return WEFT_INC_OK;
  });
  const auto held = group->context.lock();
  g.leave();
  group->context.remove(g);
}

enum weft_inc_status weft_inc_memory_register(weft_inc_context* context, void* data, size_t bytes,
                                              weft_inc_memory** memory) {
  if (context == nullptr || data == nullptr || memory == nullptr) {
    return invalid("a context, memory or its address is a null pointer");
  }
  if (bytes == 0) return invalid("there is no memory of 0 bytes");
  return guarded([&] {
    auto made = std::make_unique<weft_inc_memory>(weft_inc_memory{context->context, data});
    const auto held = context->context.lock();
    context->context.memory().add(data, bytes);
    *memory = made.release();
    return WEFT_INC_OK;
  });
}

void weft_inc_memory_deregister(weft_inc_memory* memory) {
  if (memory == nullptr) return;
  const std::unique_ptr<weft_inc_memory> ended(memory);
  const auto held = memory->context.lock();
  memory->context.memory().remove(memory->data);
}

enum weft_inc_status weft_inc_memory_gone(weft_inc_context* context, const void* data, size_t bytes) {
  if (context == nullptr) return invalid("the context is a null pointer");
  return guarded([&] {
    const auto held = context->context.lock();
    context->context.memory().gone(data, bytes);
    return WEFT_INC_OK;
  });
}

enum weft_inc_reason weft_inc_can(const weft_inc_group* group, enum weft_inc_primitive primitive,
                                  enum weft_inc_type type, enum weft_inc_op op, uint64_t bytes) {
  if (group == nullptr) return WEFT_INC_REASON_NOT_READY;
  const auto held = group->context.lock();
  return group->group.can(static_cast<c::Collective>(primitive), static_cast<weft::inc::DataType>(type),
                          static_cast<weft::inc::Op>(op), bytes);
}

enum weft_inc_status weft_inc_iallreduce(weft_inc_group* group, const void* send, void* receive, size_t count,
                                         enum weft_inc_type type, enum weft_inc_op op, weft_inc_request** request) {
  return begin(group, call(c::Collective::allreduce, send, receive, count, type, op, 0), request);
}

enum weft_inc_status weft_inc_ireduce(weft_inc_group* group, const void* send, void* receive, size_t count,
                                      enum weft_inc_type type, enum weft_inc_op op, uint32_t root,
                                      weft_inc_request** request) {
  return begin(group, call(c::Collective::reduce, send, receive, count, type, op, root), request);
}

enum weft_inc_status weft_inc_ibroadcast(weft_inc_group* group, void* buffer, size_t count, enum weft_inc_type type,
                                         uint32_t root, weft_inc_request** request) {
  return begin(group, call(c::Collective::broadcast, buffer, buffer, count, type, WEFT_INC_SUM, root), request);
}

enum weft_inc_status weft_inc_ibarrier(weft_inc_group* group, weft_inc_request** request) {
  return begin(group, call(c::Collective::barrier, nullptr, nullptr, 0, WEFT_INC_FP32, WEFT_INC_SUM, 0), request);
}

enum weft_inc_status weft_inc_ireduce_scatter(weft_inc_group* group, const void* send, void* receive, size_t count,
                                              enum weft_inc_type type, enum weft_inc_op op,
                                              weft_inc_request** request) {
  return begin(group, call(c::Collective::reduce_scatter, send, receive, count, type, op, 0), request);
}

enum weft_inc_status weft_inc_iallgather(weft_inc_group* group, const void* send, void* receive, size_t count,
                                         enum weft_inc_type type, weft_inc_request** request) {
  return begin(group, call(c::Collective::allgather, send, receive, count, type, WEFT_INC_SUM, 0), request);
}

enum weft_inc_status weft_inc_test(weft_inc_request** request) {
  if (request == nullptr) return invalid("the request is a null pointer");
  if (*request == nullptr) return WEFT_INC_OK;
  return guarded([&] {
    const auto held = (*request)->context.lock();
    (*request)->context.run();
    return over(*(*request)->request) ? end(request) : WEFT_INC_AGAIN;
  });
}

enum weft_inc_status weft_inc_wait(weft_inc_request** request, int timeout_ms) {
  if (request == nullptr) return invalid("the request is a null pointer");
  if (*request == nullptr) return WEFT_INC_OK;
  return guarded([&] {
    weft_inc_request& r = **request;
    const std::int64_t limit = timeout_ms < 0 ? -1 : std::int64_t{timeout_ms} * 1'000'000;
    if (!r.context.wait([&] { return over(*r.request); }, limit)) return WEFT_INC_AGAIN;
    const auto held = r.context.lock();
    return end(request);
  });
}
}
