// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Which workers send through a port. What has queues, an emulated wire or PAUSE needs one place that decides what
// leaves next, and a transmit queue of a device belongs to one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "switch/pipeline/switch_info.h"

namespace weft {

/// Why a port's owner alone sends through it, in a few words; empty where every worker sends itself, through a transmit
/// queue of its own.
/// @param tx_queues  of the device (ports::Port::tx_queues())
[[nodiscard]] std::string_view why_owner_sends(const pipeline::SwitchInfo& info, const pipeline::PortInfo& port,
                                               std::uint16_t tx_queues, std::uint16_t workers);

/// What there is to say of it when a switch starts: a line for the ports through which all workers send and one for
/// each reason why others do not, each with the names of some ports. Nothing with one worker.
/// @param tx_queues  by port
[[nodiscard]] std::vector<std::string> describe_senders(const pipeline::SwitchInfo& info,
                                                        std::span<const std::uint16_t> tx_queues,
                                                        std::uint16_t workers);

}  // namespace weft
