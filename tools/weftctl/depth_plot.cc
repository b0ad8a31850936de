// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weftctl/depth_plot.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace weft::weftctl {
namespace {

// The picture, in pixels.
constexpr double kWidth = 960, kHeight = 460, kLeft = 76, kRight = 20, kBottom = 52;
constexpr double kTitle = 30, kLegendRow = 18, kLegendColumn = 290;
constexpr std::size_t kLegendColumns = 3;
// A band is interrupted where no sample was taken for so many times the usual period.
constexpr std::uint64_t kGapPeriods = 20;

// Colours that stay distinct for colour-blind readers, on light and on dark paper; those of the benchmarks' charts.
constexpr std::array<const char*, DepthPlot::kMaxDrawn> kLight{"#2368b0", "#d17a12", "#23865a", "#8254b5",
                                                               "#c03a3a", "#1c8b97", "#7d7f88", "#a9820b"};
constexpr std::array<const char*, DepthPlot::kMaxDrawn> kDark{"#6aa9ec", "#f0a04b", "#5cc596", "#b592e3",
                                                              "#ef7f7a", "#5cc7d3", "#a7aab4", "#dcb844"};

std::string text_of(const char* format, auto... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string style() {
  const auto colours = [](const auto& series, const char* ink, const char* muted, const char* grid, const char* paper) {
    std::string text = "svg{";
    for (std::size_t i = 0; i < series.size(); ++i) text += text_of("--s%zu:%s;", i, series[i]);
    return text + text_of("--ink:%s;--muted:%s;--grid:%s;--paper:%s}", ink, muted, grid, paper);
  };
  std::string text = colours(kLight, "#1c1e22", "#5d626c", "#d9dce1", "#ffffff") +
                     "@media(prefers-color-scheme:dark){" + colours(kDark, "#e7e9ed", "#a3a8b3", "#3a3e46", "#17191d") +
                     "}" +
                     "text{font:12px system-ui,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:var(--ink)}"
                     ".title{font-size:14px;font-weight:600}.axis{fill:var(--muted)}.grid{stroke:var(--grid)}"
                     ".base{stroke:var(--muted)}.paper{fill:var(--paper)}";
  for (std::size_t i = 0; i < kLight.size(); ++i) {
    text += text_of(
        ".q%zu{fill:var(--s%zu);fill-opacity:.25;stroke:var(--s%zu);stroke-width:1.4;stroke-linejoin:round}"
        ".k%zu{fill:var(--s%zu)}",
        i, i, i, i, i);
  }
  return text;
}

// A round step, 1, 2 or 5 times a power of ten, of which about five make up `most`.
double step_of(double most) {
  const double raw = most / 5;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw * 0.999) return factor * power;
  }
  return 10 * power;
}

// The unit in which the axis counts, so that its numbers are short.
struct Unit {
  double size;
  const char* name;
};
Unit bytes_unit(double most) {
  if (most >= 2e6) return {1e6, "MB"};
  if (most >= 2e3) return {1e3, "kB"};
  return {1, "bytes"};
}
Unit time_unit(double most_ns) {
  if (most_ns >= 2e9) return {1e9, "s"};
  if (most_ns >= 2e6) return {1e6, "ms"};
  return {1e3, "us"};
}

std::string line(double x1, double y1, double x2, double y2, const char* css) {
  return text_of("<line x1=\"%g\" y1=\"%g\" x2=\"%g\" y2=\"%g\" class=\"%s\"/>", x1, y1, x2, y2, css);
}

std::string label(double x, double y, const std::string& text, const char* anchor, const char* css) {
  return text_of("<text x=\"%g\" y=\"%g\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor, css) + escaped(text) +
         "</text>";
}

}  // namespace

// Where values lie in the picture.
struct DepthPlot::Frame {
  double top, most_bytes, most_ns;
  [[nodiscard]] double x(double ns) const { return kLeft + ns / most_ns * (kWidth - kLeft - kRight); }
  [[nodiscard]] double y(double bytes) const {
    return kHeight - kBottom - bytes / most_bytes * (kHeight - kBottom - top);
  }
};

