// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <cmath>

#include "switch/config/schema/prefixes.h"
#include "switch/stages/bicc/options.h"
#include "switch/stages/rdma_track/known.h"

namespace weft::stages {

using config::Diagnostics;
using config::Schema;
using config::Value;

Schema bicc_options_schema() {
  using Key = Schema::Key;
  return Schema::map({
      Key::required_key("remote", Schema::list(Schema::prefix(), 1),
                        "Prefixes of the other data centres: requests from there to here wait in virtual output "
                        "queues."),
      Key::with_default("enabled", Schema::boolean(), Value(true), "false: nothing is held."),
      Key::with_default("in_flight_kb", Schema::number(0.001, 1e9), Value(105.0),
                        "Thousands of bytes that may be under way from here to a destination: what a round trip inside "
                        "the data centre carries. The default is 8.4 us at 100 Gbit/s."),
      Key::with_default("stale_us", Schema::number(0.1, 1e7), Value(1000.0),
                        "A destination for which packets wait and that acknowledges nothing for so many microseconds "
                        "is taken to have received what was under way."),
      Key::with_default(
          "buffer_kb", Schema::integer(1, 1 << 30), Value(65'536),
          "Thousands of bytes that may be held. When they are full, all that waits for a destination that "
          "needs room goes on, in order."),
      Key::with_default("max_packets", Schema::integer(1, 1 << 24), Value(65'536),
                        "Packets that may be held; they take packet buffers."),
      Key::with_default("charge", Schema::boolean(), Value(true),
                        "What is held takes room of the shared buffer, in the priority group that it came in by, and "
                        "pauses its senders as what stands in a queue does. false: it takes packet buffers alone. "
                        "Without qos there is no shared buffer."),
      Key::with_default("max_destinations", Schema::integer(4, 1 << 20), Value(1024),
                        "Virtual output queues; rounded up to a power of two."),
      Key::with_default("max_flows", Schema::integer(4, 1 << 20), Value(4096),
                        "Flows whose acknowledgements are counted; rounded up to a power of two."),
      accept_option(),
  });
}

BiccOptions bicc_options(const Value& options) {
  const auto count = [&](const char* key) { return static_cast<std::uint32_t>(options[key].unsigned_integer()); };
  const auto thousandths = [&](const char* key) {
    return static_cast<std::uint64_t>(std::llround(options[key].number() * 1000));
  };
  BiccOptions result;
  result.enabled = options["enabled"].boolean();
  result.remote.prefixes = config::prefixes_of(options["remote"]);
  result.charge = options["charge"].boolean();
  result.settings = {.limit_bytes = thousandths("in_flight_kb"),
                     .stale_ns = thousandths("stale_us"),
                     .buffer_bytes = options["buffer_kb"].unsigned_integer() * 1000,
                     .max_packets = count("max_packets"),
                     .destinations = count("max_destinations"),
                     .flows = count("max_flows")};
  return result;
}

void check_bicc_options(const Value& options, const pipeline::SwitchInfo& /*info*/, Diagnostics& diagnostics) {
  for (const Value& item : options["remote"].list()) config::check_host_bits("remote", item, diagnostics);
}

}  // namespace weft::stages
