// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Checks across the switches of a file: names, devices, sockets and files used twice, and the peers of links.
#include <algorithm>
#include <map>
#include <set>

#include "switch/control/switch_builder.h"
#include "switch/pipeline/suggest.h"

namespace weft::control {
namespace {

using pipeline::Diagnostics;
using pipeline::Mark;
using pipeline::quoted;
using pipeline::Value;
using Switches = std::vector<Value>;

// A unix socket's path with its NUL (unix(7)).
constexpr std::size_t kMaxSocketPath = 107;
// A network interface's name with its NUL (netdevice(7)).
constexpr std::size_t kMaxInterfaceName = 15;

std::string text_of(const Value& map, const char* key) {
  return map.is_map() && map[key].is_string() ? map[key].string() : "";
}

template <typename F>
void for_each_port(const Switches& switches, F&& f) {
  for (const auto& sw : switches) {
    if (!sw.is_map()) continue;
    for (const auto& port : sw["ports"].list_or_empty()) {
      if (port.is_map()) f(text_of(sw, "name") + "/" + text_of(port, "name"), port);
    }
  }
}

// True when every switch and port has a name, so that a name that is not found is wrong.
bool all_named(const Switches& switches) {
  return std::all_of(switches.begin(), switches.end(), [](const Value& sw) {
    if (text_of(sw, "name").empty() || sw["ports"].is_null()) return false;
    const auto& ports = sw["ports"].list();
    return std::none_of(ports.begin(), ports.end(), [](const Value& p) { return text_of(p, "name").empty(); });
  });
}

class DeviceCheck {
 public:
  explicit DeviceCheck(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  void port(const std::string& name, const Value& port) {
    const std::string type = text_of(port, "type");
    claim(port, "mac", "mac " + lower(text_of(port, "mac")), name);
    if (type == "veth" || type == "tap") interface(name, port);
    if (type == "pci") claim(port, "device", "device " + lower(text_of(port, "device")), name);
    if (type == "memif" || type == "vhost") socket(name, port, type);
    if (type == "pcap") {
      path(port, "rx_file");
      path(port, "tx_file");
      claim(port, "tx_file", "file " + text_of(port, "tx_file"), name);
    }
  }

  // After all ports: a capture that is written must not be read.
  void input_file(const Value& port) {
    const auto found = users_.find("file " + text_of(port, "rx_file"));
    if (text_of(port, "type") != "pcap" || found == users_.end()) return;
    diagnostics_.error(port["rx_file"].mark(), "rx_file: " + quoted(port["rx_file"].string()) +
                                                   " is written by port '" + found->second.port + "'" +
                                                   at_line(found->second.mark));
  }

 private:
  struct User {
    std::string port;
    Mark mark;
  };

  static std::string lower(std::string text) {
    for (char& c : text) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return text;
  }

  void claim(const Value& port, const char* key, const std::string& what, const std::string& name) {
    if (text_of(port, key).empty()) return;
    const auto [first, inserted] = users_.emplace(what, User{name, port[key].mark()});
    if (inserted) return;
    diagnostics_.error(port[key].mark(), std::string(key) + ": " + quoted(port[key].string()) +
                                             " is already used by port '" + first->second.port + "'" +
                                             at_line(first->second.mark));
  }

  void interface(const std::string& name, const Value& port) {
    const std::string text = text_of(port, "interface");
    if (text.empty()) return;
    if (text.size() > kMaxInterfaceName || text.find_first_of("/:,=[] \t\r\n") != text.npos || text == "." ||
        text == "..") {
      diagnostics_.error(port["interface"].mark(),
                         "interface: expected the name of a network interface, at most " +
                             std::to_string(kMaxInterfaceName) +
                             " characters without '/', ':', ',', '=', '[', ']' and spaces, found " + quoted(text));
    }
    claim(port, "interface", "interface " + text, name);
  }

  void socket(const std::string& name, const Value& port, const std::string& type) {
    path(port, "socket");
    const std::string text = text_of(port, "socket");
    if (text.size() > kMaxSocketPath) {
      diagnostics_.error(port["socket"].mark(), "socket: expected a path of at most " + std::to_string(kMaxSocketPath) +
                                                    " bytes, found " + std::to_string(text.size()));
    }
    std::string what = "socket " + text;
    // Both sides of a memif may be in one process, and several interfaces may share a socket.
    if (type == "memif") what += " " + text_of(port, "role") + " " + std::to_string(port["id"].integer());
    claim(port, "socket", what, name);
  }

  // Paths become part of a device string, whose arguments a comma ends.
  void path(const Value& port, const char* key) {
    if (text_of(port, key).find_first_of(",=[]\r\n") == std::string::npos) return;
    diagnostics_.error(port[key].mark(), std::string(key) + ": expected a path without ',', '=', '[' and ']', found " +
                                             quoted(port[key].string()));
  }

  Diagnostics& diagnostics_;
  std::map<std::string, User> users_;
};

class LinkCheck {
 public:
  LinkCheck(const Switches& switches, Diagnostics& diagnostics) : diagnostics_(diagnostics) {
    complete_ = all_named(switches);
    for (const auto& sw : switches) {
      if (!text_of(sw, "name").empty()) switch_names_.push_back(text_of(sw, "name"));
    }
    for_each_port(switches, [this](const std::string& name, const Value& port) { ports_.emplace(name, &port); });
  }

