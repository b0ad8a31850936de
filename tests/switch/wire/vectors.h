// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Frames made by others than the code under test, in hexadecimal.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace weft::wire::vectors {

[[nodiscard]] inline std::vector<std::uint8_t> from_hex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::uint8_t>(digit(hex[i]) << 4 | digit(hex[i + 1])));
  }
  return bytes;
}

// From scapy's public tests, test/contrib/roce.uts: a CNP that a ConnectX-4 Lx sent, and a UC SEND.
inline constexpr std::string_view kConnectX4Cnp =
    "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a001201000012b7002800008100ffff40000118"
    "000000000000000000000000000000000000000082fd002a";
inline constexpr std::string_view kUcSendOnly =
    "248a07a8fa22248a07a8fa22080045010040047840004011b4d5c0a80007c0a80007c00012b7002caca22460ffff000000d300cf1710"
    "4630818be28935d90e9a95505401be885e50000078f353f3";

// Made with scapy 2.5, its contrib.roce included, from the expressions in the comments, where e() stands for
// Ether(src='02:00:00:00:00:01', dst='02:00:00:00:00:02'), S for that source and op() for opcode()[0] of contrib.roce.
// That module computes the ICRC over IPv4 only: over IPv6 it is zlib.crc32() of eight bytes 0xff and the packet with
// traffic class, flow label, hop limit, UDP checksum and the byte behind the P_Key set to ones.

// e()/IP(src='10.0.0.1',dst='10.0.0.2',id=0,flags='DF',tos=0x62,ttl=61)/UDP(sport=50000,dport=4791,chksum=0)/
// BTH(opcode=op('RC','SEND_ONLY'),migreq=1,padcount=3,dqpn=0x123456,psn=0xfedcba,ackreq=1,solicited=1)/
// Raw(bytes(range(13))+bytes(3))
inline constexpr std::string_view kSendOnlyPad =
    "02000000000202000000000108004562003c000040003d11294d0a0000010a000002c35012b70028000004f0ffff0012345680fedcba"
    "000102030405060708090a0b0c0000002fb8d648";

// e()/IP(src='192.168.7.9',dst='192.168.7.8',id=0,flags='DF')/UDP(sport=61234,dport=4791,chksum=0)/
// BTH(opcode=op('RC','ACKNOWLEDGE'),migreq=1,dqpn=0xabcdef,psn=0x000fff)/AETH(syndrome=0x1f,msn=0x010203)
inline constexpr std::string_view kAck =
    "020000000002020000000001080045000030000040004011ab5bc0a80709c0a80708ef3212b7001c00001140ffff00abcdef00000fff"
    "1f0102037e1032e2";

// e()/Dot1Q(vlan=10,prio=3)/IP(src='10.0.0.1',dst='10.0.0.2',id=0,flags='DF',tos=0x68)/
// UDP(sport=49152,dport=4791,chksum=0)/BTH(opcode=op('RC','RDMA_WRITE_FIRST'),migreq=1,dqpn=17,psn=5)/
// Raw(bytes.fromhex('000000010000000200000003'+'00001000')+bytes(i%251 for i in range(256)))
inline constexpr std::string_view kWriteFirst =
    "0200000000020200000000018100600a08004568013c00004000401125470a0000010a000002c00012b7012800000640ffff00000011"
    "0000000500000001000000020000000300001000000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2021"
    "22232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f5051525354555657"
    "58595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d"
    "8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3"
    "c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9"
    "fa00010203049f7fa0e6";

// e()/IP(src='10.0.0.1',dst='10.0.0.2',id=0,flags='DF',tos=0xc2)/UDP(sport=49152,dport=4791,chksum=0)/
// cnp(dqpn=0x2a)
inline constexpr std::string_view kCnp =
    "020000000002020000000001080045c2003c00004000401125ed0a0000010a000002c00012b7002800008100ffff4000002a00000000"
    "00000000000000000000000000000000385107a4";

// e()/IP(src='10.0.0.1',dst='10.0.0.2',id=0,flags='DF')/UDP(sport=49152,dport=4791)/
// BTH(opcode=op('RC','SEND_ONLY'),migreq=1,dqpn=17,psn=5)/Raw(bytes(range(32)))
inline constexpr std::string_view kUdpSummed =
    "02000000000202000000000108004500004c000040004011269f0a0000010a000002c00012b700380b300440ffff0000001100000005"
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f198bfeb1";

// e()/IP(src='10.0.0.1',dst='10.0.0.2',id=0,flags='DF',options=[IPOption(b'\x94\x04\x00\x00')])/
// UDP(sport=49152,dport=4791,chksum=0)/BTH(opcode=op('UC','SEND_ONLY'),migreq=1,dqpn=17,psn=5)/
// Raw(bytes(range(8)))
inline constexpr std::string_view kIpOptions =
    "02000000000202000000000108004600003800004000401191ae0a0000010a00000294040000c00012b7002000002440ffff00000011"
    "000000050001020304050607065ca5bc";

