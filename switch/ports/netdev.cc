// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/ports/netdev.h"

#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/net_namespace.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <thread>

namespace weft::ports {
namespace {

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_;
};

// One interface ioctl on a throw-away socket; 0 or errno.
int interface_ioctl(const std::string& name, unsigned long request, ifreq& ifr) {
  if (name.size() >= IFNAMSIZ) return ENAMETOOLONG;
  std::memcpy(ifr.ifr_name, name.c_str(), name.size() + 1);
  const Fd socket_fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (socket_fd.get() < 0) return errno;
  return ioctl(socket_fd.get(), request, &ifr) == 0 ? 0 : errno;
}

std::string failed(const std::string& what, const std::string& name, int error) {
  return "cannot " + what + " of interface " + name + ": " + std::strerror(error);
}

int set_ethtool_value(const std::string& name, std::uint32_t command, std::uint32_t value) {
  ethtool_value request{command, value};
  ifreq ifr{};
  ifr.ifr_data = reinterpret_cast<char*>(&request);
  return interface_ioctl(name, SIOCETHTOOL, ifr);
}

// In this order: segmentation depends on transmit checksums.
struct Offload {
  std::uint32_t get, set;
};
constexpr Offload kOffloads[]{{ETHTOOL_GTSO, ETHTOOL_STSO},
                              {ETHTOOL_GGSO, ETHTOOL_SGSO},
                              {ETHTOOL_GGRO, ETHTOOL_SGRO},
                              {ETHTOOL_GTXCSUM, ETHTOOL_STXCSUM},
                              {ETHTOOL_GRXCSUM, ETHTOOL_SRXCSUM}};

std::optional<std::uint32_t> ethtool_value_of(const std::string& name, std::uint32_t command) {
  ethtool_value request{command, 0};
  ifreq ifr{};
  ifr.ifr_data = reinterpret_cast<char*>(&request);
  if (interface_ioctl(name, SIOCETHTOOL, ifr) != 0) return std::nullopt;
  return request.data;
}

std::string ipv6_switch(const std::string& name) {
  return "/proc/sys/net/ipv6/conf/" + name + "/disable_ipv6";
}

struct NlSocketFree {
  void operator()(nl_sock* s) const { nl_socket_free(s); }
};
struct LinkPut {
  void operator()(rtnl_link* l) const { rtnl_link_put(l); }
};
using NlSocket = std::unique_ptr<nl_sock, NlSocketFree>;

NlSocket route_socket() {
  NlSocket s(nl_socket_alloc());
  if (s && nl_connect(s.get(), NETLINK_ROUTE) != 0) s.reset();
  return s;
}

int take_nsid(nl_msg* message, void* out) {
  nlattr* attributes[NETNSA_MAX + 1];
  if (nlmsg_parse(nlmsg_hdr(message), sizeof(rtgenmsg), attributes, NETNSA_MAX, nullptr) == 0 &&
      attributes[NETNSA_NSID] != nullptr) {
    *static_cast<int*>(out) = static_cast<int>(nla_get_u32(attributes[NETNSA_NSID]));
  }
  return NL_OK;
}

// The identifier that the current namespace has given to the namespace behind `fd`; -1 when it has none.
int nsid_of(int fd) {
  const NlSocket s = route_socket();
  if (!s) return -1;
  int nsid = -1;
  nl_socket_modify_cb(s.get(), NL_CB_VALID, NL_CB_CUSTOM, take_nsid, &nsid);
  nl_msg* message = nlmsg_alloc_simple(RTM_GETNSID, 0);
  rtgenmsg header{};
  nlmsg_append(message, &header, sizeof header, NLMSG_ALIGNTO);
  nla_put_u32(message, NETNSA_FD, static_cast<std::uint32_t>(fd));
  if (nl_send_auto(s.get(), message) >= 0) nl_recvmsgs_default(s.get());
  nlmsg_free(message);
  return nsid;
}

// Files that stand for network namespaces: named ones first, then those of processes, each namespace once.
std::vector<std::string> namespace_files() {
  std::vector<std::string> files;
  std::set<std::pair<dev_t, ino_t>> seen;
  const auto consider = [&](const std::string& path) {
    struct stat status {};
    if (stat(path.c_str(), &status) == 0 && seen.emplace(status.st_dev, status.st_ino).second) files.push_back(path);
  };
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/run/netns", error)) consider(entry.path());
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string pid = entry.path().filename();
    if (pid.find_first_not_of("0123456789") == std::string::npos) consider(entry.path() / "ns/net");
  }
  return files;
}

