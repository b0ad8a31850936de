// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What it takes to add a stage: this file is the stage's folder, register_toys() the list that a binary registers, and
// kConfiguration its example. Nothing else of the switch knows the toys.
#include <gmock/gmock.h>

#include <array>
#include <deque>
#include <memory>
#include <string>

#include "switch/config/config.h"
#include "switch/pipeline/set_words.h"
#include "switch/wire/builder.h"
#include "tests/support/all_stages.h"
#include "tests/support/harness.h"

namespace weft::pipeline {
namespace {

using config::Schema;
using config::Value;
using ::testing::HasSubstr;
using weft::testing::Harness;

/// The reasons for which the toy drops packets: the last block, which no module of the program uses.
constexpr DropReason kToyFull{240};
constexpr std::array kToyDrops{DropReasonInfo{"toy_full", Severity::info, "The toy holds as many packets as it may."}};

/// What the stage `toy` offers to later ones.
class ToyWord {
 public:
  static constexpr std::string_view kCapability = "toy_word";
  virtual ~ToyWord() = default;
  [[nodiscard]] virtual std::uint32_t word() const noexcept = 0;
};

class ToyShared : public StageShared, public ToyWord {
 public:
  explicit ToyShared(const StageBuild& build)
      : word_(static_cast<std::uint32_t>(build.options["word"].unsigned_integer())) {
    publish<ToyWord>(*this);
  }
  [[nodiscard]] std::uint32_t word() const noexcept override { return word_; }

 private:
  std::uint32_t word_;
};

/// Holds every n-th packet for some time, and sends a copy of it on at once.
class ToyStage : public Stage {
 public:
  explicit ToyStage(const Value& options)
      : every_(options["every"].unsigned_integer()),
        hold_ns_(options["hold_us"].unsigned_integer() * 1000),
        room_(options["room"].unsigned_integer()) {}

  void ingress(Context& context, Batch& batch) override {
    for (std::uint16_t i = 0; i < batch.size; ++i) {
      counters_[0].add(1);
      if (++seen_ % every_ != 0) continue;
      if (packets_.size() == room_) {
        context.drop(batch, i, kToyFull);
        continue;
      }
      rte_mbuf* copy = nullptr;
      if (context.replicate(batch.packet[i], &copy, 1)) context.resume(copy);
      packets_.push_back({context.now + hold_ns_, batch.packet[i]});
      batch.remove(i);
      counters_[1].add(1);
    }
    context.at(deadline(0));
  }
  [[nodiscard]] TimeNs deadline(std::uint32_t) const override {
    return packets_.empty() ? kNever : packets_.front().until;
  }
  void on_timer(Context& context, std::uint32_t) override {
    for (; !packets_.empty() && packets_.front().until <= context.now; packets_.pop_front()) {
      context.resume(packets_.front().packet);
    }
    context.at(deadline(0));
  }
  [[nodiscard]] std::size_t held() const override { return packets_.size(); }
  void flush(Context& context) override {
    for (; !packets_.empty(); packets_.pop_front()) context.resume(packets_.front().packet);
  }
  [[nodiscard]] std::span<const Counter> counters() const override { return counters_; }

 private:
  struct Held {
    TimeNs until;
    rte_mbuf* packet;
  };
  std::uint64_t every_;
  TimeNs hold_ns_;
  std::uint64_t room_;
  std::uint64_t seen_ = 0;
  std::deque<Held> packets_;
  std::array<Counter, 2> counters_;
};

/// Counts as many as the word of the stage before it says, for each packet.
class ToyReader : public Stage {
 public:
  explicit ToyReader(const ToyWord& word) : word_(word) {}
  void ingress(Context&, Batch& batch) override { counter_[0].add(std::uint64_t{batch.size} * word_.word()); }
  [[nodiscard]] std::span<const Counter> counters() const override { return counter_; }

