// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/config.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace weft::inc::manager {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kFine = R"(
switches:
  - { name: leaf1, control: /run/a.sock, memory_kb: 64 }
  - { name: root, control: /run/b.sock, memory_kb: 128, modes: [ii], fan_in: 8 }
hosts:
  - { name: h1, address: 10.0.1.2, switch: leaf1, switch_address: 10.0.1.1, rate_mbps: 10 }
  - { name: h2, address: 10.0.2.2, switch: leaf1, switch_address: 10.0.2.1 }
links:
  - { a: root, a_address: 10.1.1.0, b: leaf1, b_address: 10.1.1.1, rate_mbps: 40 }
)";

TEST(ManagerConfig, ExamplesAreFine) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(WEFT_SOURCE_DIR "/conf/inc-manager")) {
    if (entry.path().extension() != ".yaml") continue;
    std::ifstream stream(entry.path());
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    config::Diagnostics diagnostics;
    EXPECT_TRUE(load_manager_config(text, entry.path().filename(), diagnostics)) << diagnostics.to_string();
    ++files;
  }
  EXPECT_GT(files, 0u);
}

TEST(ManagerConfig, MemoryCanBeKeptForThoseThatGainMost) {
  config::Diagnostics diagnostics;
  const auto plain = load_manager_config(kFine, "f", diagnostics);
  const auto c = load_manager_config(std::string(kFine) + "least_hosts: 3\nlocal_share: 0.25\n", "f", diagnostics);
  ASSERT_TRUE(plain && c) << diagnostics.to_string();
  EXPECT_EQ(plain->options.policy.least_hosts, 2u);
  EXPECT_EQ(plain->options.policy.local_per_mille, 0u);
  EXPECT_EQ(c->options.policy.least_hosts, 3u);
  EXPECT_EQ(c->options.policy.local_per_mille, 250u);
  EXPECT_FALSE(load_manager_config(std::string(kFine) + "local_share: 2\n", "f", diagnostics));
}

