// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What open_port() makes of a configured port, and what it says when it cannot.
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/switch/ports/port_rig.h"

namespace weft::ports {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class OpenPortTest : public PortTest {
 protected:
  static pipeline::PortInfo socket_port(const std::string& type, const std::string& path, const char* role = "server") {
    return info(type, {{"socket", Value(path)}, {"role", Value(role)}, {"id", Value(0)}});
  }
  // A listener at `path`; the caller closes it.
  static int listen_at(const std::string& path, int type) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, path.size());
    const int fd = socket(AF_UNIX, type, 0);
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(fd, 1), 0);
    return fd;
  }
};

TEST_F(OpenPortTest, ACaptureThatCannotBeReadIsRefusedByName) {
  EXPECT_THAT(open_pcap(scratch.file("missing.pcap"), ""), HasSubstr("missing.pcap"));
  std::ofstream(scratch.file("text.pcap")) << "this is no capture file, as anybody can see";
  EXPECT_NE(open_pcap(scratch.file("text.pcap"), ""), "");
  std::ofstream(scratch.file("empty.pcap")).flush();
  EXPECT_NE(open_pcap(scratch.file("empty.pcap"), ""), "");
}

TEST_F(OpenPortTest, ACaptureThatIsCutOffIsReplayedAsFarAsItIsWhole) {
  write_capture(scratch.file("cut.pcap"), {frame_of(60), frame_of(60)});
  std::filesystem::resize_file(scratch.file("cut.pcap"), 24 + 16 + 60 + 16 + 30);
  EXPECT_EQ(open_pcap(scratch.file("cut.pcap"), ""), "");
}

TEST_F(OpenPortTest, ACaptureOfAnotherLinkLayerIsRefused) {
  write_capture(scratch.file("raw.pcap"), {frame_of(60)}, 101);  // LINKTYPE_RAW
  EXPECT_THAT(open_pcap(scratch.file("raw.pcap"), ""), HasSubstr("does not hold Ethernet frames"));
}

TEST_F(OpenPortTest, ACaptureFileThatCannotBeWrittenIsRefused) {
  EXPECT_NE(open_pcap("", scratch.file("no/such/directory/out.pcap")), "");
}

TEST_F(OpenPortTest, NamesThatWouldBreakADeviceStringAreRefused) {
  for (const char* name : {"a,b.pcap", "a=b.pcap"}) {
    write_capture(scratch.file(name), {frame_of(60)});
    EXPECT_THAT(open_pcap(scratch.file(name), ""), HasSubstr("rx_file may not contain ',' or '='"));
    EXPECT_THAT(open_pcap("", scratch.file(name)), HasSubstr("tx_file may not contain"));
    EXPECT_THAT(open(socket_port("memif", scratch.file(name))), HasSubstr("socket may not contain"));
    EXPECT_THAT(open(socket_port("vhost", scratch.file(name))), HasSubstr("socket may not contain"));
  }
  EXPECT_THAT(open(info("tap", {{"interface", Value("t,mac=fixed")}})), HasSubstr("interface may not contain"));
}

TEST_F(OpenPortTest, RepeatedPacketsMustFitIntoOneBuffer) {
  // net_pcap would hand out the first buffer of each with the length of all.
  write_capture(scratch.file("jumbo.pcap"), {frame_of(60), frame_of(4166)});
  EXPECT_THAT(open_pcap(scratch.file("jumbo.pcap"), "", true),
              AllOf(HasSubstr("4166"), HasSubstr("mbuf_data_room_bytes")));
  use_pool(64, 8320);
  EXPECT_EQ(open_pcap(scratch.file("jumbo.pcap"), "", true), "");
  port.reset();
}

TEST_F(OpenPortTest, AnEmptyCaptureCannotBeRepeated) {
  write_capture(scratch.file("none.pcap"), {});
  EXPECT_THAT(open_pcap(scratch.file("none.pcap"), "", true), HasSubstr("no packet to repeat"));
}

TEST_F(OpenPortTest, NullFramesMustFitIntoOneBuffer) {
  // net_null would set a length beyond the buffer's end.
  EXPECT_EQ(open(info("null", {{"rx", Value(true)}, {"frame_bytes", Value(2048)}})), "");
  EXPECT_THAT(open(info("null", {{"rx", Value(true)}, {"frame_bytes", Value(2049)}})),
              HasSubstr("mbuf_data_room_bytes"));
}