// e()/IPv6(src='2001:db8::1',dst='2001:db8::2',tc=0x62,fl=0x12345,hlim=63)/UDP(sport=50001,dport=4791,chksum=0)/
// BTH(opcode=op('RC','SEND_MIDDLE'),migreq=1,dqpn=0x77,psn=0x99)/Raw(bytes(range(64)))
inline constexpr std::string_view kIpv6Send =
    "02000000000202000000000186dd662123450058113f20010db800000000000000000000000120010db8000000000000000000000002"
    "c35112b7005800000140ffff0000007700000099000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2021"
    "22232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3fe9aaf267";

// e()/Dot1Q(vlan=4094,prio=7)/IPv6(src='fe80::1',dst='fe80::2',hlim=1)/UDP(sport=50001,dport=4791,chksum=0)/
// BTH(opcode=op('RC','ACKNOWLEDGE'),migreq=1,dqpn=0x77,psn=0x99)/Raw(bytes.fromhex('60010203'))
inline constexpr std::string_view kIpv6VlanAck =
    "0200000000020200000000018100effe86dd60000000001c1101fe800000000000000000000000000001fe8000000000000000000000"
    "00000002c35112b7001c00001140ffff0000007700000099600102039a24c7cd";

// Ether(src=S,dst='ff:ff:ff:ff:ff:ff')/ARP(op=1,hwsrc=S,psrc='10.0.0.1',pdst='10.0.0.2')
inline constexpr std::string_view kArpRequest =
    "ffffffffffff020000000001080600010800060400010200000000010a0000010000000000000a000002";

// e()/IP(src='10.0.0.1',dst='10.0.0.2',id=7)/ICMP(type=8,id=0x1234,seq=3)/Raw(bytes(range(11)))
inline constexpr std::string_view kIcmpEcho =
    "02000000000202000000000108004500002700070000400166cd0a0000010a0000020800c7af12340003000102030405060708090a";

// e()/IP(src='10.0.0.1',dst='10.0.0.2',id=0,flags='DF')/
// TCP(sport=40000,dport=22,flags='S',seq=0x01020304,window=0xffff)
inline constexpr std::string_view kTcpSyn =
    "02000000000202000000000108004500002800004000400626ce0a0000010a0000029c40001601020304000000005002fffffb830000";

// e()/IPv6(src='2001:db8::1',dst='2001:db8::2')/TCP(sport=40000,dport=22,flags='A',seq=9,window=0xffff)/
// Raw(bytes(range(5)))
inline constexpr std::string_view kTcp6 =
    "02000000000202000000000186dd600000000019064020010db800000000000000000000000120010db8000000000000000000000002"
    "9c40001600000009000000005010ffffb1f700000001020304";

// e()/IPv6(src='2001:db8::1',dst='2001:db8::2')/UDP(sport=53,dport=5353)/Raw(bytes(range(7)))
inline constexpr std::string_view kUdp6 =
    "02000000000202000000000186dd60000000000f114020010db800000000000000000000000120010db8000000000000000000000002"
    "003514e9000f833400010203040506";

// e()/IPv6(src='2001:db8::1',dst='2001:db8::2')/ICMPv6EchoRequest(id=0x1234,seq=3,data=bytes(range(9)))
inline constexpr std::string_view kEcho6 =
    "02000000000202000000000186dd6000000000113a4020010db800000000000000000000000120010db8000000000000000000000002"
    "8000fdf712340003000102030405060708";

// Ether(src=S,dst='33:33:ff:00:00:02')/IPv6(src='fe80::1',dst='ff02::1:ff00:2',hlim=255)/
// ICMPv6ND_NS(tgt='fe80::2')/ICMPv6NDOptSrcLLAddr(lladdr=S)
inline constexpr std::string_view kNs =
    "3333ff00000202000000000186dd6000000000203afffe800000000000000000000000000001ff0200000000000000000001ff000002"
    "87007a9700000000fe8000000000000000000000000000020101020000000001";

// e()/IPv6(src='2001:db8::1',dst='2001:db8::2')/IPv6ExtHdrFragment(offset=3,m=1,id=77,nh=17)/Raw(bytes(range(16)))
inline constexpr std::string_view kFragment6 =
    "02000000000202000000000186dd6000000000182c4020010db800000000000000000000000120010db8000000000000000000000002"
    "110000190000004d000102030405060708090a0b0c0d0e0f";

}  // namespace weft::wire::vectors