TEST(ManagerConfig, GroupsMayWaitForATree) {
  config::Diagnostics diagnostics;
  EXPECT_EQ(load_manager_config(kFine, "f", diagnostics)->options.patience_ns, 0u);
  const auto c = load_manager_config(std::string(kFine) + "patience_ms: 2000\n", "f", diagnostics);
  ASSERT_TRUE(c) << diagnostics.to_string();
  EXPECT_EQ(c->options.patience_ns, 2'000'000'000u);
  EXPECT_FALSE(load_manager_config(std::string(kFine) + "patience_ms: 20001\n", "f", diagnostics))
      << "daemons wait for half a minute";
}

TEST(ManagerConfig, TheStoreMayBeEtcd) {
  config::Diagnostics diagnostics;
  EXPECT_FALSE(load_manager_config(kFine, "f", diagnostics)->etcd);
  const auto c = load_manager_config(
      std::string(kFine) + "etcd: { endpoints: [a.example:2379, \"[fd00::1]:2379\"], prefix: /x, lease_s: 7 }\n", "f",
      diagnostics);
  ASSERT_TRUE(c) << diagnostics.to_string();
  ASSERT_TRUE(c->etcd);
  EXPECT_EQ(c->etcd->endpoints, (std::vector<std::string>{"a.example:2379", "[fd00::1]:2379"}));
  EXPECT_EQ(c->etcd->prefix, "/x");
  EXPECT_EQ(c->etcd->lease_s, 7u);
  EXPECT_FALSE(c->etcd->files);
  const struct {
    const char *text, *says;
  } wrong[] = {
      {"etcd: { endpoints: [] }", "f:10:"},
      {"etcd: { endpoints: [a.example] }", "expected HOST:PORT, found 'a.example'"},
      {"etcd: { endpoints: [\"a:70000\"] }", "expected HOST:PORT"},
      {"etcd: { endpoints: [\":2379\"] }", "expected HOST:PORT"},
      {"etcd: { endpoints: [\"a:1\"], prefix: /x/ }", "without / at its end"},
      {"etcd: { endpoints: [\"a:1\"], lease_s: 1 }", "lease_s"},
      {"etcd: { endpoints: [\"a:1\"] }\nstore: /x", "store: expected without etcd"},
      {"etcd: { endpoints: [\"a:1\"], tls: { certificate: /no, key: /no, authority: /no } }", "/no"},
  };
  for (const auto& w : wrong) {
    config::Diagnostics mistakes;
    EXPECT_FALSE(load_manager_config(std::string(kFine) + w.text + "\n", "f", mistakes)) << w.text;
    EXPECT_THAT(mistakes.to_string(), HasSubstr(w.says)) << w.text;
  }
}

TEST(ManagerConfig, AFileBecomesAFabric) {
  config::Diagnostics diagnostics;
  const auto c = load_manager_config(kFine, "f", diagnostics);
  ASSERT_TRUE(c) << diagnostics.to_string();
  const auto& t = c->fabric.topology;
  const auto leaf = t.find("leaf1"), root = t.find("root"), h1 = t.find("h1");
  EXPECT_EQ(t.node(h1).tier, 0u);
  EXPECT_EQ(t.node(leaf).tier, 1u);
  EXPECT_EQ(t.node(root).tier, 2u);
  EXPECT_EQ(t.node(root).abilities.modes, policy::bit(Mode::ii));
  EXPECT_EQ(t.node(root).abilities.fan_in, 8u);
  EXPECT_EQ(t.node(leaf).abilities.memory_bytes, 64u * 1024);
  ASSERT_EQ(t.links().size(), 3u);
  // The link was written from the upper end.
  EXPECT_EQ(t.link(2).lower, leaf);
  EXPECT_EQ(c->fabric.addresses[2].lower.to_string(), "10.1.1.1");
  EXPECT_EQ(c->fabric.addresses[2].upper.to_string(), "10.1.1.0");
  EXPECT_EQ(t.link(2).rate_mbps, 40u);
  EXPECT_EQ(t.link(1).rate_mbps, 100'000u);
  EXPECT_EQ(c->fabric.host_of(*wire::IpAddress::parse("10.0.1.2")), h1);
  ASSERT_EQ(c->access.size(), t.nodes().size());
  EXPECT_EQ(c->access[root].socket, "/run/b.sock");
  EXPECT_EQ(c->access[root].name, "root");
  EXPECT_EQ(c->options.lease_ns, 5'000'000'000u);
  EXPECT_EQ(c->options.policy.kind, policy::PolicyKind::spatial);
}

/// Exchanges a text of the file that is fine, and expects one mistake, where the '@' stands.
void expect_mistake(const std::string& from, const std::string& to, const std::string& says) {
  SCOPED_TRACE(to);
  std::string text = kFine;
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, from.size(), to);
  const std::size_t mark = text.find('@');
  ASSERT_NE(mark, std::string::npos);
  text.erase(mark, 1);
  const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(mark), '\n') + 1;
  const std::size_t column = mark - text.rfind('\n', mark - 1);
  const std::string position = "f:" + std::to_string(line) + ":" + std::to_string(column) + ": ";
  config::Diagnostics diagnostics;
  EXPECT_FALSE(load_manager_config(text, "f", diagnostics));
  ASSERT_EQ(diagnostics.entries().size(), 1u) << diagnostics.to_string();
  EXPECT_THAT(diagnostics.to_string(), testing::AllOf(StartsWith(position), HasSubstr(says)));
}

TEST(ManagerConfig, MistakesHavePlaces) {
  expect_mistake("name: root", "name: @leaf1", "nothing else has");
  expect_mistake("name: h2", "name: @h1", "nothing else has");
  expect_mistake("switch: leaf1", "switch: @leaf9", "leaf9");
  expect_mistake("switch: leaf1", "switch: @h1", "a switch of this file");
  expect_mistake("b: leaf1", "b: @root", "another switch");
  expect_mistake("10.0.2.2", "@10.0.1.2", "of line 6");
  expect_mistake("10.1.1.1", "@fd00::1", "family");
  expect_mistake("memory_kb: 64", "memory_kb: @1", "64");
  expect_mistake("modes: [ii]", "modes: [@iv]", "iv");
  expect_mistake("fan_in: 8", "@fanin: 8", "fan_in");
  expect_mistake("\nswitches", "\npolicy: @fair\nswitches", "temporal");
  expect_mistake("\nswitches", "\nduty: @0\nswitches", "0.001");
  expect_mistake("\nswitches", "\nlast_group: @9\nfirst_group: 10\nswitches", "first_group");
}

TEST(ManagerConfig, WithDiscoveryLinksMayBeMissing) {
  const std::string text = R"(
switches:
  - { name: leaf1, control: /run/a.sock, memory_kb: 64 }
hosts:
  - { name: h1, address: 10.0.1.2 }
  - { name: h2, address: 10.0.2.2, switch: leaf1, switch_address: 10.0.2.1 }
)";
  config::Diagnostics diagnostics;
  EXPECT_FALSE(load_manager_config(text, "f", diagnostics));
  EXPECT_THAT(diagnostics.to_string(), testing::AllOf(StartsWith("f:5:5: "), HasSubstr("discovery: lldp")));
  diagnostics = {};
  const auto c = load_manager_config("discovery: lldp\n" + text, "f", diagnostics);
  ASSERT_TRUE(c) << diagnostics.to_string();
  EXPECT_TRUE(c->discovers);
  EXPECT_EQ(c->stated.hosts.size(), 2u);
  EXPECT_EQ(c->stated.ends.size(), 1u);
  EXPECT_EQ(c->fabric.topology.links().size(), 1u);
  std::string half = "discovery: lldp\n" + text;
  half.replace(half.find(", switch_address: 10.0.2.1"), 26, "");
  diagnostics = {};
  EXPECT_FALSE(load_manager_config(half, "f", diagnostics));
  EXPECT_THAT(diagnostics.to_string(), HasSubstr("switch_address: expected with switch"));
}

