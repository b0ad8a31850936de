// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Live reload of a whole process: workers, traffic sources, links between switches, and files that change under it.
#include <gmock/gmock.h>
#include <rte_ethdev.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

#include "switch/api/requests.h"
#include "switch/config/yaml_reader.h"
#include "switch/runtime/eal.h"
#include "switch/runtime/runtime.h"
#include "tests/conf/conf_files.h"
#include "tests/conf/mutations.h"
#include "tests/support/all_stages.h"
#include "tests/support/effort.h"
#include "tests/switch/runtime/process_eal.h"

namespace {

constexpr const char* kCard = "net_null_card";
std::atomic<bool> g_card_is_gone{false};

}  // namespace

// In the place of DPDK's: what the driver of one device says.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" int __wrap_rte_eth_dev_is_removed(std::uint16_t id) {
  char name[RTE_ETH_NAME_MAX_LEN];
  return g_card_is_gone && rte_eth_dev_get_name_by_port(id, name) == 0 && std::string_view(name) == kCard ? 1 : 0;
}
// NOLINTEND(bugprone-reserved-identifier)

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr std::uint64_t kReloads = 100;
constexpr std::uint64_t kGone = 6;  ///< the reload before which a card is taken out
constexpr std::uint64_t kPacketsBetween = 500;
constexpr int kMutants = static_cast<int>(testing::rounds(1000));

std::string generator(const std::string& name, int from, int to, const std::string& more) {
  const auto mac = [](int n) { return "\"02:00:00:00:0a:0" + std::to_string(n) + "\""; };
  return "{ name: " + name + ", type: generator, qps: 64, payload_bytes: 256, source_mac: " + mac(from) +
         ", destination_mac: " + mac(to) + ", source: 10.0.0." + std::to_string(from) + ", destination: 10.0.0." +
         std::to_string(to) + ", " + more + " }";
}

// The ports that no reload touches: two hosts that send to each other for as long as the test runs.
// A worker that ThreadSanitizer slows down would have more brought to it by the other than its ring takes.
#ifdef __SANITIZE_THREAD__
const std::string kRate = "rate_pps: 2000";
#else
const std::string kRate = "rate_pps: 20000";
#endif
const std::string kSteadily = "access_vlan: 10, " + kRate;
const std::string kHost1 = generator("h1", 1, 2, kSteadily);
const std::string kHost2 = generator("h2", 2, 1, kSteadily);

struct Variant {
  std::vector<std::string> ports;  // besides h1 and h2
  std::string pipeline;
  std::string more;     // of the switch
  std::string rest;     // further switches
  std::string process;  // keys of the process
  bool hosts_last = false;
};

std::string write(const Variant& v) {
  std::vector<std::string> ports{kHost1, kHost2};
  ports.insert(v.hosts_last ? ports.begin() : ports.end(), v.ports.begin(), v.ports.end());
  std::string yaml =
      "eal: { hugepages: off, mbufs: 8192, mbuf_data_room_bytes: 2176, workers: [0, 1] }\ncontrol: { socket: \"\" }\n" +
      v.process +
      "switches:\n  - name: tor\n    static_macs:\n"
      "      - { mac: \"02:00:00:00:0a:01\", vlan: 10, port: h1 }\n      - { mac: \"02:00:00:00:0a:02\", vlan: 10, "
      "port: h2 }\n    "
      "ports:\n";
  for (const auto& port : ports) yaml += "      - " + port + "\n";
  return yaml + "    pipeline: [" + v.pipeline + "]\n" + v.more + v.rest;
}

// This generator is slow, so that impair, which delays its packets, holds only a few at a time. If more of them were
// due than fit into a burst, impair would queue the packets of h1 and h2 behind them. A reload that moves impair behind
// rdma_track would then release these without rdma_track having seen them, and the test expects it to see them all.
const std::string kGuest = generator("guest", 3, 4, "rate_pps: 500");
const std::string kSink = "{ name: sink, type: \"null\" }";
const std::string kUp = "{ name: up, type: link, peer: spine/down }";
const std::string kSpine =
    "  - name: spine\n    ports: [{ name: down, type: link, peer: tor/up }, { name: far, type: \"null\" }]\n"
    "    pipeline: [parse, l2]\n";

