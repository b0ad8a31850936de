// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "switch/config/yaml_reader.h"
#include "tests/support/config_mistakes.h"

namespace weft::config {
namespace {

using testing::bridge_with;
using testing::config_registry;
using testing::expect_accepted;
using testing::expect_mistakes;
using testing::ports_of;

TEST(LoadConfig, FillsInEveryDefault) {
  const Config config = expect_accepted(bridge_with(""));
  EXPECT_TRUE(config.workers.cores.empty());
  EXPECT_EQ(config.workers.number(), 1);
  EXPECT_FALSE(config.workers.per_port.has_value());
  EXPECT_EQ(config.eal.hugepages, Hugepages::auto_);
  EXPECT_FALSE(config.eal.memory_mb.has_value());
  EXPECT_EQ(config.eal.mbufs, 16384u);
  EXPECT_EQ(config.eal.mbuf_data_room_bytes, 8320);
  EXPECT_EQ(config.eal.burst, 32);
  EXPECT_TRUE(config.eal.extra_args.empty());
  EXPECT_EQ(config.idle, IdleMode::adaptive);
  EXPECT_EQ(config.steer, pipeline::SteerMode::ip_pair);
  EXPECT_EQ(config.control.socket, "/run/weft/weft.sock");
  EXPECT_EQ(config.log.level, LogLevel::info);
  ASSERT_EQ(config.switches.size(), 1u);
  const auto& sw = config.switches[0];
  EXPECT_EQ(sw.seed, 1u);
  EXPECT_EQ(sw.icrc, pipeline::IcrcUpdate::incremental);
  EXPECT_EQ(sw.vlans, std::vector<std::uint16_t>{1});
  EXPECT_EQ(sw.pipeline[0].options["icrc_check"].string(), "off");
}

TEST(LoadConfig, ReadsEveryProcessKey) {
  const Config config = expect_accepted(R"(
eal:
  workers: [3, 1]
  hugepages: off
  memory_mb: 64
  mbufs: 1024
  mbuf_data_room_bytes: 9344
  burst: 64
  extra_args: ["--log-level=8", "-n", "4"]
idle: sleep
steer: qp
control: { socket: "" }
log: { level: warning }
)" + bridge_with("    seed: 77\n    icrc: full\n"));
  EXPECT_EQ(config.workers.cores, (std::vector<std::uint32_t>{3, 1}));
  EXPECT_EQ(config.eal.hugepages, Hugepages::off);
  EXPECT_EQ(config.eal.memory_mb, 64u);
  EXPECT_EQ(config.eal.mbufs, 1024u);
  EXPECT_EQ(config.eal.mbuf_data_room_bytes, 9344);
  EXPECT_EQ(config.eal.burst, 64);
  EXPECT_EQ(config.eal.extra_args, (std::vector<std::string>{"--log-level=8", "-n", "4"}));
  EXPECT_EQ(config.idle, IdleMode::sleep);
  EXPECT_EQ(config.steer, pipeline::SteerMode::qp);
  EXPECT_EQ(config.control.socket, "");
  EXPECT_EQ(config.log.level, LogLevel::warning);
  EXPECT_EQ(config.switches[0].seed, 77u);
  EXPECT_EQ(config.switches[0].icrc, pipeline::IcrcUpdate::full);
}

TEST(LoadConfig, EveryWordOfTheProcessKeysIsUnderstood) {
  const auto with = [](const std::string& line) { return expect_accepted(line + "\n" + bridge_with("")); };
  EXPECT_EQ(with("eal: { hugepages: on }").eal.hugepages, Hugepages::on);
  EXPECT_EQ(with("eal: { hugepages: 'auto' }").eal.hugepages, Hugepages::auto_);
  EXPECT_EQ(with("idle: poll").idle, IdleMode::poll);
  EXPECT_EQ(with("idle: adaptive").idle, IdleMode::adaptive);
  EXPECT_EQ(with("steer: ip_pair").steer, pipeline::SteerMode::ip_pair);
  EXPECT_EQ(with("log: { level: trace }").log.level, LogLevel::trace);
  EXPECT_EQ(with("log: { level: debug }").log.level, LogLevel::debug);
  EXPECT_EQ(with("log: { level: error }").log.level, LogLevel::error);
}

TEST(LoadConfig, OffMayBeQuotedOrNot) {
  for (const char* off : {"off", "\"off\"", "'off'"}) {
    const auto config = expect_accepted(std::string(R"(
switches:
  - name: s1
    ports: [ { name: p1, type: null } ]
    pipeline: [ parse: { icrc_check: )") +
                                        off + " }, l2 ]\n");
    EXPECT_EQ(config.switches.at(0).pipeline[0].options["icrc_check"].string(), "off");
  }
}

TEST(LoadConfig, ReportsAllMistakesOfAFileAtOnceInItsOrder) {
  expect_mistakes(
      R"(
eal:
  @wrokers: [1]
  burst: @65
idle: @lazy
switches:
  - @@nam: s1
    ports:
      - { name: p1, type: veth, interface: veth-p1, @mtu: 4200 }
      - { name: p2, type: @pcie }
      - @{ name: p3, type: tap }
    addresses: [ { port: p1, address: 10.0.1.1/24 } ]
    pipeline:
      - parse: { icrc_check: @sometimes }
      - @l4
      - l2
)",
      {"eal: unknown key 'wrokers'; did you mean 'workers'?", "burst: expected an integer from 1 to 64, found 65",
       "idle: expected one of poll, sleep, adaptive, found 'lazy'",
       "switches[0]: unknown key 'nam'; did you mean 'name'?",
       "switches[0]: missing key 'name' (a name of a letter, then letters, digits, '_', '.', '-', at most 63 "
       "characters)",
       "ports[0]: unknown key 'mtu'; did you mean 'mtu_bytes'?",
       "type: expected one of pci, veth, tap, memif, vhost, pcap, null, generator, link, found 'pcie'; did "
       "you mean 'pci'?",
       "ports[2]: missing key 'interface' (text)", "icrc_check: expected one of off, count, drop, found 'sometimes'",
       "unknown stage 'l4'; did you mean 'l2'?"});
}

TEST(LoadConfig, AFileWithoutAnythingIsRefused) {
  for (const char* text : {"", "# comment\n", "~\n", "[]\n", "weft\n"}) {
    Diagnostics diagnostics;
    EXPECT_FALSE(load_config(text, "f", config_registry(), diagnostics).has_value()) << text;
    EXPECT_EQ(diagnostics.entries().size(), 1u) << text;
  }
}

TEST(LoadConfig, EachWorkerHasACpuOfItsOwn) {
  expect_mistakes("eal: { workers: [1, 2, @1] }\n" + bridge_with(""), {"workers: CPU 1 stands twice"});
  expect_mistakes("eal: { workers: @[] }\n" + bridge_with(""), {"workers: expected at least 1 item, found 0"});
  expect_mistakes("eal: { workers: [@-1] }\n" + bridge_with(""),
                  {"workers[0]: expected an integer from 0 to 1023, found -1"});
}

TEST(LoadConfig, AtMost64Workers) {
  std::string list;
  for (int i = 0; i < 64; ++i) list += std::to_string(i) + ", ";
  expect_mistakes("eal: { workers: [" + list + "@64] }\n" + bridge_with(""), {"workers: more than 64"});
}

TEST(LoadConfig, WorkersAreCountedOrNamed) {
  const auto with = [](const std::string& workers) {
    return expect_accepted("workers: { " + workers + " }\n" + bridge_with("")).workers;
  };
  EXPECT_EQ(with("count: 4").number(), 4);
  EXPECT_EQ(with("numa: 1").numa, 1);
  EXPECT_EQ(with("numa: 1").number(), 1);
  EXPECT_EQ(with("cores: [7, 2, 5]").number(), 3);
  EXPECT_EQ(with("cores: [7, 2, 5]").cores, (std::vector<std::uint32_t>{7, 2, 5}));
  EXPECT_EQ(with("cores: [7, 2, 5], count: 2").number(), 2);
  EXPECT_EQ(with("cores: [7, 2, 5], per_port: 3").per_port, 3);
  EXPECT_EQ(with("cores: [7, 2, 5]").cores_key, "workers.cores");
  EXPECT_EQ(expect_accepted("eal: { workers: [3] }\n" + bridge_with("")).workers.cores_key, "eal.workers");
  EXPECT_EQ(expect_accepted("eal: { workers: [3, 4] }\nworkers: { per_port: 2 }\n" + bridge_with("")).workers.per_port,
            2);
}

TEST(LoadConfig, WorkersThatCannotBeAreRefused) {
  const auto mistakes = [](const std::string& workers, const std::string& said) {
    expect_mistakes(workers + "\n" + bridge_with(""), {said});
  };
  mistakes("workers: { count: @0 }", "count: expected an integer from 1 to 64, found 0");
  mistakes("workers: { count: @65 }", "count: expected an integer from 1 to 64, found 65");
  mistakes("workers: { cores: [1, 2, @1] }", "cores: CPU 1 stands twice");
  mistakes("workers: { cores: [1, 2], count: @3 }", "count: more workers (3) than CPUs in workers.cores (2)");
  mistakes("eal: { workers: [1] }\nworkers: { count: @2 }", "count: more workers (2) than CPUs in eal.workers (1)");
  mistakes("eal: { workers: [1] }\nworkers: { cores: @[1] }",
           "cores: eal.workers names CPUs, too; one of both is enough");
  mistakes("workers: { per_port: @2 }", "per_port: more (2) than there are workers (1)");
  mistakes("workers: { count: 4, per_port: @5 }", "per_port: more (5) than there are workers (4)");
  mistakes("workers: { numa: @-1 }", "numa: expected an integer from 0 to 255, found -1");
}

TEST(LoadConfig, MemoryHoldsThePacketBuffers) {
  expect_mistakes("eal: { memory_mb: @100 }\n" + bridge_with(""),
                  {"memory_mb: 16384 buffers of 8320 bytes need 135, found 100"});
  expect_accepted("eal: { memory_mb: 135 }\n" + bridge_with(""));
}

TEST(LoadConfig, BuffersOfVethPortsHoldAFrameOfTheirRing) {
  const std::string ports = ports_of("      - { name: p1, type: veth, interface: veth-p1 }\n");
  expect_mistakes("eal:\n  mbuf_data_room_bytes: @8287\n" + ports,
                  {"mbuf_data_room_bytes: veth ports need at least 8288, found 8287"});
  expect_accepted("eal:\n  mbuf_data_room_bytes: 8288\n" + ports);
}

TEST(LoadConfig, AnMtuThatTakesSeveralBuffersIsOnlyNoted) {
  expect_accepted("eal:\n  mbuf_data_room_bytes: @2176\n" + bridge_with(""),
                  {"note: mbuf_data_room_bytes: frames of 4218 bytes take more than one buffer of 2176"});
  expect_accepted("@" + ports_of("      - { name: p1, type: null, mtu_bytes: 9000 }\n"),
                  {"note: mbuf_data_room_bytes: frames of 9018 bytes take more than one buffer of 8320"});
}

// 10 Gbit/s and 10 ms are 12.5 MB: 8106 frames of 1518 bytes, which take 1542 of the wire.
TEST(LoadConfig, ALongLinkSaysHowManyPacketsItKeepsUnderWay) {
  const auto links = [](const std::string& delay_ns) {
    const std::string wan = "{ type: \"null\", mtu_bytes: 1500, rate_mbps: 10000, delay_ns: " + delay_ns + ", name: ";
    return ports_of("      - @" + wan + "p1 }\n      - @" + wan + "p2 }\n");
  };
  const std::string each =
      "10000 Mbit/s with a delay of 10000000 ns keep 8106 packets of 1518 bytes under way: 8106 mbufs, 69 MB";
  expect_accepted("eal: { mbufs: 16384 }\n" + links("10000000"),
                  {"note: port 'p1': " + each, "note: port 'p2': " + each});
  expect_accepted("eal: { mbufs: @16212 }\n" + links("10000000"),
                  {"note: mbufs: emulated links keep 16212 packet buffers (139 MB) under way at their rates, found "
                   "16212: what arrives when these are used up is lost",
                   "note: port 'p1': " + each, "note: port 'p2': " + each});
}

TEST(LoadConfig, ALinkThatCannotTakeAllThatItsRateAllowsSaysSo) {
  expect_accepted("eal: { mbufs: 1048576 }\n" +
                      ports_of("      - @{ name: p1, type: \"null\", mtu_bytes: 1500, rate_mbps: 100000, delay_ns: "
                               "10000000 }\n"),
                  {"note: port 'p1': 100000 Mbit/s with a delay of 10000000 ns keep 81063 packets of 1518 bytes under "
                   "way: 81063 mbufs, 695 MB; of the 1488095 smallest ones it takes 1000000, and is slower than its "
                   "rate"});
}

TEST(LoadConfig, ShortLinksAndThoseWithoutARateSayNothing) {
  const auto port = [](const std::string& keys) {
    return ports_of("      - { name: p1, type: \"null\", mtu_bytes: 1500, " + keys + " }\n");
  };
  expect_accepted(port("rate_mbps: 100000, delay_ns: 100000"));
  expect_accepted(port("rate_mbps: 10, delay_ns: 20000000"));
  expect_accepted(port("delay_ns: 10000000"));
}

TEST(LoadConfig, BuffersOutnumberTheDescriptorsOfPciPorts) {
  const std::string ports = ports_of(
      "      - { name: p1, type: pci, device: \"0000:3b:00.0\", rx_descriptors: 4096 }\n"
      "      - { name: p2, type: pci, device: \"0000:3b:00.1\", rx_descriptors: 4096 }\n");
  expect_mistakes("eal: { workers: [1, 2], mbufs: @16384 }\n" + ports,
                  {"mbufs: the receive queues of the pci ports take 16384, found 16384"});
  expect_accepted("eal: { workers: [1, 2], mbufs: 16385 }\n" + ports);
  expect_accepted("eal: { workers: [1, 2] }\nworkers: { per_port: 1 }\n" + ports);
}

TEST(LoadConfig, PortsNameWorkersThatThereAre) {
  const auto with = [](const std::string& worker) {
    return ports_of("      - { name: p1, type: null }\n      - @{ name: p2, type: null, worker: " + worker + " }\n");
  };
  expect_mistakes("eal: { workers: [3, 5] }\n" + with("2"),
                  {"port 'p2': eal.workers has 2, numbered from 0, found worker 2"});
  expect_mistakes(with("1"), {"port 'p2': eal.workers has 1, numbered from 0, found worker 1"});
  expect_mistakes("workers: { cores: [3, 5] }\n" + with("2"),
                  {"port 'p2': workers.cores has 2, numbered from 0, found worker 2"});
  expect_mistakes("workers: { count: 2 }\n" + with("2"),
                  {"port 'p2': workers.count is 2, numbered from 0, found worker 2"});
  const auto accepted = expect_accepted("eal: { workers: [3, 5] }\n" +
                                        ports_of("      - { name: p1, type: null }\n      - { name: p2, type: null, "
                                                 "worker: 0 }\n"));
  EXPECT_EQ(accepted.switches[0].ports[0].worker, std::nullopt);
  EXPECT_EQ(accepted.switches[0].ports[1].worker, 0);
}

TEST(LoadConfig, GeneratedFramesLieInOneBuffer) {
  const auto mistakes_with = [](const std::string& payload_bytes) {
    Diagnostics diagnostics;
    (void)load_config("eal: { mbuf_data_room_bytes: 2176 }\n" +
                          ports_of("      - { name: p1, type: generator, source: 10.0.0.1, destination: 10.0.0.2,\n"
                                   "          source_mac: 02:00:00:00:00:01, destination_mac: 02:00:00:00:00:02,\n"
                                   "          payload_bytes: " +
                                   payload_bytes + " }\n"),
                      "f", config_registry(), diagnostics);
    return diagnostics.entries().empty() ? "" : diagnostics.entries()[0].text;
  };
  EXPECT_EQ(mistakes_with("1942"), "");
  EXPECT_EQ(mistakes_with("1943"),
            "payload_bytes: generated frames need an mbuf_data_room_bytes of at least 2177, found 2176");
}

TEST(LoadConfig, ASwitchNameStandsOnce) {
  expect_mistakes(R"(
switches:
  - { name: s1, ports: [ { name: p1, type: null } ], pipeline: [parse, l2] }
  - { name: s2, ports: [ { name: p1, type: null } ], pipeline: [parse, l2] }
  - { name: @s1, ports: [ { name: p1, type: null } ], pipeline: [parse, l2] }
)",
                  {"name: switch 's1' is declared twice, first at line 3"});
}

TEST(LoadConfig, SwitchesGetTheirPositionAsIndexAndSeed) {
  const auto config = expect_accepted(R"(
switches:
  - { name: s1, ports: [ { name: p1, type: null } ], pipeline: [parse, l2] }
  - { name: s2, ports: [ { name: p1, type: null }, { name: p2, type: null } ], pipeline: [parse, l2] }
)");
  ASSERT_EQ(config.switches.size(), 2u);
  EXPECT_EQ(config.switches[1].index, 1);
  EXPECT_EQ(config.switches[1].seed, 2u);
  EXPECT_EQ(config.switches[1].ports[1].index, 1);
}

TEST(LoadConfig, AtMost250Switches) {
  std::string text = "switches:\n";
  for (int i = 0; i < 251; ++i) {
    text += std::string("  - ") + (i == 250 ? "@" : "") + "{ name: s" + std::to_string(i) +
            ", ports: [ { name: p1, type: null } ], pipeline: [parse, l2] }\n";
  }
  expect_mistakes(text, {"switches: more than 250"});
}

TEST(LoadConfig, TheSameFileGivesTheSameConfigurationAsJson) {
  const Config config = expect_accepted(
      R"({"control": {"socket": ""}, "switches": [{"name": "s1", "ports": [{"name": "p1", "type": "null"}],
          "pipeline": ["parse", {"l2": {"ageing_s": 5}}]}]})");
  EXPECT_EQ(config.switches.at(0).pipeline[1].options["ageing_s"].integer(), 5);
}