constexpr const char* kTenants = R"(
tenants:
  - { name: a, identities: [n1.a, n2.a], memory_kb: 8 }
  - { name: b, identities: [n1.b] }
operators: [ops]
)";

TEST(ManagerConfig, TenantsAreRead) {
  config::Diagnostics diagnostics;
  const std::string tcp =
      "control: { tcp: { address: 127.0.0.1, certificate: /no/c, key: /no/k, client_ca: /no/a } }\n";
  EXPECT_FALSE(load_manager_config(tcp + kFine + kTenants, "f", diagnostics));
  EXPECT_THAT(diagnostics.to_string(), testing::Not(HasSubstr("tenant"))) << "the certificates are not there";
  diagnostics = {};
  EXPECT_FALSE(load_manager_config(std::string(kFine) + kTenants, "f", diagnostics));
  EXPECT_THAT(diagnostics.to_string(), HasSubstr("expected control.tcp"));
  diagnostics = {};
  EXPECT_FALSE(load_manager_config(std::string(kFine) + "operators: [ops]\n", "f", diagnostics));
  EXPECT_THAT(diagnostics.to_string(), HasSubstr("expected tenants"));
}

TEST(ManagerConfig, ANameInCertificatesBelongsToOne) {
  for (const std::string twice : {"n1.a", "ops"}) {
    std::string text = std::string(kFine) + kTenants;
    text.replace(text.find("n1.b"), 4, twice);
    config::Diagnostics diagnostics;
    EXPECT_FALSE(load_manager_config(text, "f", diagnostics));
    EXPECT_THAT(diagnostics.to_string(), HasSubstr("found '" + twice + "'"));
  }
  std::string text = std::string(kFine) + kTenants;
  text.replace(text.find("name: b"), 7, "name: a");
  config::Diagnostics diagnostics;
  EXPECT_FALSE(load_manager_config(text, "f", diagnostics));
  EXPECT_THAT(diagnostics.to_string(), HasSubstr("no other tenant"));
}