std::string DepthPlot::axes(const Frame& frame) {
  const double bottom = frame.y(0);
  const Unit of_bytes = bytes_unit(frame.most_bytes);
  const Unit of_time = time_unit(frame.most_ns);
  std::string out;
  const double bytes_step = step_of(frame.most_bytes);
  for (int i = 0; i * bytes_step <= frame.most_bytes * 1.0001; ++i) {
    const double y = frame.y(i * bytes_step);
    out += line(kLeft, y, kWidth - kRight, y, "grid");
    out += label(kLeft - 6, y + 4, text_of("%g", i * bytes_step / of_bytes.size), "end", "axis");
  }
  const double time_step = step_of(frame.most_ns);
  for (int i = 0; i * time_step <= frame.most_ns * 1.0001; ++i) {
    const double x = frame.x(i * time_step);
    out += line(x, frame.top, x, bottom, "grid");
    out += label(x, bottom + 17, text_of("%g", i * time_step / of_time.size), "middle", "axis");
  }
  out += line(kLeft, frame.top, kLeft, bottom, "base") + line(kLeft, bottom, kWidth - kRight, bottom, "base");
  out += label((kLeft + kWidth - kRight) / 2, kHeight - 12, text_of("time, %s", of_time.name), "middle", "axis");
  const double middle = (frame.top + bottom) / 2;
  out += text_of("<text x=\"16\" y=\"%g\" text-anchor=\"middle\" class=\"axis\" transform=\"rotate(-90 16 %g)\">",
                 middle, middle) +
         text_of("bytes in the queue, %s</text>", of_bytes.name);
  return out;
}

DepthPlot::DepthPlot(std::vector<std::string> names)
    : names_(std::move(names)), peak_(names_.size()), slices_(names_.size() * kSlices) {}

void DepthPlot::add(std::uint64_t time_ns, std::span<const std::uint64_t> bytes) {
  if (samples_++ == 0) first_ns_ = time_ns;
  last_ns_ = std::max(time_ns, first_ns_);
  while ((last_ns_ - first_ns_) / slice_ns_ >= kSlices) halve();
  const auto at = static_cast<std::size_t>((last_ns_ - first_ns_) / slice_ns_);
  for (std::size_t i = 0; i < std::min(bytes.size(), names_.size()); ++i) {
    Slice& s = slice(i, at);
    s.low = std::min(s.low, bytes[i]);
    s.high = std::max(s.high, bytes[i]);
    peak_[i] = std::max(peak_[i], bytes[i]);
  }
}

// Slices get twice as long: two become one.
void DepthPlot::halve() {
  slice_ns_ *= 2;
  for (std::size_t queue = 0; queue < names_.size(); ++queue) {
    for (std::size_t at = 0; at < kSlices; ++at) {
      Slice both;
      if (at < kSlices / 2) {
        const Slice& a = slice(queue, 2 * at);
        const Slice& b = slice(queue, 2 * at + 1);
        both = {std::min(a.low, b.low), std::max(a.high, b.high)};
      }
      slice(queue, at) = both;
    }
  }
}

std::vector<std::size_t> DepthPlot::drawn() const {
  std::vector<std::size_t> queues(names_.size());
  std::iota(queues.begin(), queues.end(), std::size_t{0});
  std::erase_if(queues, [&](std::size_t i) { return peak_[i] == 0; });
  std::stable_sort(queues.begin(), queues.end(), [&](std::size_t a, std::size_t b) { return peak_[a] > peak_[b]; });
  if (queues.size() > kMaxDrawn) queues.resize(kMaxDrawn);
  std::sort(queues.begin(), queues.end());
  return queues;
}

