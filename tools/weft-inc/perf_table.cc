// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/weft-inc/perf.h"
#include "tools/weft-inc/perf_data.h"
#include "tools/weft-inc/perf_link.h"

namespace weft::inc_tool {
namespace {

/// GB/s, of 10^9 bytes.
double rate(std::uint64_t bytes, double microseconds) {
  return microseconds > 0 ? static_cast<double>(bytes) / microseconds / 1e3 : 0;
}

std::string wrong(const PerfOptions& o, const PerfTimes& t) {
  return o.check ? std::to_string(t.wrong) : "N/A";
}

std::string half(const PerfOptions& o, std::uint64_t bytes, const PerfTimes& t) {
  char out[96];
  const double algbw = rate(bytes, t.mean());
  std::snprintf(out, sizeof out, "  %8.2f  %6.3f  %6.3f  %6s", t.mean(), algbw,
                algbw * bus_factor(o.collective, o.ranks), wrong(o, t).c_str());
  return out;
}

nlohmann::ordered_json half_json(const PerfOptions& o, const PerfRow& row, const PerfTimes& t) {
  const std::uint64_t bytes = row.bytes;
  const double algbw = rate(bytes, t.mean());
  nlohmann::ordered_json j{{"time_us", t.mean()},
                           {"p50_us", t.quantile(0.5)},
                           {"p99_us", t.quantile(0.99)},
                           {"algbw_gbytes_s", algbw},
                           {"busbw_gbytes_s", algbw * bus_factor(o.collective, o.ranks)}};
  if (o.link_gbps > 0) j["link_utilisation"] = link_share(row.link_bytes, o.mtu, t.mean(), o.link_gbps);
  if (o.check) j["wrong"] = t.wrong;
  return j;
}

}  // namespace

double PerfTimes::mean() const {
  if (microseconds.empty()) return 0;
  return whole_us / static_cast<double>(microseconds.size());
}

double PerfTimes::quantile(double share) const {
  if (microseconds.empty()) return 0;
  std::vector<double> sorted = microseconds;
  std::sort(sorted.begin(), sorted.end());
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

double bus_factor(const std::string& collective, std::uint32_t ranks) {
  const double n = ranks;
  if (collective == "allreduce") return 2 * (n - 1) / n;
  if (collective == "reduce_scatter" || collective == "allgather") return (n - 1) / n;
  return 1;
}

std::vector<std::uint64_t> perf_sizes(const PerfOptions& o) {
  if (o.collective == "barrier") return {0};
  std::vector<std::uint64_t> sizes;
  const std::uint32_t factor = o.factor != 0 ? o.factor : o.step_bytes != 0 ? 1 : 2;
  for (std::uint64_t size = o.min_bytes; size <= o.max_bytes;) {
    sizes.push_back(size);
    const std::uint64_t next = factor > 1 ? size * factor : size + o.step_bytes;
    if (next <= size) break;
    size = next;
  }
  return sizes;
}

std::string table_head() {
  return "#                                                        out-of-place                        in-place\n"
         "#       size         count      type   redop    root      time   algbw   busbw  #wrong      time   algbw"
         "   busbw  #wrong       p50       p99    link\n"
         "#        (B)    (elements)                                (us)  (GB/s)  (GB/s)              (us)  (GB/s)"
         "  (GB/s)              (us)      (us)     (%)";
}

std::string table_line(const PerfOptions& o, const PerfRow& row) {
  const bool rooted = o.collective == "reduce" || o.collective == "broadcast";
  const bool reduces = o.collective == "allreduce" || o.collective == "reduce" || o.collective == "reduce_scatter";
  const auto type = perf_type(o.type);
  char out[96];
  std::snprintf(out, sizeof out, "%12llu  %12llu  %8s  %6s  %6d", static_cast<unsigned long long>(row.bytes),
                static_cast<unsigned long long>(row.count), type ? nccl_name(*type).data() : "none",
                reduces ? o.op.c_str() : "none", rooted ? static_cast<int>(o.root) : -1);
  char tail[48], link[16] = "N/A";
  if (o.link_gbps > 0) {
    std::snprintf(link, sizeof link, "%.1f",
                  100 * link_share(row.link_bytes, o.mtu, row.out_of_place.mean(), o.link_gbps));
  }
  std::snprintf(tail, sizeof tail, "  %8.2f  %8.2f  %6s", row.out_of_place.quantile(0.5),
                row.out_of_place.quantile(0.99), link);
  return out + half(o, row.bytes, row.out_of_place) + half(o, row.bytes, row.in_place) + tail;
}

nlohmann::ordered_json json_row(const PerfOptions& o, const PerfRow& row) {
  return {{"bytes", row.bytes},
          {"count", row.count},
          {"out_of_place", half_json(o, row, row.out_of_place)},
          {"in_place", half_json(o, row, row.in_place)}};
}

}  // namespace weft::inc_tool
