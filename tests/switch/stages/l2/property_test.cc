// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tests/switch/stages/l2/rig.h"

namespace weft::stages::l2_rig {
namespace {

// A bridge in a few lines: where must a frame come out, and with what tag?
class Model {
 public:
  struct Port {
    std::string name;
    int native;  // 0: none
    std::set<int> tagged;
  };
  explicit Model(std::vector<Port> ports) : ports_(std::move(ports)) {}

  std::map<std::string, int> forward(std::size_t in, int tag, std::uint64_t source, std::uint64_t destination) {
    const Port& port = ports_[in];
    const int vid = tag > 0 ? tag : port.native;
    const bool member = vid != 0 && (vid == port.native || port.tagged.contains(vid));
    if (!member) return {};
    where_[{vid, source}] = in;
    std::map<std::string, int> out;
    const auto known = where_.find({vid, destination});
    for (std::size_t p = 0; p < ports_.size(); ++p) {
      const bool in_vlan = ports_[p].native == vid || ports_[p].tagged.contains(vid);
      if (p == in || !in_vlan || (known != where_.end() && known->second != p)) continue;
      out[ports_[p].name] = ports_[p].tagged.contains(vid) ? vid : -1;
    }
    return out;
  }

 private:
  std::vector<Port> ports_;
  std::map<std::pair<int, std::uint64_t>, std::size_t> where_;
};

TEST(L2, AgreesWithASimpleModelUnderRandomTraffic) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Harness h(registry(), vlan_switch());
    Model model({{"a", 10, {}}, {"b", 10, {}}, {"c", 10, {}}, {"d", 20, {}}, {"t", 0, {10, 20}}, {"n", 10, {20}}});
    const char* names[]{"a", "b", "c", "d", "t", "n"};
    const int tags[]{-1, -1, -1, 0, 10, 20, 30, 99};
    Rng rng(seed);
    for (int i = 0; i < 1500; ++i) {
      const std::size_t in = rng.below(6);
      const int tag = tags[rng.below(8)];
      const MacAddress source = host(static_cast<int>(rng.below(8)));
      const MacAddress destination = rng.below(10) == 0 ? kBroadcast : host(static_cast<int>(rng.below(10)));
      const std::size_t payload = rng.below(3) == 0 ? 1500 : 40;
      const auto frame = [&](int with_tag) {
        return with_tag < 0 ? untagged(source, destination, payload)
                            : tagged(static_cast<std::uint16_t>(with_tag), source, destination, payload);
      };
      h.inject(names[in], frame(tag));
      std::map<std::string, Bytes> expected;
      std::set<std::string> ports;
      for (const auto& [port, out_tag] : model.forward(in, tag, source.to_u64(), destination.to_u64())) {
        expected[port] = frame(out_tag);
        ports.insert(port);
      }
      ASSERT_EQ(sent_by(h, expected), ports) << "packet " << i << " in at " << names[in] << " tag " << tag;
      h.expect_conservation();
      if (rng.below(20) == 0) h.advance_ns(rng.below(2 * kSecond));
    }
  }
}

}  // namespace
}  // namespace weft::stages::l2_rig
