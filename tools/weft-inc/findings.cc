// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weft-inc/findings.h"

#include <algorithm>

namespace weft::inc_tool {
namespace {

using inc::comm::Gid;

/// "GID 1 of rxe0 (10.0.1.2)"; weft's own RNIC has addresses alone: "10.0.1.2 of eth0".
std::string text(const std::string& rnic, const Gid& gid) {
  if (!gid.index) return gid.address.to_string() + " of " + rnic;
  return "GID " + std::to_string(*gid.index) + " of " + rnic + ", port " + std::to_string(gid.port) + " (" +
         gid.address.to_string() + ")";
}

const KnownHost* find(const std::vector<KnownHost>& known, const Gid& gid) {
  const auto at =
      std::find_if(known.begin(), known.end(), [&](const KnownHost& k) { return k.address == gid.address; });
  return at == known.end() ? nullptr : &*at;
}

std::string count(std::uint64_t n, const char* what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

}  // namespace

Finding gid_finding(const std::string& rnic, const Gid& chosen, const std::vector<Gid>& all,
                    const std::vector<KnownHost>& known) {
  if (const KnownHost* host = find(known, chosen)) {
    return {"gid", true, text(rnic, chosen) + " is of RoCE v2, and the address of " + host->name + " for the manager"};
  }
  const std::string wrong = "programs take " + text(rnic, chosen) + ", which the manager does not know";
  for (const Gid& gid : all) {
    const KnownHost* host = find(known, gid);
    if (host == nullptr) continue;
    return {"gid", false,
            wrong + "; its " + host->name + " is " + text(rnic, gid) + ": name this address (--rnic " +
                gid.address.to_string() + ", weft_inc_options.address)"};
  }
  std::string others;
  for (const Gid& gid : all) others += (others.empty() ? "" : ", ") + text(rnic, gid);
  return {"gid", false,
          wrong + ", and none of those that it could take: " + (others.empty() ? "there are none" : others)};
}

Finding icrc_finding(const IcrcFacts& f) {
  const auto finding = [](std::optional<bool> fine, std::string detail) {
    return Finding{"icrc", fine, std::move(detail)};
  };
  const std::uint64_t bad = f.says ? f.says->bad_icrc : 0, bad_here = f.rnic_drops.value_or(0);
  if (bad > 0) {
    return finding(false, f.switch_name + " drops packets of this host: " + std::to_string(bad) +
                              " came with a wrong "
                              "ICRC, " +
                              std::to_string(f.says->taken) + " with the right one");
  }
  if (bad_here > 0) {
    return finding(false, "this host's RNIC drops packets of " + f.switch_name + ": " + count(bad_here, "answer") +
                              " came with a wrong ICRC");
  }
  if (f.acknowledged) {
    return finding(true, f.switch_name + " took " + count(f.packets, "packet") + " of up to " + std::to_string(f.mtu) +
                             " bytes from here, and its answers came: the ICRC is right in both directions");
  }
  if (!f.says) {
    return finding(std::nullopt, f.switch_name + " answers nothing, and the manager cannot tell what it got" +
                                     (f.error.empty() ? "" : ": " + f.error));
  }
  if (f.says->taken == 0) {
    return finding(false, "no packet of this host came to " + f.switch_name +
                              ": they are lost on the way, as with a filter of UDP port 4791");
  }
  if (f.says->sent == 0) {
    return finding(false, f.switch_name + " took " + count(f.says->taken, "packet") +
                              " of this host with the right ICRC, and sent no answer");
  }
  return finding(false, f.switch_name + " took " + count(f.says->taken, "packet") +
                            " of this host with the right ICRC, and of its " + count(f.says->sent, "answer") +
                            " this host's RNIC took too few: they are lost on the way back" +
                            (f.rnic_drops ? "" : ", or dropped by the RNIC, which does not count a wrong ICRC"));
}

}  // namespace weft::inc_tool
