// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What ranks do wrong, and that it stays among them: beside a group whose ranks say what a test wants them to, the
// production RNICs' group runs, and plain packets are forwarded.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "collectives/stage/stage.h"
#include "tests/collectives/stage/star.h"

namespace weft::inc {
namespace {

using testing::answer;
using testing::Bytes;
using testing::Collective;
using testing::Forwarding;
using testing::port_name;
using wire::Opcode;
using wire::Syndrome;

constexpr std::uint32_t kScripted = 78, kBytes = 512;
constexpr wire::Qpn kHostQp{18}, kPlainQp{99};

const std::vector<Collective> kOthersRun{{Primitive::allreduce, 0, 5}, {Primitive::reduce, 2, 7},
                                         {Primitive::broadcast, 1, 6}, {Primitive::barrier, 0, 0},
                                         {Primitive::reduce, 0, 4},    {Primitive::allreduce, 0, 9}};

wire::Psn first_rx(std::size_t r) {
  return testing::star(2).endpoints[r % 2].first_rx;
}
wire::Psn first_tx(std::size_t r) {
  return testing::star(2).endpoints[r % 2].first_tx;
}

std::string scripted_yaml(const std::string& more) {
  std::string yaml = "{ id: " + std::to_string(kScripted) +
                     ", ranks: 4, mtu: 256, message_packets: 1, window: 2, rnr_timer: 1" +
                     (more.empty() ? "" : ", " + more) + ", endpoints: [";
  for (std::size_t r = 0; r < testing::kRanks; ++r) {
    yaml += "{ address: 10.0.0.253, qp: " + std::to_string(200 + r) + ", peer: 10.0.0." + std::to_string(r + 1) +
            ", peer_qp: 18, rank: " + std::to_string(r) + ", first_rx: " + std::to_string(first_rx(r).value()) +
            ", first_tx: " + std::to_string(first_tx(r).value()) + " }, ";
  }
  return yaml + "] }";
}

ControlMessage said(Primitive primitive, std::uint16_t root = 0) {
  ControlMessage m = testing::message(primitive, 0, primitive == Primitive::barrier ? 0 : kBytes, root);
  m.group = kScripted;
  return m;
}

/// A packet that a scripted rank got.
struct Heard {
  nic::Packet packet;
  Bytes payload;
};

/// The star, and the scripted group on it.
class Beside {
 public:
  explicit Beside(const std::string& mode)
      : star(Forwarding::bridged,
             "{ groups: [" + testing::group_yaml(Forwarding::bridged, testing::kGroupId, mode) + ", " +
                 scripted_yaml(mode) + "] }",
             kOthersRun) {
    for (std::size_t r = 0; r < testing::kRanks; ++r) {
      nic::Path path = star.heads[r].path();
      path.destination = *wire::IpAddress::parse("10.0.0.253");
      heads_[r].set(path);
      // So the switch knows where the hosts are.
      star.h.inject(port_name(r), wire::FrameBuilder()
                                      .eth(testing::host_mac(r), wire::MacAddress::from_u64(0xffffffffffff))
                                      .arp(1, testing::host_mac(r), path.source, {}, path.destination)
                                      .pad_to_minimum()
                                      .build());
      star.h.take(port_name(r));
    }
    star.aside = [this](std::size_t r, const Bytes& frame, const wire::Parsed& parsed) {
      if (parsed.dest_qp == kPlainQp) {
        arrived += r == 1 ? 1 : 0;  // the bridge floods it: it has seen no packet of that host
        return true;
      }
      if (parsed.dest_qp != kHostQp) return false;
      hear(r, frame, parsed);
      return true;
    };
  }