TEST(LoadConfig, AMistakeThatAnAliasRepeatsIsReportedOnce) {
  expect_mistakes(R"(
switches:
  - name: s1
    ports:
      - { name: p1, type: null, trunk: &t { vlans: [@5000] } }
      - { name: p2, type: null, trunk: *t }
    pipeline: [parse, l2]
)",
                  {"vlans[0]: expected an integer from 1 to 4094, found 5000"});
}

class ConfigFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (std::filesystem::temp_directory_path() / "weft-config-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    directory_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string write(const std::string& text) const {
    std::ofstream(directory_ / "weft.yaml") << text;
    return directory_ / "weft.yaml";
  }
  std::filesystem::path directory_;
};

TEST_F(ConfigFile, IsReadAndNamedInMistakes) {
  Diagnostics diagnostics;
  const std::string path = write(bridge_with(""));
  EXPECT_TRUE(load_config_file(path, config_registry(), diagnostics).has_value());
  write("idle: fast\n" + bridge_with(""));
  EXPECT_FALSE(load_config_file(path, config_registry(), diagnostics).has_value());
  EXPECT_EQ(format(diagnostics), path + ":1:7: idle: expected one of poll, sleep, adaptive, found 'fast'\n1 mistake\n");
}

TEST_F(ConfigFile, ThatCannotBeReadIsAMistake) {
  Diagnostics diagnostics;
  const std::string path = directory_ / "absent.yaml";
  EXPECT_FALSE(load_config_file(path, config_registry(), diagnostics).has_value());
  EXPECT_EQ(format(diagnostics), path + ": cannot be read: No such file or directory\n1 mistake\n");
}