std::string DepthPlot::band(const Frame& frame, std::size_t queue, const std::string& css) const {
  std::string path;
  const auto point = [&](const char* how, std::size_t at, std::uint64_t bytes) {
    const double middle = frame.x((static_cast<double>(at) + 0.5) * static_cast<double>(slice_ns_));
    path += text_of("%s%.2f %.2f", how, std::min(middle, kWidth - kRight), frame.y(static_cast<double>(bytes)));
  };
  // Slices shorter than the time between two samples are empty, and say nothing.
  const std::uint64_t usual = (last_ns_ - first_ns_) / std::max<std::uint64_t>(samples_ - 1, 1);
  const std::size_t gap = static_cast<std::size_t>(kGapPeriods * usual / slice_ns_) + 2;
  for (std::size_t first = 0; first < kSlices; ++first) {
    if (slice(queue, first).empty()) continue;
    // Along the highest values up to the next gap, and back along the lowest.
    std::size_t last = first;
    for (std::size_t at = first; at < kSlices && at - last <= gap; ++at) {
      if (slice(queue, at).empty()) continue;
      point(at == first ? "M" : "L", at, slice(queue, at).high);
      last = at;
    }
    for (std::size_t at = last + 1; at-- != first;) {
      if (!slice(queue, at).empty()) point("L", at, slice(queue, at).low);
    }
    path += "Z";
    first = last;
  }
  return "<path d=\"" + path + "\" class=\"" + css + "\"/>";
}

std::string DepthPlot::svg(std::string_view title) const {
  const std::vector<std::size_t> queues = drawn();
  const std::size_t legend_rows = (queues.size() + kLegendColumns - 1) / kLegendColumns;
  double most = 0;
  for (const std::size_t i : queues) most = std::max(most, static_cast<double>(peak_[i]));
  const Frame frame{.top = kTitle + static_cast<double>(legend_rows) * kLegendRow + 12,
                    .most_bytes = most == 0 ? 1000 : most * 1.04,
                    .most_ns = std::max(static_cast<double>(last_ns_ - first_ns_), 1000.0)};
  std::string out =
      text_of("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\">", kWidth,
              kHeight, kWidth, kHeight);
  out += "<style>" + style() + "</style><rect width=\"100%\" height=\"100%\" class=\"paper\"/>";
  out += label(kLeft, 20, std::string(title), "start", "title") + axes(frame);
  if (queues.empty()) {
    const char* text = samples_ == 0 ? "no sample was taken" : "all queues were empty all the time";
    out += label((kLeft + kWidth - kRight) / 2, (frame.top + frame.y(0)) / 2, text, "middle", "axis");
  }
  for (std::size_t n = 0; n < queues.size(); ++n) {
    const std::size_t i = queues[n];
    const std::size_t row = n / kLegendColumns;
    const double x = kLeft + static_cast<double>(n % kLegendColumns) * kLegendColumn;
    const double y = kTitle + static_cast<double>(row) * kLegendRow + 4;
    out += text_of("<rect x=\"%g\" y=\"%g\" width=\"11\" height=\"11\" class=\"k%zu\"/>", x, y, n);
    out += label(x + 17, y + 10, names_[i] + text_of("  peak %llu", static_cast<unsigned long long>(peak_[i])), "start",
                 "axis");
    out += band(frame, i, text_of("q%zu", n));
  }
  return out + "</svg>\n";
}

void DepthReader::read(std::string_view text) {
  for (std::size_t end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    rest_ += text.substr(0, end);
    line(rest_);
    rest_.clear();
    text.remove_prefix(end + 1);
  }
  rest_ += text;
}

void DepthReader::line(std::string_view text) {
  std::vector<std::string> names;
  numbers_.clear();
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    more = comma != text.npos;
    if (more) text.remove_prefix(comma + 1);
    if (!plot_) {
      names.emplace_back(word);
      continue;
    }
    std::uint64_t number = 0;
    std::from_chars(word.data(), word.data() + word.size(), number);
    numbers_.push_back(number);
  }
  if (!plot_) {
    plot_.emplace(std::vector<std::string>(names.begin() + 1, names.end()));
  } else {
    plot_->add(numbers_[0], std::span(numbers_).subspan(1));
  }
}

}  // namespace weft::weftctl