// Files that a reload goes through in turn: every kind of change that can be applied.
std::vector<std::string> variants() {
  return {
      write({{kGuest, kSink}, "parse, rdma_track, l2", "", "", ""}),
      // A stage that holds packets, the order of ports, and other settings.
      write({{kSink, kGuest},
             "parse, {impair: {rules: [{match: {ports: [guest]}, delay_us: 2000}]}}, rdma_track, l2: {ageing_s: 20}",
             "",
             "",
             "idle: sleep\n",
             true}),
      // Another order of stages, other rules, a cable to a new switch, queues that hold packets.
      write({{kGuest, "{ name: sink, type: \"null\", rate_mbps: 50, delay_ns: 3000000, queue_packets: 64 }", kUp},
             "parse, rdma_track: {idle_timeout_s: 100}, {impair: {rules: [{match: {ports: [guest]}, loss: 0.1}]}}, l2",
             "",
             kSpine,
             ""}),
      // Ports in VLANs of their own; packets on the cable and in queues are in the way.
      write({{kUp, "{ name: sink, type: \"null\", access_vlan: 5 }", kGuest},
             "parse, rdma_track, l2: {storm_limit_pps: 1000}",
             "",
             kSpine,
             "",
             true}),
      // The guest and the cable go.
      write({{"{ name: sink, type: \"null\", access_vlan: 5, mtu_bytes: 2000 }"}, "parse, rdma_track, l2", "", "", ""}),
  };
}

const auto* const kEal =
    ::testing::AddGlobalTestEnvironment(new testing::ProcessEal([] { return variants()[0]; }, testing::all_stages));

class Reload : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() / ("weft-reload-" + std::to_string(getpid()));
    std::filesystem::create_directories(directory_);
    file_ = directory_ / "f";
  }
  void TearDown() override {
    stop();
    std::filesystem::remove_all(directory_);
  }

  void save(const std::string& text) const { std::ofstream(file_) << text; }

  void start(const std::string& text, std::size_t workers = 2) {
    Eal eal = testing::eal_of_all_tests;
    eal.worker_lcores.resize(workers);
    eal.worker_cpus.resize(workers);
    save(text);
    config::Diagnostics diagnostics;
    auto config = config::load_config_file(file_, testing::all_stages(), diagnostics);
    ASSERT_TRUE(config) << diagnostics.to_string();
    std::string error;
    runtime_ = std::make_unique<Runtime>(testing::all_stages(), std::move(*config), file_, eal, error);
    ASSERT_EQ(error, "");
    runtime_->start();
    runner_ = std::thread([this] { runtime_->run({.stop = &stop_, .reload = &signal_}); });
  }

  void stop() {
    stop_ = true;
    if (runner_.joinable()) runner_.join();
  }

  api::ReloadResult reload(const std::string& text) {
    save(text);
    return runtime_->reload();
  }

  nlohmann::ordered_json rows(const std::string& table) { return runtime_->show(table, "", 1'000'000).rows; }
  nlohmann::ordered_json port(const std::string& name) {
    for (auto& row : rows("ports")) {
      if (row["port"] == name) return row;
    }
    return nullptr;
  }
  // What a reload alone changes of each port: everything that does not count.
  std::vector<std::string> fixed_of_ports() {
    std::vector<std::string> out;
    for (const auto& row : rows("ports")) {
      std::string fixed;
      for (const char* key : {"port", "type", "mtu"}) fixed += row.at(key).dump() + " ";
      out.push_back(fixed);
    }
    return out;
  }
  std::uint64_t received(const std::string& name) { return port(name)["rx_packets"].get<std::uint64_t>(); }

  static void expect_applied(const api::ReloadResult& result) {
    EXPECT_TRUE(result.applied);
    EXPECT_THAT(result.mistakes, IsEmpty());
  }

  std::filesystem::path directory_;
  std::string file_;
  std::unique_ptr<Runtime> runtime_;
  std::thread runner_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> signal_{false};
};