TEST_F(ConfigFile, ThatIsADirectoryIsAMistake) {
  Diagnostics diagnostics;
  EXPECT_FALSE(load_config_file(directory_, config_registry(), diagnostics).has_value());
  EXPECT_EQ(diagnostics.to_string(), directory_.string() + ": cannot be read: Is a directory\n");
}

TEST_F(ConfigFile, OfMoreThanAMebibyteIsRefused) {
  Diagnostics diagnostics;
  const std::string path = write("#" + std::string(kMaxYamlBytes, 'x'));
  EXPECT_FALSE(load_config_file(path, config_registry(), diagnostics).has_value());
  EXPECT_EQ(diagnostics.to_string(), path + ": the file is larger than 1048576 bytes\n");
}

TEST(LoadSwitch, ReadsOneItemOfSwitches) {
  Diagnostics diagnostics;
  const auto info = load_switch(R"(
name: s1
ports:
  - { name: p1, type: null }
  - { name: u1, type: link, peer: s2/d1 }
pipeline: [parse, l2]
)",
                                config_registry(), diagnostics);
  EXPECT_EQ(diagnostics.to_string(), "");
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->name, "s1");
  EXPECT_EQ(info->ports.size(), 2u);
}

TEST(LoadSwitch, ReportsMistakesWithTheirPosition) {
  Diagnostics diagnostics;
  EXPECT_FALSE(load_switch("name: s1\nports: []\npipeline: [parse]\n", config_registry(), diagnostics).has_value());
  EXPECT_EQ(diagnostics.to_string(),
            "switch:2:8: ports: expected at least 1 item, found 0\n"
            "switch:3:11: pipeline: no stage decides where packets go; expected l2 or l3\n");
}

TEST(Format, CountsMistakesAndListsNotes) {
  Diagnostics diagnostics;
  diagnostics.note({"f", 1, 1}, "a thought");
  EXPECT_EQ(format(diagnostics), "f:1:1: note: a thought\n");
  diagnostics.error({"f", 2, 1}, "a");
  diagnostics.error({"f", 3, 1}, "b");
  EXPECT_EQ(format(diagnostics), "f:2:1: a\nf:3:1: b\nf:1:1: note: a thought\n2 mistakes\n");
}

}  // namespace
}  // namespace weft::config