TEST(ManagerConfig, CertificatesAreLookedAt) {
  std::string text = kFine;
  const std::string from = "/run/b.sock";
  text.replace(text.find(from), from.size(),
               "{ address: 'tor:9796', certificate: /no/c, key: /no/k, authority: /no/a }");
  config::Diagnostics diagnostics;
  EXPECT_FALSE(load_manager_config(text, "f", diagnostics));
  EXPECT_THAT(diagnostics.to_string(), testing::AllOf(HasSubstr("f:4:"), HasSubstr("/no/c"), HasSubstr("/no/k")));
}

TEST(ManagerConfig, ASwitchThatNoHostReachesNeedsATier) {
  std::string text = kFine;
  text = text.substr(0, text.find("links:"));
  config::Diagnostics diagnostics;
  EXPECT_FALSE(load_manager_config(text, "f", diagnostics));
  EXPECT_THAT(diagnostics.to_string(), HasSubstr("root"));
}

/// A Clos network of three tiers: pods with `half` leaves of as many hosts each.
std::string clos(unsigned pods, unsigned half) {
  std::ostringstream switches, hosts, links;
  std::uint32_t address = 0x0a000000;
  const auto next = [&] { return wire::IpAddress::v4(address++).to_string(); };
  const auto link = [&](const std::string& a, const std::string& b) {
    links << "  - { a: " << a << ", a_address: " << next() << ", b: " << b << ", b_address: " << next() << " }\n";
  };
  const auto add = [&](const std::string& name) {
    switches << "  - { name: " << name << ", control: /run/weft/" << name << ".sock, memory_kb: 4096 }\n";
    return name;
  };
  for (unsigned c = 0; c < half * half; ++c) add("core" + std::to_string(c));
  for (unsigned at = 0; at < pods * half; ++at) {
    const std::string leaf = add("leaf" + std::to_string(at)), spine = add("spine" + std::to_string(at));
    for (unsigned i = 0; i < half; ++i) {
      hosts << "  - { name: host" << at * half + i << ", address: " << next() << ", switch: " << leaf
            << ", switch_address: " << next() << " }\n";
      link(leaf, "spine" + std::to_string(at / half * half + i));
      link(spine, "core" + std::to_string(at % half * half + i));
    }
  }
  return "switches:\n" + switches.str() + "hosts:\n" + hosts.str() + "links:\n" + links.str();
}

TEST(ManagerConfig, AThousandSwitchesAreFine) {
  config::Diagnostics diagnostics;
  const auto c = load_manager_config(clos(45, 10), "f", diagnostics);
  ASSERT_TRUE(c) << diagnostics.to_string().substr(0, 1000);
  EXPECT_EQ(c->fabric.topology.nodes().size(), 1000u + 4500u);
  EXPECT_EQ(c->fabric.topology.links().size(), 3u * 4500u);
  EXPECT_EQ(c->fabric.topology.highest_tier(), 3u);
}

TEST(ManagerConfig, AnAliasBombIsRefused) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 20; ++i) {
    const std::string before = "*a" + std::to_string(i - 1), name = "a" + std::to_string(i);
    text += name + ": &" + name + " [";
    for (int k = 0; k < 10; ++k) text += before + ", ";
    text += "x]\n";
  }
  config::Diagnostics diagnostics;
  EXPECT_FALSE(load_manager_config(text, "f", diagnostics));
  EXPECT_THAT(diagnostics.to_string(), HasSubstr("more than 500000 values"));
}

}  // namespace
}  // namespace weft::inc::manager