// Restores offloads in the reverse of the order in which they were switched off.
void set_offloads(const std::string& name, const Netdev::Settings& settings) {
  for (auto offload = settings.offloads.rbegin(); offload != settings.offloads.rend(); ++offload) {
    static_cast<void>(set_ethtool_value(name, offload->first, offload->second));
  }
}

// Runs `task` with the name of the interface with this index, on a thread in its namespace (negative: in this one).
std::string run_in_namespace(int namespace_fd, unsigned index, const std::function<void(const std::string&)>& task) {
  std::string error;
  std::thread([&] {
    if (namespace_fd >= 0 && setns(namespace_fd, CLONE_NEWNET) != 0) {
      error = std::string("cannot enter its network namespace: ") + std::strerror(errno);
      return;
    }
    char name[IF_NAMESIZE];
    if (if_indextoname(index, name) == nullptr) {
      error = "it vanished";
      return;
    }
    task(name);
  }).join();
  return error;
}

// Runs `task` at the other end of a veth pair. `is_veth` is false when the interface is none, or is not there.
std::string at_peer(const std::string& name, bool& is_veth, const std::function<void(const std::string&)>& task) {
  is_veth = false;
  const NlSocket s = route_socket();
  if (!s) return "no netlink socket";
  rtnl_link* raw = nullptr;
  if (rtnl_link_get_kernel(s.get(), 0, name.c_str(), &raw) != 0) return "no such interface";
  const std::unique_ptr<rtnl_link, LinkPut> link(raw);
  const char* kind = rtnl_link_get_type(link.get());
  if (kind == nullptr || std::strcmp(kind, "veth") != 0) return "";
  is_veth = true;
  const auto index = static_cast<unsigned>(rtnl_link_get_link(link.get()));
  std::int32_t wanted = -1;
  if (rtnl_link_get_link_netnsid(link.get(), &wanted) != 0) return run_in_namespace(-1, index, task);
  for (const std::string& file : namespace_files()) {
    const Fd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.get() >= 0 && nsid_of(fd.get()) == wanted) return run_in_namespace(fd.get(), index, task);
  }
  return "its network namespace has neither a name nor a process";
}

}  // namespace

bool Netdev::exists() const {
  return index() != 0;
}

unsigned Netdev::index() const {
  return if_nametoindex(name_.c_str());
}

std::optional<std::uint32_t> Netdev::mtu() const {
  ifreq ifr{};
  if (interface_ioctl(name_, SIOCGIFMTU, ifr) != 0) return std::nullopt;
  return static_cast<std::uint32_t>(ifr.ifr_mtu);
}

std::string Netdev::set_mtu(std::uint32_t mtu_bytes) const {
  ifreq ifr{};
  ifr.ifr_mtu = static_cast<int>(mtu_bytes);
  const int error = interface_ioctl(name_, SIOCSIFMTU, ifr);
  return error == 0 ? "" : failed("set the MTU to " + std::to_string(mtu_bytes), name_, error);
}

