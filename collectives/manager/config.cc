// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include "switch/config/schema/validate.h"
#include "switch/config/yaml_reader.h"

namespace weft::inc::manager {

using config::Diagnostics;
using config::Schema;
using config::Value;
using policy::NodeId;

namespace {

using Key = Schema::Key;

/// A fat tree of k = 32 has 1,280 switches, 8,192 hosts and 16,384 links between switches: 280,000 values in 3 MB. With
/// a thousand switches it is half of that.
constexpr config::YamlLimits kLimits{
    .bytes = std::size_t{4} << 20, .nodes = 500'000, .expanded_bytes = std::size_t{8} << 20};

Schema tls_keys(std::vector<Key> keys, const std::string& authority) {
  keys.push_back(Key::required_key("certificate", Schema::string(), "PEM file with the own certificate."));
  keys.push_back(Key::required_key("key", Schema::string(), "PEM file with its private key, without passphrase."));
  keys.push_back(Key::required_key(authority, Schema::string(), "PEM file with the authorities of the other side."));
  return Schema::map(std::move(keys));
}

Schema switch_schema() {
  const Schema control = Schema::either(
      Schema::string(),
      tls_keys({Key::required_key("address", Schema::string(), "HOST:PORT of the control service.")}, "authority"));
  return Schema::map({
      Key::required_key("name", Schema::name(), "The switch; also its name in its process."),
      Key::required_key("control", control,
                        "The control service of its process: path of a unix socket, or address and certificates."),
      Key::required_key("memory_kb", Schema::integer(64, 16'777'216), "`memory_kb` of its stage inc."),
      Key::with_default("modes", Schema::list(Schema::one_of({"i", "ii", "iii"}), 1),
                        Value(Value::List{Value("i"), Value("ii"), Value("iii")}), "Modes that groups may have here."),
      Key::with_default("fan_in", Schema::integer(2, 64), Value(64), "Most children of a tree's node."),
      Key::optional_key("tier", Schema::integer(1, policy::kMaxTier),
                        "1: a leaf; default: one more than the nearest host is away."),
  });
}

Schema host_schema() {
  return Schema::map({
      Key::required_key("name", Schema::name(), "A network interface of a host."),
      Key::required_key("address", Schema::ip(), "Its address."),
      Key::optional_key("switch", Schema::name(), "The switch that it is connected to; with LLDP it may be left out."),
      Key::optional_key("switch_address", Schema::ip(), "Address of the switch there: where ranks send to."),
      Key::with_default("rate_mbps", Schema::integer(1, 10'000'000), Value(100'000), "Of each direction."),
  });
}

Schema link_schema() {
  return Schema::map({
      Key::required_key("a", Schema::name(), "A switch."),
      Key::required_key("a_address", Schema::ip(), "Its address on the link."),
      Key::required_key("b", Schema::name(), "The other switch."),
      Key::required_key("b_address", Schema::ip(), "Its address on the link."),
      Key::with_default("rate_mbps", Schema::integer(1, 10'000'000), Value(100'000), "Of each direction."),
  });
}

Schema tenant_schema() {
  return Schema::map({
      Key::required_key("name", Schema::name(), "The tenant."),
      Key::required_key(
          "identities", Schema::list(Schema::string(), 1),
          "Names in certificates of its clients: common names or alternative names, as they are written."),
      Key::optional_key("memory_kb", Schema::integer(1, INT64_MAX / 1024),
                        "What its groups have of all switches together, at most; default: what there is."),
  });
}

/// Values to a fabric. What refers to something else is checked here.
class Builder {
 public:
  Builder(ManagerConfig& out, Diagnostics& diagnostics) : out_(out), diagnostics_(diagnostics) {}

  void build(const Value& root) {
    for (const Value& v : root["switches"].list_or_empty()) add_switch(v);
    for (const Value& v : root["hosts"].list_or_empty()) add_host(v);
    for (const Value& v : root["links"].list_or_empty()) add_link(v);
    if (!diagnostics_.ok()) return;
    if (const auto error = assemble(out_.stated, {}, out_.discovers, out_.fabric)) {
      diagnostics_.error(root["switches"].mark(), *error);
    }
  }

 private:
  void add_switch(const Value& v) {
    if (!v.is_map() || !v["name"].is_string()) {
      incomplete_ = true;
      return;
    }
    policy::Abilities abilities = policy::weft_abilities(0);
    abilities.memory_bytes = v["memory_kb"].is_null() ? 0 : v["memory_kb"].unsigned_integer() * 1024;
    abilities.fan_in = static_cast<std::uint16_t>(v["fan_in"].integer());
    abilities.modes = 0;
    for (const Value& mode : v["modes"].list_or_empty()) {
      if (!mode.is_string()) continue;
      const std::string& word = mode.string();
      abilities.modes |= policy::bit(word == "i" ? Mode::i : word == "ii" ? Mode::ii : Mode::iii);
    }
    const auto tier = v.has("tier") ? std::optional(static_cast<unsigned>(v["tier"].integer())) : std::nullopt;
    if (out_.stated.topology.add_switch(v["name"].string(), abilities, tier) == policy::kNoNode) return twice(v);
    SwitchAccess access;
    access.name = v["name"].string();
    const Value& control = v["control"];
    if (control.is_string()) {
      access.socket = control.string();
    } else if (control.is_map() && control["address"].is_string()) {
      access.address = control["address"].string();
      read_tls(control, "authority", access.files);
    }
    out_.access.push_back(std::move(access));
  }

  void add_host(const Value& v) {
    if (!v.is_map() || !v["name"].is_string()) return;
    const NodeId host = out_.stated.topology.add_host(v["name"].string());
    if (host == policy::kNoNode) return twice(v);
    out_.access.emplace_back();
    if (const auto own = v["address"].is_string() ? wire::IpAddress::parse(v["address"].string()) : std::nullopt) {
      out_.stated.hosts.emplace(host, *own);
    }
    const bool has_switch = v["switch"].is_string(), has_address = v["switch_address"].is_string();
    if (has_switch && has_address) return connect(v, host, "address", node(v, "switch"), "switch_address");
    static_cast<void>(address(v, "address"));
    if (has_switch != has_address || !out_.discovers) {
      diagnostics_.error(v.mark(), has_switch    ? "switch_address: expected with switch"
                                   : has_address ? "switch: expected with switch_address"
                                                 : "switch: expected, and switch_address, or discovery: lldp");
    }
  }

  void add_link(const Value& v) {
    if (!v.is_map()) return;
    const NodeId a = node(v, "a"), b = node(v, "b");
    if (a != policy::kNoNode && a == b) {
      diagnostics_.error(v["b"].mark(), "b: expected another switch than a, found '" + v["b"].string() + "'");
      return;
    }
    connect(v, a, "a_address", b, "b_address");
  }

  void connect(const Value& v, NodeId a, const char* a_key, NodeId b, const char* b_key) {
    const auto own = address(v, a_key), other = address(v, b_key);
    if (a == policy::kNoNode || b == policy::kNoNode || !own || !other) return;
    if (own->is_v6() != other->is_v6()) {
      diagnostics_.error(v[b_key].mark(), std::string(b_key) + ": expected an address of the family of " + a_key);
    }
    out_.stated.topology.add_link(a, b, static_cast<std::uint32_t>(v["rate_mbps"].integer()));
    out_.stated.ends.push_back({*own, *other});
  }

  NodeId node(const Value& v, const char* key) {
    if (!v[key].is_string()) return policy::kNoNode;
    const NodeId found = out_.stated.topology.find(v[key].string());
    if (found != policy::kNoNode && out_.stated.topology.node(found).is_switch) return found;
    if (incomplete_ && found == policy::kNoNode) return policy::kNoNode;
    diagnostics_.error(v[key].mark(),
                       std::string(key) + ": expected a switch of this file, found '" + v[key].string() + "'");
    return policy::kNoNode;
  }

  /// Each end of a link has an address of its own.
  std::optional<wire::IpAddress> address(const Value& v, const char* key) {
    if (!v[key].is_string()) return std::nullopt;
    const auto parsed = wire::IpAddress::parse(v[key].string());
    if (!parsed) return std::nullopt;
    const auto [at, first] = addresses_.emplace(v[key].string(), v[key].mark());
    if (!first) {
      diagnostics_.error(v[key].mark(), std::string(key) + ": expected an address that no other end has, found '" +
                                            v[key].string() + "' of line " + std::to_string(at->second.line));
    }
    return parsed;
  }

  void read_tls(const Value& v, const char* authority, config::TlsFiles& files) {
    read_tls_keys(v, authority, files, diagnostics_);
  }

  void twice(const Value& v) {
    incomplete_ = true;
    const std::string& name = v["name"].string();
    diagnostics_.error(v["name"].mark(), "name: expected one that nothing else has, found '" + name + "'");
  }

 public:
  static void read_tls_keys(const Value& v, const char* authority, config::TlsFiles& files, Diagnostics& diagnostics) {
    const char* const keys[] = {"certificate", "key", authority};
    for (const char* key : keys) {
      if (!v[key].is_string()) return;
    }
    files = {v["certificate"].string(), v["key"].string(), v[authority].string()};
    config::TlsTexts texts;
    for (const auto& mistake : config::read_tls_files(files, texts)) {
      const char* key = keys[static_cast<std::size_t>(mistake.file)];
      diagnostics.error(v[key].mark(), std::string(key) + ": " + mistake.text);
    }
  }

 private:
  ManagerConfig& out_;
  Diagnostics& diagnostics_;
  std::map<std::string, config::Mark> addresses_;
  bool incomplete_ = false;  ///< a name was wrong: others are not called unknown
};

/// Each name belongs to one.
void read_tenants(const Value& root, Tenants& out, Diagnostics& diagnostics) {
  std::map<std::string, std::string> owners;
  std::vector<std::string> names;
  const auto identity = [&](const Value& v, const std::string& owner) {
    if (!v.is_string()) return std::string();
    const auto [at, first] = owners.emplace(v.string(), owner);
    if (!first)
      diagnostics.error(v.mark(), "expected a name that nobody else has, found '" + v.string() + "' of " + at->second);
    return v.string();
  };
  for (const Value& v : root["operators"].list_or_empty()) out.operators.push_back(identity(v, "operators"));
  for (const Value& v : root["tenants"].list_or_empty()) {
    if (!v.is_map() || !v["name"].is_string()) continue;
    Tenant tenant{v["name"].string(), {}, {}};
    if (out.find(tenant.name) != nullptr) {
      diagnostics.error(v["name"].mark(), "name: expected one that no other tenant has, found '" + tenant.name + "'");
    }
    for (const Value& name : v["identities"].list_or_empty()) tenant.identities.push_back(identity(name, tenant.name));
    if (v.has("memory_kb") && !v["memory_kb"].is_null()) tenant.memory_bytes = v["memory_kb"].unsigned_integer() * 1024;
    out.all.push_back(std::move(tenant));
  }
  if (!out.all.empty() && !root["control"]["tcp"].is_map()) {
    diagnostics.error(root["tenants"].mark(), "tenants: expected control.tcp, where they show their certificates");
  }
  if (out.all.empty() && !out.operators.empty()) {
    diagnostics.error(root["operators"].mark(), "operators: expected tenants, too: without, all have every right");
  }
}

EtcdPlace etcd_of(const Value& v, Diagnostics& diagnostics) {
  EtcdPlace out;
  for (const Value& endpoint : v["endpoints"].list_or_empty()) {
    if (!endpoint.is_string()) continue;
    const std::string& text = endpoint.string();
    const std::size_t colon = text.rfind(':');
    std::uint16_t port = 0;
    const char* const end = text.data() + text.size();
    const bool fine = colon != std::string::npos && colon != 0 &&
                      std::from_chars(text.data() + colon + 1, end, port).ptr == end && port != 0;
    if (!fine) diagnostics.error(endpoint.mark(), "endpoints: expected HOST:PORT, found '" + text + "'");
    out.endpoints.push_back(text);
  }
  const std::string& prefix = v["prefix"].string();
  if (prefix.empty() || prefix.back() == '/') {
    diagnostics.error(v["prefix"].mark(), "prefix: expected a name without / at its end, found '" + prefix + "'");
  }
  out.prefix = prefix;
  out.lease_s = static_cast<std::uint32_t>(v["lease_s"].integer());
  if (v["tls"].is_map()) Builder::read_tls_keys(v["tls"], "authority", out.files.emplace(), diagnostics);
  return out;
}

void read_process(const Value& root, ManagerConfig& out, Diagnostics& diagnostics) {
  const Value& control = root["control"];
  out.socket = control["socket"].string();
  if (const Value& tcp = control["tcp"]; tcp.is_map() && tcp["address"].is_string()) {
    TcpControl& access = out.tcp.emplace();
    access.address = tcp["address"].string();
    access.port = static_cast<std::uint16_t>(tcp["port"].integer());
    Builder::read_tls_keys(tcp, "client_ca", access.files, diagnostics);
  }
  if (root["store"].is_string()) out.store = root["store"].string();
  if (root["etcd"].is_map()) out.etcd = etcd_of(root["etcd"], diagnostics);
  out.options.policy.kind = policy::policy_kind_from(root["policy"].string()).value_or(policy::PolicyKind::spatial);
  out.options.duty_per_mille = static_cast<std::uint32_t>(std::llround(root["duty"].number() * 1000));
  out.discovers = root["discovery"].string() == "lldp";
  out.options.policy.hop_ns = root["hop_ns"].unsigned_integer();
  out.options.policy.least_hosts = static_cast<std::uint32_t>(root["least_hosts"].integer());
  out.options.policy.local_per_mille = static_cast<std::uint32_t>(std::llround(root["local_share"].number() * 1000));
  out.options.lease_ns = root["lease_ms"].unsigned_integer() * 1'000'000;
  out.options.patience_ns = root["patience_ms"].unsigned_integer() * 1'000'000;
  out.options.probe_ns = root["probe_ms"].unsigned_integer() * 1'000'000;
  out.options.first_group = static_cast<GroupId>(root["first_group"].integer());
  out.options.last_group = static_cast<GroupId>(root["last_group"].integer());
  if (out.options.first_group > out.options.last_group) {
    diagnostics.error(root["last_group"].mark(),
                      "last_group: expected first_group or more, found " + std::to_string(out.options.last_group));
  }
}

}  // namespace

Schema manager_schema() {
  const Schema tcp = tls_keys({Key::required_key("address", Schema::ip(), "Own address to listen on."),
                               Key::with_default("port", Schema::integer(0, 65535), Value(9797), "TCP port.")},
                              "client_ca");
  const Schema control = Schema::map({
      Key::with_default("socket", Schema::string(), Value("/run/weft/inc-manager.sock"),
                        "Path of the unix socket of the manager's service: who may open it may do everything."),
      Key::optional_key("tcp", tcp, "Listens to clients with certificates on other machines, too."),
  });
  const Schema etcd = Schema::map({
      Key::required_key("endpoints", Schema::list(Schema::string(), 1), "HOST:PORT of its members."),
      Key::with_default("prefix", Schema::string(), Value("/weft/inc-manager"), "What the manager's keys begin with."),
      Key::with_default("lease_s", Schema::integer(2, 600), Value(5),
                        "Another manager may lead when this one has not reached etcd for so long."),
      Key::optional_key("tls", tls_keys({}, "authority"), "Certificates, where etcd asks for them."),
  });
  return Schema::map({
      Key::with_default("control", control, Value(Value::Map{}), "The manager's service, weft.inc.v1."),
      Key::with_default("store", Schema::string(), Value("/var/lib/weft/inc-manager.db"),
                        "Database of the groups that there are, of SQLite; it is made when it is not there."),
      Key::optional_key("etcd", etcd,
                        "The store in place of a database: several managers, of which one leads and listens."),
      Key::with_default("policy", Schema::one_of({"spatial", "edge_disjoint", "temporal"}), Value("spatial"),
                        "spatial: groups share links and have memory of their own; edge_disjoint: no two groups have a "
                        "link in common; temporal: groups of mode ii have memory in turns, too, where there is not "
                        "enough for all."),
      Key::with_default("duty", Schema::number(0.001, 1), Value(0.5),
                        "Policy temporal: of the time that a group communicates, unless it says another. Groups have "
                        "the same memory as long as the sum is at most 1."),
      Key::with_default("hop_ns", Schema::integer(1, 1'000'000'000), Value(1000),
                        "From one switch to the next, with the time in the switch, ns: what windows of groups are "
                        "compared with."),
      Key::with_default("least_hosts", Schema::integer(2, 64), Value(2),
                        "Groups of fewer hosts get no tree. A ring of two sends as many bytes as a tree, but takes "
                        "longer for short vectors."),
      Key::with_default("local_share", Schema::number(0, 1), Value(0.0),
                        "Of the memory of a switch with hosts: kept for groups that need no other switch."),
      Key::with_default("discovery", Schema::one_of({"none", "lldp"}), Value("none"),
                        "lldp: links are also those that `weft-inc agent` hears of on switches. What this file states "
                        "stays as it is."),
      Key::with_default("lease_ms", Schema::integer(100, 3'600'000), Value(5000),
                        "A group ends when one of its ranks was not heard of for so long."),
      Key::with_default("patience_ms", Schema::integer(0, 20'000), Value(0),
                        "A group for which there is no tree, because of what other groups have, waits for one for so "
                        "long, first come first served; its ranks wait with it. 0: the hosts communicate without."),
      Key::with_default("probe_ms", Schema::integer(20, 3'600'000), Value(1000),
                        "From one look at what switches have to the next."),
      Key::with_default("first_group", Schema::integer(1, UINT32_MAX), Value(1), "Lowest number of a group."),
      Key::with_default("last_group", Schema::integer(1, UINT32_MAX), Value(65'535),
                        "Highest number of a group. The manager removes groups with numbers of its own that it did not "
                        "make; others are left alone."),
      Key::with_default("tenants", Schema::list(tenant_schema()), Value(Value::List{}),
                        "Who may use the manager by control.tcp, each for groups of its own. Without, whoever has a "
                        "certificate may do everything."),
      Key::with_default("operators", Schema::list(Schema::string()), Value(Value::List{}),
                        "Names in certificates of those who may do everything, besides tenants."),
      Key::required_key("switches", Schema::list(switch_schema(), 1), "Switches with the stage inc."),
      Key::required_key("hosts", Schema::list(host_schema(), 2), "Interfaces of hosts."),
      Key::with_default("links", Schema::list(link_schema()), Value(Value::List{}), "Links between switches."),
  });
}

std::optional<ManagerConfig> load_manager_config(const std::string& text, const std::string& file,
                                                 Diagnostics& diagnostics) {
  const auto document = config::read_yaml(text, file, diagnostics, kLimits);
  if (!document) return std::nullopt;
  const Value root = config::validate(manager_schema(), *document, "", nullptr, diagnostics);
  if (!root.is_map()) return std::nullopt;
  ManagerConfig out;
  read_process(root, out, diagnostics);
  // `store` has a default: whether it was written, only the document knows.
  const auto& keys = document->entries;
  const auto store = std::find_if(keys.begin(), keys.end(), [](const auto& k) { return k.key == "store"; });
  if (out.etcd && store != keys.end()) {
    diagnostics.error(store->mark, "store: expected without etcd, which is in place of it");
  }
  read_tenants(root, out.options.tenants, diagnostics);
  Builder(out, diagnostics).build(root);
  return diagnostics.ok() ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace weft::inc::manager