  void send(std::size_t r, const nic::Packet& p) {
    std::uint8_t head[nic::kMaxHeadBytes];
    const auto f = nic::make_frame(heads_[r], 2, p, wire::Qpn(static_cast<std::uint32_t>(200 + r)), head);
    Bytes out(f.bytes());
    nic::copy_frame(f, out);
    star.h.inject(port_name(r), out);
  }
  void announce(std::size_t r, const ControlMessage& m) {
    Bytes kept;
    send(r, testing::control(first_rx(r), m, kept));
  }
  /// Packet `index` of a rank's vector, from 1.
  void give(std::size_t r, std::uint32_t index) { send(r, data(r, index, vector(r, index))); }
  static nic::Packet data(std::size_t r, std::uint32_t index, const Bytes& payload) {
    nic::Packet p = testing::data(first_rx(r) + index, Opcode::RC_SEND_ONLY, payload);
    p.ack_req = true;
    return p;
  }
  static Bytes vector(std::size_t r, std::uint32_t index) {
    return testing::bytes_of(std::vector<std::uint32_t>(64, (1u << 8 * r) + index));
  }
  static Bytes sum(std::uint32_t index) {
    return testing::bytes_of(std::vector<std::uint32_t>(64, 0x01010101u + 4 * index));
  }
  /// A packet between hosts, which nobody but the bridge looks at.
  void forward() {
    star.h.inject("h0", wire::FrameBuilder()
                            .eth(testing::host_mac(0), testing::host_mac(1))
                            .ipv4("10.0.0.1", "10.0.0.2")
                            .bth(Opcode::RC_SEND_ONLY, kPlainQp, wire::Psn(forwarded++))
                            .payload(64)
                            .build());
  }
  /// The others go on a little, and everybody hears what has come.
  void step() {
    forward();
    const std::string how = star.run(1);
    EXPECT_TRUE(how == "endless" || how == "done") << how;
  }
  /// The others have all that they must have, and so has the bridge.
  void expect_others_undisturbed() {
    EXPECT_EQ(star.run(), "done");
    EXPECT_EQ(arrived, forwarded);
    const auto row = state(testing::kGroupId);
    EXPECT_EQ(row["state"], "running");
    EXPECT_EQ(row["duplicates"], 0);
    EXPECT_EQ(row["refused"], 0);
    EXPECT_EQ(row["resent"], 0);
  }
  nlohmann::ordered_json state(std::uint32_t group) {
    for (const auto& row : star.h.rows("inc_groups")) {
      if (row["group"] == group) return row;
    }
    ADD_FAILURE() << "no group " << group;
    return {};
  }
  [[nodiscard]] std::size_t heard_count() const {
    std::size_t all = 0;
    for (const auto& packets : heard) all += packets.size();
    return all;
  }
  /// Of the requests that a rank has got, the payload by its place in the stream; all repetitions are alike.
  std::map<std::int64_t, Bytes> results(std::size_t r) {
    std::map<std::int64_t, Bytes> all;
    for (const Heard& h : heard[r]) {
      if (!h.packet.info().is_request()) continue;
      const auto [at, fresh] = all.emplace(h.packet.psn.distance_from(first_tx(r)), h.payload);
      EXPECT_TRUE(fresh || at->second == h.payload) << "rank " << r;
    }
    return all;
  }
  [[nodiscard]] bool heard_the_end(std::size_t r) const {
    return std::any_of(heard[r].begin(), heard[r].end(), [](const Heard& h) {
      return h.packet.opcode == Opcode::RC_ACKNOWLEDGE &&
             h.packet.syndrome == Syndrome::nak(wire::NakCode::remote_operational_error).raw();
    });
  }

  testing::Star star;
  std::array<std::vector<Heard>, testing::kRanks> heard;
  std::set<std::size_t> silent;  ///< ranks that answer nothing; the others acknowledge what they get
  std::uint32_t forwarded = 0, arrived = 0;

 private:
  void hear(std::size_t r, const Bytes& frame, const wire::Parsed& parsed) {
    Heard one;
    nic::decode(frame.data(), static_cast<std::uint32_t>(frame.size()), parsed, one.packet);
    if (one.packet.payload.bytes != 0) {
      one.payload.assign(one.packet.payload.data(), one.packet.payload.data() + one.packet.payload.bytes);
    }
    one.packet.payload = {};
    if (one.packet.info().is_request() && !silent.contains(r)) send(r, answer(one.packet.psn, Syndrome::ack()));
    heard[r].push_back(std::move(one));
  }

