// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/capture/pcapng.h"

#include <algorithm>
#include <cstring>

namespace weft::capture {
namespace {

constexpr std::uint32_t kSectionHeader = 0x0a0d0d0a;
constexpr std::uint32_t kInterfaceDescription = 1;
constexpr std::uint32_t kInterfaceStatistics = 5;
constexpr std::uint32_t kEnhancedPacket = 6;
constexpr std::uint32_t kByteOrderMagic = 0x1a2b3c4d;
constexpr std::uint16_t kLinkTypeEthernet = 1;
constexpr std::size_t kMaxOption = 0xffff;

// Codes of options; some mean different things in different blocks.
constexpr std::uint16_t kEndOfOptions = 0;
constexpr std::uint16_t kComment = 1;
constexpr std::uint16_t kInterfaceName = 2;
constexpr std::uint16_t kInterfaceDescriptionText = 3;
constexpr std::uint16_t kInterfaceTimeResolution = 9;
constexpr std::uint16_t kSectionApplication = 4;
constexpr std::uint16_t kPacketFlags = 2;
constexpr std::uint16_t kStatisticsReceived = 4;
constexpr std::uint16_t kStatisticsDropped = 5;

template <typename T>
void append_value(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

void append_padded(std::string& out, std::string_view bytes) {
  out.append(bytes);
  out.append((4 - bytes.size() % 4) % 4, '\0');
}

void append_option(std::string& out, std::uint16_t code, std::string_view value) {
  value = value.substr(0, kMaxOption);
  append_value(out, code);
  append_value(out, static_cast<std::uint16_t>(value.size()));
  append_padded(out, value);
}

template <typename T>
void append_number_option(std::string& out, std::uint16_t code, T value) {
  append_option(out, code, {reinterpret_cast<const char*>(&value), sizeof value});
}

// A block under construction: its length stands in front and behind, and is known at the end.
class Block {
 public:
  Block(std::string& out, std::uint32_t type) : out_(out), start_(out.size()) {
    append_value(out_, type);
    append_value(out_, std::uint32_t{0});
  }
  ~Block() {
    const auto length = static_cast<std::uint32_t>(out_.size() - start_ + sizeof(std::uint32_t));
    append_value(out_, length);
    std::memcpy(out_.data() + start_ + sizeof(std::uint32_t), &length, sizeof length);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

 private:
  std::string& out_;
  std::size_t start_;
};

void append_time(std::string& out, EpochNs time) {
  append_value(out, static_cast<std::uint32_t>(time >> 32));
  append_value(out, static_cast<std::uint32_t>(time));
}

void end_options(std::string& out) {
  append_option(out, kEndOfOptions, {});
}

}  // namespace

void append_section(std::string& out, std::string_view application) {
  const Block block(out, kSectionHeader);
  append_value(out, kByteOrderMagic);
  append_value(out, std::uint16_t{1});  // version 1.0
  append_value(out, std::uint16_t{0});
  append_value(out, ~std::uint64_t{0});  // the length of the section is not known
  append_option(out, kSectionApplication, application);
  end_options(out);
}

void append_interface(std::string& out, std::string_view name, std::string_view description, std::uint32_t snaplen) {
  const Block block(out, kInterfaceDescription);
  append_value(out, kLinkTypeEthernet);
  append_value(out, std::uint16_t{0});
  append_value(out, snaplen);
  append_option(out, kInterfaceName, name);
  if (!description.empty()) append_option(out, kInterfaceDescriptionText, description);
  append_number_option(out, kInterfaceTimeResolution, std::uint8_t{9});  // 10^-9 s
  end_options(out);
}

void append_packet(std::string& out, const PcapngPacket& packet, std::span<const std::uint8_t> bytes) {
  const Block block(out, kEnhancedPacket);
  append_value(out, packet.interface);
  append_time(out, packet.time);
  append_value(out, static_cast<std::uint32_t>(bytes.size()));
  append_value(out, packet.length);
  append_padded(out, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (packet.direction == PcapngDirection::unknown && packet.comment.empty()) return;
  if (!packet.comment.empty()) append_option(out, kComment, packet.comment);
  if (packet.direction != PcapngDirection::unknown) {
    append_number_option(out, kPacketFlags, static_cast<std::uint32_t>(packet.direction));
  }
  end_options(out);
}

void append_statistics(std::string& out, std::uint32_t interface, EpochNs time, std::uint64_t packets,
                       std::uint64_t lost) {
  const Block block(out, kInterfaceStatistics);
  append_value(out, interface);
  append_time(out, time);
  append_number_option(out, kStatisticsReceived, packets);
  append_number_option(out, kStatisticsDropped, lost);
  end_options(out);
}

}  // namespace weft::capture