TEST_F(Reload, APortIsWithTheWorkerThatItNames) {
  Variant v{{kSink, "{ name: own, type: \"null\", worker: 0 }"}, "parse, l2", "", "", ""};
  start(write(v));
  // The others take turns: h1, h2 and sink, then the port that says whose it is.
  EXPECT_EQ(port("h1")["worker"], 0);
  EXPECT_EQ(port("h2")["worker"], 1);
  EXPECT_EQ(port("sink")["worker"], 0);
  EXPECT_EQ(port("own")["worker"], 0);
  v.ports[1] = "{ name: own, type: \"null\", worker: 1 }";
  EXPECT_THAT(reload(write(v)).mistakes, Contains(HasSubstr("worker: 0 -> 1: cannot change while weft runs")));
}

// What the log says while it is there. Nothing may log while it comes or goes.
class Logged {
 public:
  Logged() { spdlog::set_default_logger(std::make_shared<spdlog::logger>("", sink_)); }
  ~Logged() { spdlog::set_default_logger(before_); }
  Logged(const Logged&) = delete;
  Logged& operator=(const Logged&) = delete;
  /// Since the last call.
  std::string take() {
    std::string news;
    const std::vector<std::string> lines = sink_->last_formatted();
    for (; taken_ < lines.size(); ++taken_) news += lines[taken_];
    return news;
  }

 private:
  std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> sink_ = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(1000);
  std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::size_t taken_ = 0;
};

TEST_F(Reload, TheLogSaysWhoHasWhichPortsAndAfterAReloadWhatIsNewOfIt) {
  Logged log;
  const std::string own = "{ name: own, type: \"null\", worker: 1 }";
  start(write({{kSink}, "parse, l2", "", "", ""}));
  EXPECT_THAT(log.take(), AllOf(HasSubstr(": tor/h1, tor/sink\n"), HasSubstr(": tor/h2\n")));
  expect_applied(reload(write({{kSink, own}, "parse, l2", "", "", ""})));
  EXPECT_THAT(log.take(), AllOf(HasSubstr(": tor/h2, tor/own\n"), Not(HasSubstr(": tor/h1, tor/sink\n"))));
  expect_applied(reload(write({{kSink, own}, "parse, l2", "", "", "idle: sleep\n"})));
  EXPECT_THAT(log.take(), Not(HasSubstr("tor/own")));
  stop();
}

TEST_F(Reload, TheLogSaysTheSameOfOneWorker) {
  Logged log;
  start(write({{kSink}, "parse, l2", "", "", ""}), 1);
  EXPECT_THAT(log.take(), HasSubstr(": tor/h1, tor/h2, tor/sink\n"));
  stop();
}

class ReloadWorkers : public Reload, public ::testing::WithParamInterface<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Workers, ReloadWorkers, ::testing::Values(1, 2), ::testing::PrintToStringParamName());

