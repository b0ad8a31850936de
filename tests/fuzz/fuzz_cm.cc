// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Input: a management datagram. What the parser accepts has to survive building and parsing.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "switch/wire/cm.h"
#include "tests/fuzz/require.h"

namespace weft::wire {
namespace {

void exercise_private_data(std::span<const std::uint8_t> bytes) {
  const auto header = parse_cma(bytes);
  if (!header) return;
  require(parse_cma(build_cma(*header)) == header, "an rdma_cm header survives building and parsing");
}

void exercise(std::span<const std::uint8_t> data) {
  const auto exact = std::make_unique<std::uint8_t[]>(data.size());
  std::copy(data.begin(), data.end(), exact.get());
  const CmMessage untouched{0x123456789, CmRtu{}};
  CmMessage message = untouched;
  const CmValidity validity = parse_cm({exact.get(), data.size()}, message);
  require(!name(validity).empty() && !description(validity).empty(), "every result has a name");
  if (validity != CmValidity::ok) {
    require(message == untouched, "a rejected datagram leaves the message as it was");
    return;
  }
  require(!name(message.attribute()).empty(), "every message has a name");
  CmMessage again;
  const auto built = build_cm(message);
  for (std::size_t i = kMadHeaderBytes; i < built.size(); ++i) {
    require((built[i] & ~data[i]) == 0, "building sets no bit that parsing did not see");
  }
  require(parse_cm(built, again) == CmValidity::ok && again == message, "a message survives building and parsing");
  if (const auto* req = std::get_if<CmReq>(&message.body)) exercise_private_data(req->private_data);
  if (const auto* req = std::get_if<CmSidrReq>(&message.body)) exercise_private_data(req->private_data);
}

}  // namespace
}  // namespace weft::wire

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kLargest = 1024;
  if (size <= kLargest) weft::wire::exercise({data, size});
  return 0;
}
