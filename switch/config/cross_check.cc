// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Checks across the switches of a file: names, devices, sockets and files used twice, and the peers of links.
#include <algorithm>
#include <map>
#include <set>

#include "switch/config/schema/suggest.h"
#include "switch/config/switch_builder.h"

namespace weft::config {
namespace {

using Switches = std::vector<Value>;

// A unix socket's path with its NUL (unix(7)).
constexpr std::size_t kMaxSocketPath = 107;
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

  void control_socket(const Value& control) {
    check_socket(control);
    claim(control, "socket", "socket " + text_of(control, "socket"), "the control service");
  }

  void port(const std::string& name, const Value& port) {
    const std::string type = text_of(port, "type");
    const std::string user = "port '" + name + "'";
    claim(port, "mac", "mac " + lower(text_of(port, "mac")), user);
    if (type == "veth" || type == "tap") interface(port, user);
    if (type == "pci") claim(port, "device", "device " + lower(text_of(port, "device")), user);
    if (type == "memif" || type == "vhost") socket(port, type, user);
    if (type == "pcap") {
      check_path(port, "rx_file");
      check_path(port, "tx_file");
      claim(port, "tx_file", "file " + text_of(port, "tx_file"), user);
    }
  }

  // After all ports: a capture that is written must not be read.
  void input_file(const Value& port) {
    const auto found = users_.find("file " + text_of(port, "rx_file"));
    if (text_of(port, "type") != "pcap" || found == users_.end()) return;
    diagnostics_.error(port["rx_file"].mark(), "rx_file: " + quote(port["rx_file"].string()) + " is written by " +
                                                   found->second.name + at_line(found->second.mark));
  }

 private:
  struct User {
    std::string name;
    Mark mark;
  };

  static std::string lower(std::string text) {
    for (char& c : text) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return text;
  }

  void taken(const Value& value, const char* key, const User& by) {
    diagnostics_.error(value.mark(), std::string(key) + ": " + quote(value.string()) + " is already used by " +
                                         by.name + at_line(by.mark));
  }

  void claim(const Value& owner, const char* key, const std::string& what, const std::string& user) {
    if (text_of(owner, key).empty()) return;
    const auto [first, inserted] = users_.emplace(what, User{user, owner[key].mark()});
    if (!inserted) taken(owner[key], key, first->second);
  }

  void interface(const Value& port, const std::string& user) {
    const std::string text = text_of(port, "interface");
    if (text.empty()) return;
    if (text.size() > kMaxInterfaceName || text.find_first_of("/:,=[] \t\r\n") != text.npos || text == "." ||
        text == "..") {
      diagnostics_.error(port["interface"].mark(),
                         "interface: expected the name of a network interface, at most " +
                             std::to_string(kMaxInterfaceName) +
                             " characters without '/', ':', ',', '=', '[', ']' and spaces, found " + quote(text));
    }
    claim(port, "interface", "interface " + text, user);
  }

  // Both sides of a memif may be in one process, and several interfaces may share a socket. Nothing else may.
  void socket(const Value& port, const std::string& type, const std::string& user) {
    check_path(port, "socket");
    check_socket(port);
    const std::string text = text_of(port, "socket");
    if (text.empty()) return;
    auto& others = type == "memif" ? users_ : memif_sockets_;
    if (const auto found = others.find("socket " + text); found != others.end()) {
      taken(port["socket"], "socket", found->second);
    } else if (type == "memif") {
      memif_sockets_.emplace("socket " + text, User{user, port["socket"].mark()});
      claim(port, "socket", "memif " + text_of(port, "role") + std::to_string(port["id"].integer()) + " " + text, user);
    } else {
      claim(port, "socket", "socket " + text, user);
    }
  }

  void check_socket(const Value& owner) {
    const std::size_t size = text_of(owner, "socket").size();
    if (size <= kMaxSocketPath) return;
    diagnostics_.error(owner["socket"].mark(), "socket: expected a path of at most " + std::to_string(kMaxSocketPath) +
                                                   " bytes, found " + std::to_string(size));
  }

  // Paths become part of a device string, whose arguments a comma ends.
  void check_path(const Value& port, const char* key) {
    if (text_of(port, key).find_first_of(",=[]\r\n") == std::string::npos) return;
    diagnostics_.error(port[key].mark(), std::string(key) + ": expected a path without ',', '=', '[' and ']', found " +
                                             quote(port[key].string()));
  }

  Diagnostics& diagnostics_;
  std::map<std::string, User> users_;          // by kind and name
  std::map<std::string, User> memif_sockets_;  // by "socket" and path
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
      return "expected switch/port such as spine1/d1, found " + quote(peer);
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
    return "port '" + peer + "' names " + quote(back) + at_line(other["peer"].mark()) + " as its peer, not '" + name +
           "'";
  }

  [[nodiscard]] std::string unknown(const std::string& sw, const std::string& port) const {
    if (std::find(switch_names_.begin(), switch_names_.end(), sw) == switch_names_.end()) {
      return "unknown switch " + quote(sw) + suggestion(sw, switch_names_);
    }
    std::vector<std::string> names;
    for (const auto& [name, value] : ports_) {
      if (name.starts_with(sw + "/")) names.push_back(name.substr(sw.size() + 1));
    }
    return "switch '" + sw + "' has no port " + quote(port) + suggestion(port, names);
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

void check_devices(const Switches& switches, const Value& control, Diagnostics& diagnostics) {
  DeviceCheck check(diagnostics);
  check.control_socket(control);
  for_each_port(switches, [&](const std::string& name, const Value& port) { check.port(name, port); });
  for_each_port(switches, [&](const std::string&, const Value& port) { check.input_file(port); });
}

void check_links(const Switches& switches, Diagnostics& diagnostics) {
  LinkCheck check(switches, diagnostics);
  for_each_port(switches, [&](const std::string& name, const Value& port) { check.port(name, port); });
}

}  // namespace weft::config
