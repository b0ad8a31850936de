// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/ports/capture_writer.h"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "tests/switch/ports/port_rig.h"

namespace weft::ports {
namespace {

using testing::HasSubstr;

class CaptureWriterTest : public PortTest {
 protected:
  void SetUp() override { use_pool(4096, 512); }
  void TearDown() override {
    writer.reset();
    PortTest::TearDown();
  }
  [[nodiscard]] std::string path() const { return scratch.file("out.pcap"); }
  void create() {
    std::string error;
    writer = CaptureWriter::create(path(), error);
    ASSERT_EQ(error, "");
  }
  // Sends one frame; true when it was not rejected.
  bool send(const Bytes& frame) {
    rte_mbuf* m = packet(frame);
    const pipeline::TxResult result = writer->write(&m, 1);
    EXPECT_EQ(result.taken, 1);
    EXPECT_EQ(result.rejected_bytes, result.rejected * frame.size());
    return result.rejected == 0;
  }
  ScratchDirectory scratch;
  std::unique_ptr<CaptureWriter> writer;
};

TEST_F(CaptureWriterTest, WhatIsWrittenIsReadAgainInOrder) {
  create();
  std::vector<Bytes> frames;
  for (int i = 0; i < 500; ++i) {
    frames.push_back(frame_of(60 + i % 300, static_cast<std::uint8_t>(i)));
    EXPECT_TRUE(send(frames.back()));
  }
  writer.reset();
  EXPECT_EQ(read_capture(path()), frames);
}

TEST_F(CaptureWriterTest, PlacesThatCannotBeWrittenAreNamed) {
  std::string error;
  EXPECT_EQ(CaptureWriter::create(scratch.file("no/such/folder"), error), nullptr);
  EXPECT_THAT(error, HasSubstr("no/such/folder: No such file or directory"));
  EXPECT_EQ(CaptureWriter::create("/dev/full", error), nullptr);
  EXPECT_EQ(error, "cannot write /dev/full: No space left on device");
}

TEST_F(CaptureWriterTest, AFileThatCannotGrowKeepsItsWholePacketsAndCountsTheOthers) {
  create();
  // As a full disk does, and the same for every user: files of this process may not grow beyond this.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{100'000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  constexpr std::uint64_t kSent = 1000;
  std::uint64_t taken = 0;
  for (std::uint64_t i = 0; i < kSent; ++i) taken += send(frame_of(200, static_cast<std::uint8_t>(i))) ? 1 : 0;
  writer->flush();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old);

  EXPECT_EQ(writer->failure(), "cannot write " + path() + ": File too large");
  const std::uint64_t lost = writer->lost();
  EXPECT_LT(taken, kSent);
  EXPECT_GT(lost, 0u);
  EXPECT_FALSE(send(frame_of(60)));
  EXPECT_EQ(writer->lost(), lost);
  writer.reset();
  const auto kept = read_capture(path());
  EXPECT_EQ(kept.size() + lost, taken);
  EXPECT_EQ(std::filesystem::file_size(path()), 24 + kept.size() * (16 + 200));
  for (std::size_t i = 0; i < kept.size(); ++i) ASSERT_EQ(kept[i], frame_of(200, static_cast<std::uint8_t>(i)));
}

}  // namespace
}  // namespace weft::ports
