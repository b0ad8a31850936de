// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Depths of queues over time as an SVG picture of its own: no script, nothing loaded, light and dark.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::weftctl {

/// Takes samples one by one, as many as there are: it keeps the lowest and the highest value of every queue in each of
/// a bounded number of time slices, so that a queue that was full for one sample still shows. Where nothing was sampled
/// for long, nothing is drawn.
class DepthPlot {
 public:
  /// Slices that are kept at most; a power of two. They get twice as long whenever there are more.
  static constexpr std::size_t kSlices = 2048;
  /// Queues that are drawn at most: those with the highest peaks.
  static constexpr std::size_t kMaxDrawn = 8;

  /// @param names  of the queues
  explicit DepthPlot(std::vector<std::string> names);

  /// @param time_ns  not before that of the last sample
  /// @param bytes    one value per queue
  void add(std::uint64_t time_ns, std::span<const std::uint64_t> bytes);

  /// The picture. Queues that were always empty are not drawn.
  [[nodiscard]] std::string svg(std::string_view title) const;

 private:
  struct Slice {
    std::uint64_t low = ~std::uint64_t{0};
    std::uint64_t high = 0;
    [[nodiscard]] bool empty() const noexcept { return low > high; }
  };
  [[nodiscard]] const Slice& slice(std::size_t queue, std::size_t at) const { return slices_[queue * kSlices + at]; }
  Slice& slice(std::size_t queue, std::size_t at) { return slices_[queue * kSlices + at]; }
  void halve();
  struct Frame;
  [[nodiscard]] static std::string axes(const Frame& frame);
  [[nodiscard]] std::string band(const Frame& frame, std::size_t queue, const std::string& css) const;
  [[nodiscard]] std::vector<std::size_t> drawn() const;

  std::vector<std::string> names_;
  std::vector<std::uint64_t> peak_;
  std::vector<Slice> slices_;  ///< by queue and time
  std::uint64_t slice_ns_ = 1000;
  std::uint64_t first_ns_ = 0;
  std::uint64_t last_ns_ = 0;
  std::uint64_t samples_ = 0;
};

/// Reads what a recording sends, in pieces that may end anywhere: a line of names, then lines of numbers.
class DepthReader {
 public:
  void read(std::string_view text);
  /// nullptr until the names have come.
  [[nodiscard]] const DepthPlot* plot() const noexcept { return plot_ ? &*plot_ : nullptr; }

 private:
  void line(std::string_view text);

  std::string rest_;
  std::optional<DepthPlot> plot_;
  std::vector<std::uint64_t> numbers_;
};

}  // namespace weft::weftctl
