// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The rows of `weftctl show qps`.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "switch/stages/rdma_track/stage.h"
#include "tests/switch/stages/rdma_track/rig.h"

namespace weft::testing {
namespace {

constexpr Qpn kQpA{0x101}, kQpB{0x202};

nlohmann::ordered_json row(const TrackRig& rig, const std::string& source, const std::string& destination, Qpn qpn) {
  return stages::qp_row(rig.tracker, rig.position(source, destination, qpn), rig.now);
}

std::string service_of(std::uint64_t id) {
  TrackRig rig;
  rig.burst({cm(kA, kB, req(1, kQpA, Psn(0), id)), cm(kB, kA, rep(2, 1, kQpB, Psn(0)))});
  const auto value = row(rig, kA, kB, kQpB)["service"];
  return value.is_null() ? "null" : value.get<std::string>();
}

TEST(QpRow, AllRowsHaveTheSameKeysInTheSameOrder) {
  TrackRig rig;
  rig.burst({cm(kA, kB, req(1, kQpA, Psn(0))), cm(kB, kA, rep(2, 1, kQpB, Psn(0))),
             from_a(Opcode::UD_SEND_ONLY, Qpn(9), Psn(3)).deth(1, Qpn(9)).payload(8),
             wire::FrameBuilder().ipv4(kA, kB).cnp(Qpn(10))});
  std::string keys;
  for (std::uint32_t i = 0; i < rig.tracker.table().slots(); ++i) {
    if (rig.tracker.table().entry(i).is_free()) continue;
    std::string mine;
    const auto r = stages::qp_row(rig.tracker, i, rig.now);
    for (const auto& item : r.items()) mine += item.key() + " ";
    if (keys.empty()) keys = mine;
    EXPECT_EQ(mine, keys);
  }
  EXPECT_EQ(rig.tracker.table().size(), 4u);
}

TEST(QpRow, WhatIsNotKnownIsNull) {
  TrackRig rig;
  rig.send(wire::FrameBuilder().ipv4(kA, kB).cnp(Qpn(10)));
  const auto r = row(rig, kA, kB, Qpn(10));
  for (const auto* key : {"last_psn", "pmtu_bytes", "peer_qp", "peer_naks", "peer_rnr_naks", "peer_cnps", "service"}) {
    EXPECT_TRUE(r[key].is_null()) << key;
  }
  EXPECT_EQ(r["transport"], "unknown");
  EXPECT_EQ(r["pairing"], "none");
  EXPECT_EQ(r["confidence"], 0);
  EXPECT_EQ(r["cnps"], 1);
}

TEST(QpRow, SaysWhoTalksToWhomOverWhat) {
  TrackRig rig;
  rig.burst({cm("fd00::1", "fd00::2", req(1, kQpA, Psn(0))), cm("fd00::2", "fd00::1", rep(2, 1, kQpB, Psn(0)))});
  const auto r = row(rig, "fd00::2", "fd00::1", kQpA);
  EXPECT_EQ(r["source"], "fd00::2");
  EXPECT_EQ(r["destination"], "fd00::1");
  EXPECT_EQ(r["dest_qp"], kQpA.value());
  EXPECT_EQ(r["peer_qp"], kQpB.value());
  EXPECT_EQ(r["transport"], "RC");
  EXPECT_EQ(r["pmtu_bytes"], 1024);
  EXPECT_EQ(r["state"], "open");
}

TEST(QpRow, NamesTheTransport) {
  TrackRig rig;
  rig.burst({from_a(Opcode::UC_SEND_ONLY, Qpn(8), Psn(3)).payload(8),
             from_a(Opcode::UD_SEND_ONLY, Qpn(9), Psn(3)).deth(1, Qpn(9)).payload(8)});
  EXPECT_EQ(row(rig, kA, kB, Qpn(8))["transport"], "UC");
  EXPECT_EQ(row(rig, kA, kB, Qpn(9))["transport"], "UD");
  EXPECT_EQ(row(rig, kA, kB, Qpn(9))["last_psn"], 3);
}

TEST(QpRow, LastPsnIsTheNewestEvenBehindAReadAndTheWrap) {
  TrackRig rig;
  rig.send(write_from_a(kQpB, 0xffffff));
  EXPECT_EQ(row(rig, kA, kB, kQpB)["last_psn"], 0xffffff);
  rig.send(write_from_a(kQpB, 0));
  rig.send(write_from_a(kQpB, 0xffffff));
  EXPECT_EQ(row(rig, kA, kB, kQpB)["last_psn"], 0);
}

TEST(QpRow, CountsItsAgeAndIdleTimeInSeconds) {
  TrackRig rig;
  rig.send(write_from_a(kQpB, 0));
  rig.now += 100'000'000'000;
  rig.send(write_from_a(kQpB, 1));
  rig.now += 30'000'000'000;
  const auto r = row(rig, kA, kB, kQpB);
  EXPECT_NEAR(r["age_s"].get<double>(), 130, 2);
  EXPECT_NEAR(r["idle_s"].get<double>(), 30, 1);
}

TEST(QpRow, ShowsWhatThePeerSaysAboutThisDirection) {
  TrackRig rig;
  rig.burst({cm(kA, kB, req(1, kQpA, Psn(0))), cm(kB, kA, rep(2, 1, kQpB, Psn(0)))});
  rig.send(answer_from_b(kQpA, 0, wire::Syndrome::rnr_nak(1)));
  rig.send(answer_from_b(kQpA, 0, wire::Syndrome::nak(wire::NakCode::psn_sequence_error)));
  rig.send(answer_from_b(kQpA, 0, wire::Syndrome::nak(wire::NakCode::invalid_request)));
  for (int i = 0; i < 3; ++i) rig.send(wire::FrameBuilder().ipv4(kB, kA).cnp(kQpA));
  const auto there = row(rig, kA, kB, kQpB), back = row(rig, kB, kA, kQpA);
  EXPECT_EQ(there["peer_naks"], 2);
  EXPECT_EQ(there["peer_rnr_naks"], 1);
  EXPECT_EQ(there["peer_cnps"], 3);
  EXPECT_EQ(back["peer_naks"], 0);
  EXPECT_EQ(back["nak_psn_sequence"], 1);
  EXPECT_EQ(back["rnr_naks"], 1);
  EXPECT_EQ(back["cnps"], 3);
}

TEST(QpRow, SpellsServices) {
  EXPECT_EQ(service_of(wire::CmaServiceId{wire::CmaServiceId::kTcp, 4420}.encode()), "tcp:4420");
  EXPECT_EQ(service_of(wire::CmaServiceId{wire::CmaServiceId::kUdp, 7}.encode()), "udp:7");
  EXPECT_EQ(service_of(wire::CmaServiceId{wire::CmaServiceId::kIb, 1}.encode()), "ib:1");
  EXPECT_EQ(service_of(0x1000000000000042), "0x1000000000000042");
  EXPECT_EQ(service_of(0), "null");
}

}  // namespace
}  // namespace weft::testing