TEST_F(OpenPortTest, ADeviceThatDoesNotExistIsNamed) {
  const auto about = [](const char* device) {
    return info("pci", {{"device", Value(device)}, {"rx_descriptors", Value(64)}, {"tx_descriptors", Value(64)}});
  };
  EXPECT_THAT(open(about("net_nosuchdriver0")), HasSubstr("net_nosuchdriver0"));
  EXPECT_THAT(open(about("0000:ff:1f.7")), HasSubstr("0000:ff:1f.7"));
}

TEST_F(OpenPortTest, AnInterfaceThatDoesNotExistIsNamed) {
  use_pool(64, 8320);
  EXPECT_THAT(open(info("veth", {{"interface", Value("weft-none")}})), HasSubstr("weft-none"));
}

TEST_F(OpenPortTest, BuffersTooSmallForVethSayWhatToSet) {
  EXPECT_THAT(open(info("veth", {{"interface", Value("lo")}})),
              HasSubstr("eal.mbuf_data_room_bytes must be at least 8288"));
}

TEST_F(OpenPortTest, AFileThatIsNoSocketIsNotRemoved) {
  const std::string path = scratch.file("precious");
  std::ofstream(path) << "data";
  for (const char* type : {"vhost", "memif"}) {
    EXPECT_THAT(open(socket_port(type, path)), HasSubstr("is no socket")) << type;
    EXPECT_TRUE(std::filesystem::exists(path));
  }
}

TEST_F(OpenPortTest, ASocketOnWhichSomebodyListensIsNotTaken) {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    const std::string path = scratch.file("live" + std::to_string(type));
    const int fd = listen_at(path, type);
    EXPECT_THAT(open(socket_port(type == SOCK_STREAM ? "vhost" : "memif", path)), HasSubstr("in use"));
    EXPECT_TRUE(std::filesystem::exists(path));
    close(fd);
  }
}

TEST_F(OpenPortTest, ASocketThatADeadProcessLeftBehindIsReplaced) {
  const std::string path = scratch.file("stale");
  close(listen_at(path, SOCK_SEQPACKET));
  ASSERT_TRUE(std::filesystem::exists(path));
  EXPECT_EQ(open(socket_port("memif", path)), "");
}

TEST_F(OpenPortTest, MemifPortsMayShareASocket) {
  const std::string path = scratch.file("shared");
  ASSERT_EQ(open(socket_port("memif", path)), "");
  pipeline::PortInfo second = info("memif", {{"socket", Value(path)}, {"role", Value("server")}, {"id", Value(1)}});
  const OpenedPort other = open_port(second, {pool.get(), 1, 7});
  EXPECT_EQ(other.error, "");
  EXPECT_NE(other.port, nullptr);
  EXPECT_FALSE(port->link_up());  // nobody has connected
}

TEST_F(OpenPortTest, PortsWithoutAnAddressGetOneThatIsLocalUnicastAndStable) {
  const auto mac_of = [&](const char* name, pipeline::PortIndex index, std::uint64_t seed) {
    pipeline::PortInfo about = info("null", {{"rx", Value(false)}, {"frame_bytes", Value(64)}});
    about.name = name;
    about.index = index;
    return open_port(about, {pool.get(), 1, seed}).port->mac();
  };
  const wire::MacAddress mac = mac_of("p1", 0, 1);
  EXPECT_EQ(mac.bytes[0], 0x02);
  EXPECT_EQ(mac_of("p1", 0, 1), mac);
  EXPECT_NE(mac_of("p1", 0, 2), mac);
  EXPECT_NE(mac_of("p2", 0, 1), mac);
  EXPECT_NE(mac_of("p1", 1, 1), mac);
  pipeline::PortInfo configured = info("null", {{"rx", Value(false)}, {"frame_bytes", Value(64)}});
  configured.mac = wire::MacAddress::from_u64(0x0a0b0c0d0e0f);
  ASSERT_EQ(open(configured), "");
  EXPECT_EQ(port->mac(), configured.mac);
}

TEST_F(OpenPortTest, TheMtuIsTheConfiguredOneOrADefaultThatCarriesRoce) {
  ASSERT_EQ(open(info("null", {{"rx", Value(false)}, {"frame_bytes", Value(64)}}, 1500)), "");
  EXPECT_EQ(port->mtu_bytes(), 1500u);
  ASSERT_EQ(open(info("null", {{"rx", Value(false)}, {"frame_bytes", Value(64)}}, 0)), "");
  EXPECT_EQ(port->mtu_bytes(), 4200u);
}

}  // namespace
}  // namespace weft::ports
