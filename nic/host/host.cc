// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/host/host.h"

#include <sys/prctl.h>

#include <algorithm>

#include "nic/host/netdev_port.h"
#include "switch/system/clock.h"

namespace weft::nic {

Time monotonic_now() noexcept {
  return static_cast<Time>(weft::monotonic_now());
}

std::string Host::open(const std::string& interface) {
  auto port = std::make_unique<NetdevPort>();
  std::string problem = port->open(interface);
  if (problem.empty()) open(std::move(port));
  return problem;
}

void Host::open(std::unique_ptr<Port> port) noexcept {
  port_ = std::move(port);
  // What run_once() sleeps until is nearer than the 50 us by which Linux lets timers be late.
  static_cast<void>(prctl(PR_SET_TIMERSLACK, 1000UL));
}

Device& Host::add_device(const wire::IpAddress& address, std::uint64_t seed, const CmConfig& cm) {
  DeviceConfig config;
  config.mac = port_->info().mac;
  config.address = address;
  config.seed = seed;
  config.cm = cm;
  devices_.push_back(std::make_unique<Device>(config));
  devices_.back()->set_paused(paused_dscps_);
  by_address_[address] = devices_.back().get();
  return *devices_.back();
}

/// With one device there is nothing to choose; it checks the address itself.
void Host::dispatch(Time now, std::span<const std::uint8_t> frame) {
  if (Pauses::is_pause(frame)) [[unlikely]]
    return pauses_.on_frame(now, frame);
  if (devices_.size() == 1) return devices_.front()->on_packet(now, frame, *port_);
  constexpr std::size_t kAddresses = sizeof(wire::EthernetHeader) + offsetof(wire::Ipv6Header, destination);
  if (frame.size() >= kAddresses + 16) {
    const bool v6 = wire::header_at<wire::EthernetHeader>(frame.data()).ethertype.value() == wire::EtherType::ipv6;
    const std::uint8_t* ip = frame.data() + sizeof(wire::EthernetHeader);
    const wire::IpAddress to = v6 ? wire::IpAddress::v6(wire::header_at<wire::Ipv6Header>(ip).destination)
                                  : wire::IpAddress::v4(wire::header_at<wire::Ipv4Header>(ip).destination.value());
    const auto device = by_address_.find(to);
    if (device != by_address_.end()) return device->second->on_packet(now, frame, *port_);
  }
  ++unclaimed_;
}

void Host::heed_pauses(Time now) noexcept {
  const std::uint64_t dscps = pauses_.paused_dscps(now);
  if (dscps == paused_dscps_) return;
  paused_dscps_ = dscps;
  for (const auto& device : devices_) device->set_paused(dscps);
}

bool Host::take_in(Time now) {
  const auto frames = port_->receive();
  for (const auto& frame : frames) dispatch(now, frame);
  heed_pauses(now);
  return !frames.empty();
}

bool Host::send(Time now, Time& next) {
  next = pauses_.next_end();
  for (const auto& device : devices_) {
    if (device->next_deadline() <= now) device->on_timer(now, *port_);
    next = std::min(next, device->next_deadline());
  }
  return port_->flush();
}

void Host::receive() {
  take_in(monotonic_now());
}

bool Host::send() {
  Time next = kNever;
  return send(monotonic_now(), next);
}

void Host::run_once(std::chrono::nanoseconds limit) {
  Time now = monotonic_now(), next = kNever;
  const bool some = take_in(now);
  const bool flushed = send(now, next);
  if (some || (next <= now && flushed)) return;
  now = monotonic_now();
  // What waits for room in the interface's queue is not due before there is some.
  const Time wait = flushed ? std::max<Time>(next == kNever ? limit.count() : next - now, 0) : limit.count();
  if (wait > 0) port_->wait(std::min<Time>(wait, limit.count()));
}

bool Host::run_until(const std::function<bool()>& condition, std::chrono::nanoseconds limit) {
  const Time end = monotonic_now() + limit.count();
  while (!condition()) {
    const Time left = end - monotonic_now();
    if (left <= 0) return false;
    run_once(std::chrono::nanoseconds(std::min<Time>(left, 100 * kMs)));
  }
  return true;
}

}  // namespace weft::nic