TEST_P(ReloadWorkers, AHundredReloadsLoseNoPacketAndForgetNoQueuePair) {
  const std::vector<std::string> files = variants();
  start(files[0], GetParam());
  for (std::uint64_t i = 1; i <= kReloads; ++i) {
    const std::uint64_t before = received("h1");
    const auto result = reload(files[i % files.size()]);
    ASSERT_TRUE(result.applied) << i << ": " << ::testing::PrintToString(result.mistakes);
    ASSERT_THAT(result.changes, Not(IsEmpty()));
    // Packets are forwarded between this reload and the next one: the hosts never stop.
    while (received("h1") < before + kPacketsBetween) std::this_thread::yield();
  }
  stop();

  const auto sent = port("h1")["rx_packets"].get<std::uint64_t>();
  const auto answered = port("h2")["rx_packets"].get<std::uint64_t>();
  EXPECT_GE(sent, kReloads * kPacketsBetween);
  EXPECT_EQ(port("h2")["tx_packets"], sent);
  EXPECT_EQ(port("h1")["tx_packets"], answered);
  std::uint64_t tracked = 0;
  int pairs = 0;
  for (const auto& row : rows("qps")) {
    if (row["source"] == "10.0.0.3") continue;
    ++pairs;
    tracked += row["packets"].get<std::uint64_t>();
    EXPECT_EQ(row["out_of_order"], 0) << row;
    EXPECT_EQ(row["retransmitted"], 0) << row;
  }
  EXPECT_EQ(pairs, 128);
  EXPECT_EQ(tracked, sent + answered);
  EXPECT_TRUE(runtime_->balanced()) << rows("totals").dump() << rows("drops").dump();
  std::uint64_t polled = 0, handed_in = 0, handed_out = 0;
  for (const auto& row : rows("workers")) {
    polled += row["rx_packets"].get<std::uint64_t>();
    handed_in += row["handed_in"].get<std::uint64_t>();
    handed_out += row["handed_out"].get<std::uint64_t>();
    EXPECT_GT(row["cycles_per_packet"], 0.0) << row;
  }
  EXPECT_GE(polled, sent + answered);
  EXPECT_EQ(handed_out > 0, GetParam() > 1);
  // Those to a port that a reload takes away end in the ring.
  EXPECT_LE(handed_in, handed_out);
  EXPECT_GE(handed_in, handed_out * 9 / 10);
}

// The device of a card that is taken out, as its driver tells it.
TEST_F(Reload, APortThatVanishesUnderTwoWorkersAndReloadsTakesNothingOfTheOthers) {
  // Whatever has no other place to go, and what the guest sends, goes there too, from both workers.
  const std::string card = std::string("{ name: card, type: pci, device: \"") + kCard + ",no-rx=1\" }";
  const std::string pass = "parse, rdma_track, l2",
                    hold = "parse, {impair: {rules: [{delay_us: 100}]}}, rdma_track, l2";
  const auto file = [&](std::uint64_t i) {
    std::vector<std::string> ports{kGuest};
    if (i <= kGone + 4) ports.push_back(card);
    return write({ports, i % 2 == 0 ? pass : hold, "", "", "", i % 3 == 0});
  };
  start(file(0));
  for (std::uint64_t i = 1; i <= kGone + 8; ++i) {
    const std::uint64_t before = received("h1");
    if (i == kGone) {
      EXPECT_EQ(port("card")["link"], "up");
      EXPECT_GT(port("card")["tx_packets"], 0);
      g_card_is_gone = true;
    }
    const auto result = reload(file(i));
    ASSERT_TRUE(result.applied) << i << ": " << ::testing::PrintToString(result.mistakes);
    while (i == kGone && port("card")["link"] != "down") std::this_thread::yield();
    while (received("h1") < before + kPacketsBetween) std::this_thread::yield();
  }
  g_card_is_gone = false;
  EXPECT_EQ(port("card"), nullptr);
  stop();
  EXPECT_EQ(port("h2")["tx_packets"], port("h1")["rx_packets"]);
  EXPECT_EQ(port("h1")["tx_packets"], port("h2")["rx_packets"]);
  EXPECT_TRUE(runtime_->balanced()) << rows("totals").dump() << rows("drops").dump();
}

