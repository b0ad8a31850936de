// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weft-inc/perf_options.h"

#include <CLI/CLI.hpp>

namespace weft::inc_tool {

void add_perf_options(CLI::App& to, PerfOptions& o) {
  to.footer("Start it once on each host. Flags and table are those of nccl-tests; times are the slowest rank's.");
  to.add_option("COLLECTIVE", o.collective,
                "allreduce (default), reduce, broadcast, barrier, reduce_scatter or allgather");
  to.add_option("--rank", o.rank, "Number of this rank, from 0 on")->required();
  to.add_option("--ranks", o.ranks, "How many there are")->required();
  to.add_option("--meet", o.meet, "ADDRESS:PORT at which rank 0 listens, and the others find it, over TCP")->required();
  to.add_option("--backend", o.backend,
                "auto: switches, or hosts with the reason; inc: switches or an error; ring, tree: hosts")
      ->check(CLI::IsMember({"auto", "inc", "ring", "tree"}))
      ->capture_default_str();
  const auto bytes = CLI::AsSizeValue(false);
  to.add_option("-b,--minbytes", o.min_bytes, "Smallest vector; K, M and G are powers of 1024")->transform(bytes);
  to.add_option("-e,--maxbytes", o.max_bytes, "Largest vector")->transform(bytes);
  to.add_option("-f,--stepfactor", o.factor, "Factor from one size to the next; default: 2")
      ->check(CLI::Range(2, 1024));
  to.add_option("-i,--stepbytes", o.step_bytes, "Or bytes from one size to the next")->transform(bytes);
  to.add_option("-n,--iters", o.iterations, "Times that each size is measured")->capture_default_str();
  to.add_option("-w,--warmup_iters", o.warmups, "Times before that")->capture_default_str();
  to.add_option("-c,--check", o.check, "1: compare all results with what they must be; 0: do not")
      ->capture_default_str();
  to.add_option("-o,--op", o.op, "sum, prod, min, max, band, bor or bxor")->capture_default_str();
  to.add_option("-d,--datatype", o.type, "float, half, bfloat16, double, int8 to int64, uint8 to uint64")
      ->capture_default_str();
  to.add_option("-r,--root", o.root, "Of reduce and broadcast")->capture_default_str();
  to.add_option("--rnic", o.address, "Address of the RNIC; default: the first of the interface or device");
  to.add_option("--interface", o.interface, "Interface; default: the only one that is up");
  to.add_option("--device", o.device,
                "Device of libibverbs with RoCE v2, as mlx5_0 or mlx5_0:2; default: weft's own RNIC, on an interface");
  to.add_option("--memif", o.memif,
                "Socket of a memif port of weft-switch, in place of an interface; --rnic has the length of its network "
                "then, as 10.0.0.2/24")
      ->excludes("--device");
  to.add_option("--poll-us", o.poll_us, "A rank that waits looks for so long for what comes before it sleeps")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  to.add_option("--daemon", o.daemon, "Socket of weft-incd; default: $WEFT_INC_SOCKET, or /run/weft/incd.sock");
  to.add_option("--mtu", o.mtu, "Payload of a full packet in bytes")->capture_default_str();
  to.add_option("--message-packets", o.message_packets, "Packets of a full message")->capture_default_str();
  to.add_option("--window", o.window, "Messages under way")->capture_default_str();
  to.add_option("--mode", o.mode, "Mode of the switches, 1 to 3; 0: the manager's choice")->capture_default_str();
  to.add_flag("--reproducible", o.reproducible, "Sums are the same to the last bit whatever the order of arrival");
  add_rhythm(to, o.rhythm);
  to.add_flag("--by-hand", o.by_hand, "Print this rank's queue pair, and read the switch's from standard input");
  to.add_option("--link-gbps", o.link_gbps,
                "Rate of a rank's link in Gbit/s, of which the column `link` is a share; default: what Linux says")
      ->check(CLI::Range(0.001, 100'000.0));
  to.add_option("--timeout", o.timeout_s, "Seconds that a collective, or finding each other, may take")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
}

}  // namespace weft::inc_tool