  void port(const std::string& name, const Value& port) {
    if (text_of(port, "type") != "link" || text_of(port, "peer").empty()) return;
    const Value& peer = port["peer"];
    if (const std::string wrong = mistake(name, peer.string()); !wrong.empty()) {
      diagnostics_.error(peer.mark(), "peer: " + wrong);
    }
  }

 private:
  [[nodiscard]] std::string mistake(const std::string& name, const std::string& peer) const {
    const auto slash = peer.find('/');
    if (slash == peer.npos || slash == 0 || slash + 1 == peer.size()) {
      return "expected switch/port such as spine1/d1, found " + quoted(peer);
    }
    if (peer == name) return "port '" + name + "' is its own peer";
    const auto found = ports_.find(peer);
    if (found == ports_.end()) return complete_ ? unknown(peer.substr(0, slash), peer.substr(slash + 1)) : "";
    const Value& other = *found->second;
    const std::string type = text_of(other, "type");
    if (type.empty()) return "";
    if (type != "link") return "port '" + peer + "' is of type " + type + ", not link";
    const std::string back = text_of(other, "peer");
    if (back.empty() || back == name) return "";
    return "port '" + peer + "' names " + quoted(back) + at_line(other["peer"].mark()) + " as its peer, not '" + name +
           "'";
  }

  [[nodiscard]] std::string unknown(const std::string& sw, const std::string& port) const {
    if (std::find(switch_names_.begin(), switch_names_.end(), sw) == switch_names_.end()) {
      return "unknown switch " + quoted(sw) + pipeline::suggestion(sw, switch_names_);
    }
    std::vector<std::string> names;
    for (const auto& [name, value] : ports_) {
      if (name.starts_with(sw + "/")) names.push_back(name.substr(sw.size() + 1));
    }
    return "switch '" + sw + "' has no port " + quoted(port) + pipeline::suggestion(port, names);
  }

  Diagnostics& diagnostics_;
  bool complete_ = true;
  std::vector<std::string> switch_names_;
  std::map<std::string, const Value*> ports_;  // by switch/port
};

}  // namespace

void check_switch_names(const Switches& switches, Diagnostics& diagnostics) {
  std::map<std::string, Mark> names;
  for (const auto& sw : switches) {
    if (text_of(sw, "name").empty()) continue;
    const Value& name = sw["name"];
    const auto [first, inserted] = names.emplace(name.string(), name.mark());
    if (inserted) continue;
    diagnostics.error(name.mark(), "name: switch '" + name.string() + "' is declared twice, first at line " +
                                       std::to_string(first->second.line));
  }
}

void check_devices(const Switches& switches, Diagnostics& diagnostics) {
  DeviceCheck check(diagnostics);
  for_each_port(switches, [&](const std::string& name, const Value& port) { check.port(name, port); });
  for_each_port(switches, [&](const std::string&, const Value& port) { check.input_file(port); });
}

void check_links(const Switches& switches, Diagnostics& diagnostics) {
  LinkCheck check(switches, diagnostics);
  for_each_port(switches, [&](const std::string& name, const Value& port) { check.port(name, port); });
}

}  // namespace weft::control