TEST_F(Reload, AThousandInvalidFilesChangeNothingAndSayWhy) {
  start(variants()[2]);
  std::vector<config::DocumentNode> documents;
  for (const auto& path : testing::conf_files()) {
    config::Diagnostics diagnostics;
    documents.push_back(config::read_yaml(testing::read_file(path), path, diagnostics).value());
  }
  const char* given = std::getenv("WEFT_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::cout << "WEFT_SEED=" << seed << "\n";
  testing::Mutator mutator(std::move(documents), testing::all_stages(), seed);
  const auto before = rows("config");
  const auto ports = fixed_of_ports();
  ASSERT_GE(ports.size(), 2u);
  for (int i = 0; i < kMutants; ++i) {
    const testing::Mutant mutant = mutator.make(static_cast<std::size_t>(i) % mutator.kinds());
    const auto result = reload(mutant.text);
    ASSERT_FALSE(result.applied) << mutant.name << "\n" << mutant.text;
    ASSERT_THAT(result.mistakes, Contains(::testing::StartsWith(directory_.string() + "/" + mutant.expected)))
        << mutant.name << "\n"
        << mutant.text;
    ASSERT_EQ(rows("config"), before) << mutant.name;
  }
  // What runs is what the file said before, to the last port.
  const auto same = reload(variants()[2]);
  expect_applied(same);
  EXPECT_THAT(same.changes, IsEmpty());
  const std::uint64_t passed = received("h1");
  while (received("h1") == passed) std::this_thread::yield();
  stop();
  EXPECT_TRUE(runtime_->balanced());
  EXPECT_EQ(fixed_of_ports(), ports);
}

TEST_F(Reload, WhatCannotChangeWhileRunningIsRefusedWithAllElse) {
  start(variants()[0]);
  const auto before = rows("config");
  std::string text = variants()[1];
  text.replace(text.find("mbufs: 8192"), 11, "mbufs: 9000");
  const auto result = reload(text);
  EXPECT_FALSE(result.applied);
  EXPECT_THAT(result.mistakes, SizeIs(1));
  EXPECT_THAT(result.mistakes,
              Contains(file_ + ":1:31: eal mbufs: 8192 -> 9000: cannot change while weft runs; restart it"));
  EXPECT_EQ(rows("config"), before);
}

TEST_F(Reload, ADeviceThatDoesNotOpenLeavesEverythingAsItWas) {
  start(variants()[0]);
  const auto config = rows("config");
  const auto mtu = port("h1")["mtu"];
  std::string text = variants()[1];
  text.replace(text.find("      - " + kSink), 8 + kSink.size(),
               "      - " + kSink + "\n      - { name: odd, type: pcap, rx_file: /nonexistent.pcap }");
  text.replace(text.find(kRate), 0, "mtu_bytes: 1000, ");
  const auto result = reload(text);
  EXPECT_FALSE(result.applied);
  ASSERT_THAT(result.mistakes, SizeIs(1));
  EXPECT_THAT(result.mistakes[0], HasSubstr("port tor/odd: /nonexistent.pcap"));
  EXPECT_EQ(rows("config"), config);
  EXPECT_EQ(port("h1")["mtu"], mtu);
}

TEST_F(Reload, APortWithAnotherNameKeepsItsDevice) {
  start(variants()[0]);
  while (received("guest") == 0) std::this_thread::yield();
  std::string text = variants()[0];
  text.replace(text.find("name: guest"), 11, "name: gast");
  expect_applied(reload(text));
  EXPECT_GT(received("gast"), 0u);
}

TEST_F(Reload, ADeviceThatIsStillOpenIsNotOpenedAgain) {
  const std::string out = (directory_ / "out.pcap").string();
  Variant v{{kGuest, "{ name: sink, type: pcap, tx_file: " + out + " }"}, "parse, rdma_track, l2", "", "", ""};
  start(write(v));
  v.ports[1] = "{ name: other, type: pcap, tx_file: " + out + ", rx_file: /nonexistent.pcap }";
  const auto result = reload(write(v));
  EXPECT_FALSE(result.applied);
  ASSERT_THAT(result.mistakes, SizeIs(1));
  EXPECT_THAT(result.mistakes[0], HasSubstr("is still in use by port tor/sink, which this reload closes"));
  EXPECT_EQ(runtime_->diff(file_).mistakes, result.mistakes) << "diff foresees it";
}

TEST_F(Reload, DiffForeseesThatASwitchWithAnotherNameOpensItsDevicesAgain) {
  const std::string out = (directory_ / "out.pcap").string();
  const Variant v{{kGuest, "{ name: sink, type: pcap, tx_file: " + out + " }"}, "parse, rdma_track, l2", "", "", ""};
  start(write(v));
  std::string text = write(v);
  text.replace(text.find("name: tor"), 9, "name: rot");
  save(text);
  const auto result = runtime_->diff(file_);
  ASSERT_THAT(result.mistakes, SizeIs(1));
  EXPECT_THAT(result.mistakes[0], HasSubstr("is still in use by port tor/sink"));
  EXPECT_THAT(result.changes, SizeIs(2));
}

TEST_F(Reload, DiffAppliesNothing) {
  start(variants()[0]);
  const auto before = rows("config");
  const std::string other = (directory_ / "other").string();
  std::ofstream(other) << variants()[4];
  const auto result = runtime_->diff(other);
  EXPECT_THAT(result.mistakes, IsEmpty());
  EXPECT_FALSE(result.applied);
  EXPECT_THAT(result.changes, SizeIs(3)) << result.changes.dump(1);
  EXPECT_EQ(rows("config"), before);
}

// What the impair stage holds goes on through other stages when the reload takes that stage out, in the place of those
// that the trace knows.
TEST_F(Reload, ATraceEndsBeforeTheStagesAreOthersAndNamesNoWrongOne) {
  Variant v{
      {kGuest, kSink}, "parse, {impair: {rules: [{delay_us: 1000000, match: {ports: [guest]}}]}}, l2", "", "", ""};
  start(write(v), 1);
  api::TraceRequest request;
  request.query.ports = {"guest"};
  const api::SessionStart session = runtime_->start_trace(request);
  ASSERT_EQ(session.error, "");
  const std::uint64_t before = received("guest");
  while (received("guest") < before + request.packets) std::this_thread::yield();
  v.pipeline = "parse, l2";
  expect_applied(reload(write(v)));

  std::string lines;
  api::SessionPart part;
  while (!part.ended) {
    part = runtime_->read_session(session.id);
    ASSERT_EQ(part.error, "");
    lines += part.data;
  }
  EXPECT_EQ(part.reason, "the configuration was reloaded");
  std::istringstream in(lines);
  std::size_t packets = 0;
  for (std::string line; std::getline(in, line); ++packets) {
    const auto packet = nlohmann::json::parse(line);
    EXPECT_FALSE(packet["ended"]) << line;
    EXPECT_EQ(packet["steps"].back()["stage"], "impair") << line;
    EXPECT_EQ(packet["steps"].back()["verdict"], "held") << line;
  }
  EXPECT_EQ(packets, request.packets);
}

TEST_F(Reload, ACaptureGoesOnThroughAReloadThatChangesNoSwitch) {
  start(variants()[0]);
  const api::SessionStart session = runtime_->start_capture({});
  ASSERT_EQ(session.error, "");
  expect_applied(reload("idle: sleep\n" + variants()[0]));
  EXPECT_FALSE(runtime_->read_session(session.id).ended);
  expect_applied(reload(variants()[1]));
  api::SessionPart part;
  while (!part.ended) part = runtime_->read_session(session.id);
  EXPECT_EQ(part.reason, "the configuration was reloaded");
}

TEST_F(Reload, ASignalReloadsAndABrokenFileLeavesForwardingAlone) {
  start(variants()[0]);
  save("switches: [");
  signal_ = true;
  while (signal_) std::this_thread::yield();
  const std::uint64_t passed = received("h1");
  while (received("h1") == passed) std::this_thread::yield();
  save(variants()[1]);
  signal_ = true;
  const auto ageing = [this] {
    for (const auto& row : rows("config")) {
      if (row["key"].get<std::string>().ends_with("l2.ageing_s")) return row["value"].get<int>();
    }
    return 0;
  };
  while (ageing() != 20) std::this_thread::yield();
}

}  // namespace
}  // namespace weft