  std::array<nic::HeaderTemplate, testing::kRanks> heads_;
};

class IncBadInput : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Mode, IncBadInput, ::testing::Values("", "mode: iii", "mode: i, timeout: 12"));

// --- a rank that repeats itself for ever ---

enum class Repeated : std::uint8_t { announcement, data, answered, ack, nak };

TEST_P(IncBadInput, ARankThatRepeatsItselfForEverIsAnsweredNoMoreThanTwiceEachTime) {
  constexpr std::uint32_t kTimes = 2000;
  const ControlMessage m = said(Primitive::allreduce);
  for (const Repeated what :
       {Repeated::announcement, Repeated::data, Repeated::answered, Repeated::ack, Repeated::nak}) {
    SCOPED_TRACE(std::string(GetParam()) + ", case " + std::to_string(static_cast<int>(what)));
    Beside b(GetParam());
    Bytes kept;
    nic::Packet again = testing::control(first_rx(0), m, kept);
    const Bytes first = Beside::vector(0, 1);
    std::array<std::uint32_t, testing::kRanks> sent{};  // packets of each rank
    b.announce(0, m);
    sent[0] = 1;
    if (what == Repeated::data) {
      b.give(0, 1);
      sent[0] = 2;
      again = Beside::data(0, 1, first);
    } else if (what != Repeated::announcement) {
      if (what == Repeated::nak) b.silent = {0};
      for (std::size_t r = 1; r < testing::kRanks; ++r) b.announce(r, m);
      sent = {1, 1, 1, 1};
      for (int i = 0; i < 5; ++i) b.step();
      ASSERT_EQ(b.results(0).size(), 1u);
      if (what == Repeated::ack) again = answer(first_tx(0), Syndrome::ack());
      if (what == Repeated::nak) again = answer(first_tx(0), Syndrome::nak(wire::NakCode::psn_sequence_error));
    }
    const std::size_t before = b.heard_count(), to_it = b.heard[0].size();
    for (std::uint32_t i = 0; i < kTimes; ++i) {
      b.send(0, again);
      if (i % 20 == 0) b.step();
    }
    b.step();
    EXPECT_LE(b.heard[0].size() - to_it, 2 * kTimes);
    b.expect_others_undisturbed();
    if (what == Repeated::nak && b.state(kScripted)["mode"] == "i") {
      // NAKs count as retries of the RNIC that the switch is, as they do in any other.
      EXPECT_EQ(b.state(kScripted)["failure"], "rank 0 (10.0.0.1): no answer, however often packets were sent again");
      continue;
    }
    EXPECT_EQ(b.heard_count() - before, b.heard[0].size() - to_it) << "its neighbours hear nothing of it";
    EXPECT_EQ(b.state(kScripted)["state"], "running") << b.state(kScripted)["failure"];
    // Its own group ends as if nothing had been.
    b.silent = {};
    if (what == Repeated::nak) b.send(0, answer(first_tx(0), Syndrome::ack()));
    for (std::uint32_t index = 0; index <= kBytes / 256; ++index) {
      for (std::size_t r = 0; r < testing::kRanks; ++r) {
        if (sent[r] > index) continue;
        index == 0 ? b.announce(r, m) : b.give(r, index);
      }
      for (int i = 0; i < 5; ++i) b.step();
    }
    for (std::size_t r = 0; r < testing::kRanks; ++r) {
      const auto results = b.results(r);
      ASSERT_EQ(results.size(), 3u) << r;
      for (const std::uint32_t index : {1u, 2u}) EXPECT_EQ(results.at(index), Beside::sum(index)) << r;
    }
    EXPECT_EQ(b.state(kScripted)["contributions"], 12) << "each packet was added once";
  }
}

// --- a group that fails ---

enum class End : std::uint8_t { disagreement, fatal_nak, garbage, wrong_length };

TEST_P(IncBadInput, AGroupThatFailsLeavesOthersAndPlainPacketsAlone) {
  const ControlMessage m = said(Primitive::allreduce);
  for (const End how : {End::disagreement, End::fatal_nak, End::garbage, End::wrong_length}) {
    SCOPED_TRACE(std::string(GetParam()) + ", case " + std::to_string(static_cast<int>(how)));
    Beside b(GetParam());
    b.step();
    for (const std::size_t r : {0u, 1u, 2u}) b.announce(r, m);
    b.step();
    if (how == End::disagreement) b.announce(3, said(Primitive::barrier));
    if (how == End::fatal_nak) {
      b.send(3, answer(first_tx(3), Syndrome::nak(wire::NakCode::remote_operational_error)));
    }
    const Bytes garbage(16, 0xa5), shorter(100, 1);
    if (how == End::garbage) b.send(3, testing::data(first_rx(3), Opcode::RC_SEND_ONLY, garbage));
    if (how == End::wrong_length) {
      b.announce(3, m);
      b.step();
      b.send(3, Beside::data(3, 1, shorter));
      for (const std::size_t r : {0u, 1u, 2u}) b.give(r, 1);
    }
    b.step();
    EXPECT_EQ(b.state(kScripted)["state"], "failed");
    for (std::size_t r = 0; r < testing::kRanks; ++r) EXPECT_TRUE(b.heard_the_end(r)) << r;
    // Its ranks do not listen: each packet is refused, and nothing more comes of it.
    const std::size_t before = b.heard_count();
    constexpr std::size_t kTimes = 500;
    for (std::uint32_t i = 0; i < kTimes; ++i) {
      for (std::size_t r = 0; r < testing::kRanks; ++r) i % 2 == 0 ? b.announce(r, m) : b.give(r, 1 + i % 3);
      if (i % 20 == 0) b.step();
    }
    b.step();
    EXPECT_LE(b.heard_count() - before, kTimes * testing::kRanks);
    EXPECT_EQ(b.star.h.counter("inc", "failed"), 1u);
    b.expect_others_undisturbed();
  }
}

// --- ranks that disagree ---

struct Disagreement {
  const char* name;
  ControlMessage most, odd;
};

std::vector<Disagreement> disagreements() {
  const auto with = [](ControlMessage m, auto&& change) {
    change(m);
    return m;
  };
  const ControlMessage all = said(Primitive::allreduce), reduce = said(Primitive::reduce, 2);
  return {
      {"primitive", all, said(Primitive::barrier)},
      {"primitive_with_root", reduce, all},
      {"primitive_that_not_all_send", all, said(Primitive::broadcast, 1)},
      {"type", all, with(all, [](ControlMessage& m) { m.type = DataType::int32; })},
      {"op", all, with(all, [](ControlMessage& m) { m.op = Op::max; })},
      {"root", reduce, said(Primitive::reduce, 3)},
      {"root_that_sends", said(Primitive::broadcast, 0), said(Primitive::broadcast, 1)},
      {"size", all, with(all, [](ControlMessage& m) { m.bytes = 2 * kBytes; })},
      {"order", all, with(all, [](ControlMessage& m) { m.sequence = 1; })},
  };
}

class IncDisagreement : public ::testing::TestWithParam<std::tuple<const char*, std::size_t>> {};
INSTANTIATE_TEST_SUITE_P(What, IncDisagreement,
                         ::testing::Combine(::testing::Values("", "mode: iii", "mode: i, timeout: 12"),
                                            ::testing::Range(std::size_t{0}, disagreements().size())));

/// Rank 1 says another thing than all others, as the last or as the first one.
TEST_P(IncDisagreement, MixesNoDataAndSaysWhoSaidWhat) {
  const auto& [mode, index] = GetParam();
  const Disagreement d = disagreements()[index];
  for (const bool odd_is_first : {false, true}) {
    SCOPED_TRACE(std::string(d.name) + ", " + mode + (odd_is_first ? ", first" : ", last"));
    Beside b(mode);
    const auto sends = [](const ControlMessage& m, std::size_t r) {
      if (m.primitive == Primitive::reduce) return m.root != r;
      return m.primitive != Primitive::broadcast || m.root == r;
    };
    const auto odd = [&] {
      b.announce(1, d.odd);
      if (d.odd.bytes != 0) b.give(1, 1);
    };
    if (odd_is_first) odd();
    for (const std::size_t r : {0u, 2u, 3u}) {
      if (!sends(d.most, r)) continue;
      b.announce(r, d.most);
      if (d.most.bytes != 0) b.give(r, 1);
    }
    for (int i = 0; i < 3; ++i) b.step();
    if (!odd_is_first) odd();
    for (int i = 0; i < 3; ++i) b.step();
    // Of a collective that is still to come, modes II and III take no packet; its rank repeats it.
    if (d.odd.sequence != 0 && odd_is_first && b.state(kScripted)["mode"] != "i") {
      EXPECT_EQ(b.state(kScripted)["state"], "running");
      b.announce(1, d.odd);
      b.step();
    }
    const auto row = b.state(kScripted);
    EXPECT_EQ(row["state"], "failed");
    const std::string failure = row["failure"];
    EXPECT_THAT(failure, ::testing::HasSubstr("ranks began different collectives"));
    EXPECT_THAT(failure, ::testing::HasSubstr(describe(d.most)));
    EXPECT_THAT(failure, ::testing::HasSubstr(describe(d.odd)));
    EXPECT_THAT(failure, ::testing::HasSubstr("rank 1 (10.0.0.2)"));
    EXPECT_THAT(failure,
                ::testing::AnyOf(::testing::HasSubstr("rank 0 (10.0.0.1)"), ::testing::HasSubstr("rank 3 (10.0.0.4)")));
    for (std::size_t r = 0; r < testing::kRanks; ++r) {
      EXPECT_TRUE(b.heard_the_end(r)) << r;
      const bool relays = d.most.primitive == Primitive::broadcast || d.odd.primitive == Primitive::broadcast;
      for (const auto& [place, payload] : b.results(r)) {
        EXPECT_TRUE(relays) << "what is added up was never complete";
        // Of one rank alone, as it has sent it.
        const std::size_t root = odd_is_first ? 1 : 0;
        if (place == 1) {
          EXPECT_EQ(payload, Beside::vector(root, 1));
        }
      }
    }
    b.expect_others_undisturbed();
  }
}

}  // namespace
}  // namespace weft::inc