std::string Netdev::set_up(bool up) const {
  ifreq ifr{};
  int error = interface_ioctl(name_, SIOCGIFFLAGS, ifr);
  if (error == 0 && ((ifr.ifr_flags & IFF_UP) != 0) != up) {
    ifr.ifr_flags = static_cast<short>(up ? ifr.ifr_flags | IFF_UP : ifr.ifr_flags & ~IFF_UP);
    error = interface_ioctl(name_, SIOCSIFFLAGS, ifr);
  }
  return error == 0 ? "" : failed(up ? "set the flag UP" : "take away the flag UP", name_, error);
}

bool Netdev::running() const {
  ifreq ifr{};
  if (interface_ioctl(name_, SIOCGIFFLAGS, ifr) != 0 || (ifr.ifr_flags & IFF_UP) == 0) return false;
  const bool flag = (ifr.ifr_flags & IFF_RUNNING) != 0;
  // The driver knows of its carrier at once; the flag follows some time later.
  ethtool_value carrier{ETHTOOL_GLINK, 0};
  ifr.ifr_data = reinterpret_cast<char*>(&carrier);
  return interface_ioctl(name_, SIOCETHTOOL, ifr) == 0 ? carrier.data != 0 : flag;
}

std::string Netdev::disable_offloads() const {
  // Drivers that lack a feature say EOPNOTSUPP.
  for (const Offload& offload : kOffloads) {
    const int error = set_ethtool_value(name_, offload.set, 0);
    if (error != 0 && error != EOPNOTSUPP && error != EINVAL) return failed("switch off the offloads", name_, error);
  }
  return "";
}

void Netdev::silence_kernel() const {
  std::ofstream(ipv6_switch(name_)) << 1;
}

Netdev::Settings Netdev::settings() const {
  Settings settings;
  settings.index = index();
  settings.mtu_bytes = mtu().value_or(0);
  ifreq ifr{};
  settings.up = interface_ioctl(name_, SIOCGIFFLAGS, ifr) == 0 && (ifr.ifr_flags & IFF_UP) != 0;
  for (const Offload& offload : kOffloads) {
    if (const auto value = ethtool_value_of(name_, offload.get)) settings.offloads.emplace_back(offload.set, *value);
  }
  std::ifstream(ipv6_switch(name_)) >> settings.ipv6_off;
  return settings;
}

void Netdev::restore(const Settings& settings) const {
  const Settings now = this->settings();
  if (now.index == 0 || now.index != settings.index) return;
  if (now.mtu_bytes != settings.mtu_bytes) static_cast<void>(set_mtu(settings.mtu_bytes));
  set_offloads(name_, settings);
  // First: an interface that is up gets an address when IPv6 comes back.
  if (!settings.up) static_cast<void>(set_up(false));
  if (!settings.ipv6_off.empty() && now.ipv6_off != settings.ipv6_off) {
    std::ofstream(ipv6_switch(name_)) << settings.ipv6_off;
  }
  if (settings.up) static_cast<void>(set_up());
}

Netdev::Drops Netdev::drops() const {
  const NlSocket s = route_socket();
  rtnl_link* raw = nullptr;
  if (!s || rtnl_link_get_kernel(s.get(), 0, name_.c_str(), &raw) != 0) return {};
  const std::unique_ptr<rtnl_link, LinkPut> link(raw);
  return {rtnl_link_get_stat(link.get(), RTNL_LINK_RX_DROPPED), rtnl_link_get_stat(link.get(), RTNL_LINK_TX_DROPPED)};
}

Netdev::Peer Netdev::disable_peer_offloads() const {
  Peer peer;
  std::string wrong;
  peer.error = at_peer(name_, peer.is_veth, [&](const std::string& name) {
    peer.name = name;
    peer.before = Netdev(name).settings();
    wrong = Netdev(name).disable_offloads();
  });
  if (peer.error.empty()) peer.error = wrong;
  return peer;
}

void Netdev::restore_peer_offloads(const Settings& before) const {
  bool is_veth = false;
  static_cast<void>(at_peer(name_, is_veth, [&](const std::string& name) {
    if (Netdev(name).index() == before.index) set_offloads(name, before);
  }));
}

}  // namespace weft::ports