 private:
  const ToyWord& word_;
  std::array<Counter, 1> counter_;
};

Schema toy_options() {
  using Key = Schema::Key;
  return Schema::map({Key::with_default("every", Schema::integer(1, 1000), Value(2), "Holds every n-th packet."),
                      Key::with_default("hold_us", Schema::integer(0, 1000), Value(10), "For so long."),
                      Key::with_default("room", Schema::integer(0, 1000), Value(4), "So many at a time."),
                      Key::with_default("word", Schema::integer(0, 1000), Value(5), "What it tells others.")});
}

void check_toy(const Value& options, const SwitchInfo&, config::Diagnostics& diagnostics) {
  if (options["every"].integer() == 13) diagnostics.error(options["every"].mark(), "every: 13 is no number for a toy");
}

void register_toys(Registry& registry) {
  StageType toy;
  toy.name = "toy";
  toy.summary = "Holds some packets.";
  toy.needs = {"parsed"};
  toy.provides = {"toy_word"};
  toy.before = {{"l2", "it plays before packets are forwarded"}};
  toy.holds_packets = true;
  toy.options = toy_options();
  toy.counters = {{"seen", "packets", CounterKind::counter, "Packets that came by."},
                  {"held_back", "packets", CounterKind::counter, "Packets that were held for a while."}};
  toy.drops = {{"toy", 240, kToyDrops}};
  toy.check = check_toy;
  toy.set = [](const Value& options, const SwitchInfo& info, const std::vector<std::string>& words, std::uint16_t) {
    return set_by_words("toy", toy_options(), check_toy, options, info, words);
  };
  toy.make_shared = [](const StageBuild& build) { return std::make_unique<ToyShared>(build); };
  toy.make = [](const StageBuild& build, StageShared*) { return std::make_unique<ToyStage>(build.options); };
  registry.add(std::move(toy));

  StageType reader;
  reader.name = "toy_reader";
  reader.summary = "Reads the word of the toy.";
  reader.needs = {"toy_word"};
  reader.adjacent = {{"toy", "the word is of the moment"}};
  reader.options = Schema::map({});
  reader.counters = {{"sum", "words", CounterKind::counter, "Words read, one for each packet."}};
  reader.make = [](const StageBuild& build, StageShared*) {
    return std::make_unique<ToyReader>(build.capability<ToyWord>());
  };
  registry.add(std::move(reader));
}

const Registry& toys() {
  static const Registry registry = [] {
    Registry all = weft::testing::all_stages();
    register_toys(all);
    return all;
  }();
  return registry;
}

std::string with_pipeline(const std::string& pipeline) {
  return "name: s\nports: [ { name: p1, type: \"null\" }, { name: p2, type: \"null\" } ]\npipeline: " + pipeline + "\n";
}
const std::string kConfiguration = with_pipeline("[ parse, toy: { every: 2, hold_us: 7 }, toy_reader, l2 ]");

std::string mistakes(const std::string& pipeline) {
  config::Diagnostics diagnostics;
  static_cast<void>(config::load_switch(with_pipeline(pipeline), toys(), diagnostics));
  return diagnostics.to_string();
}

weft::testing::Bytes frame() {
  return wire::FrameBuilder()
      .eth(wire::MacAddress::from_u64(0x020000000001), wire::MacAddress::from_u64(0x020000000002))
      .ipv4("10.0.0.1", "10.0.0.2")
      .udp(50000)
      .bth(wire::Opcode::RC_SEND_MIDDLE, wire::Qpn(34), wire::Psn(7))
      .payload(1024)
      .build();
}

TEST(ToyStage, HoldsAndCopiesPacketsWithCountersOfItsOwn) {
  Harness h(toys(), kConfiguration);
  for (int i = 0; i < 4; ++i) h.inject("p1", frame());
  EXPECT_EQ(h.take("p2").size(), 4u) << "two packets and the copies of the others";
  EXPECT_EQ(h.held(), 2u);
  h.advance_ns(7000);
  EXPECT_EQ(h.take("p2").size(), 2u);
  EXPECT_EQ(h.counter("toy", "seen"), 4u);
  EXPECT_EQ(h.counter("toy", "held_back"), 2u);
  EXPECT_EQ(h.counter("toy_reader", "sum"), 6u * 5u);
  h.expect_conservation();
}

TEST(ToyStage, DropsWithAReasonWhatFindsNoRoom) {
  Harness h(toys(), with_pipeline("[ parse, toy: { every: 1, room: 1 }, l2 ]"));
  EXPECT_EQ(toys().drop_reasons()[kToyFull].name, "toy_full");
  for (int i = 0; i < 3; ++i) h.inject("p1", frame());
  EXPECT_EQ(h.dropped(kToyFull), 2u);
}

TEST(ToyStage, ItsOptionsChangeByCommand) {
  Harness h(toys(), kConfiguration);
  EXPECT_EQ(h.set("toy", {"every=13"}), "every: 13 is no number for a toy");
  EXPECT_EQ(h.set("toy", {"every=1"}), "");
  h.inject("p1", frame());
  EXPECT_EQ(h.held(), 1u);
}

TEST(ToyStage, TheLoaderKnowsItsOptionsAndItsPlace) {
  EXPECT_EQ(mistakes("[ parse, toy, toy_reader, l2 ]"), "");
  EXPECT_THAT(mistakes("[ parse, toy: { every: 0 }, l2 ]"), HasSubstr("every"));
  EXPECT_THAT(mistakes("[ parse, toy: { every: 13 }, l2 ]"), HasSubstr("3:34: every: 13 is no number for a toy"));
  EXPECT_THAT(mistakes("[ parse, l2, toy ]"),
              HasSubstr("3:24: stage 'toy' must stand before 'l2': it plays before packets are forwarded"));
  EXPECT_THAT(mistakes("[ parse, toy_reader, l2 ]"), HasSubstr("stage 'toy_reader' needs toy before it"));
  EXPECT_THAT(mistakes("[ parse, toy, impair, toy_reader, l2 ]"),
              HasSubstr("3:25: stage 'impair' may hold packets, so it cannot stand between 'toy' and 'toy_reader'"));
}

TEST(ToyStageDeathTest, ACapabilityThatIsPromisedAndNotPublishedIsOurOwnMistake) {
  Registry registry = weft::testing::all_stages();
  StageType liar;
  liar.name = "liar";
  liar.summary = "Promises a word.";
  liar.provides = {"toy_word"};
  liar.options = Schema::map({});
  liar.make = [](const StageBuild&, StageShared*) { return std::make_unique<Stage>(); };
  registry.add(std::move(liar));
  register_toys(registry);
  EXPECT_DEATH(Harness(registry, with_pipeline("[ parse, liar, toy_reader, l2 ]")),
               "a stage provides 'toy_word' and does not publish it");
}

}  // namespace
}  // namespace weft::pipeline
