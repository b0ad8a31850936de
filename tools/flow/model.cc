// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/flow/model.h"

#include <cmath>
#include <cstdio>
#include <map>

namespace weft::flow {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

/// Of a micro-batch, forward and backward.
double micro_batch_ns(const Model& m, const Division& d) {
  const double tokens = static_cast<double>(m.batch) * m.sequence;
  return 6 * m.parameters * tokens / (d.ranks() * m.gpu_flops * m.efficiency) * 1e9 / d.micro_batches;
}

/// Puts the phases of a plan together, slot by slot: in each, stages that have a micro-batch work on it.
class Planner {
 public:
  Planner(const Model& model, const Division& division, std::uint32_t iterations) : m_(model), d_(division) {
    plan_.name = model.name;
    plan_.ranks = division.ranks();
    plan_.iterations = iterations;
    add_groups();
  }

  JobPlan plan() {
    const double ns = micro_batch_ns(m_, d_);
    add_pass("forward", ns / 3, true);
    add_pass("backward", ns * 2 / 3, false);
    if (d_.dp > 1) {
      Phase data{"gradients", 0, {}};
      const double bytes = m_.parameters * m_.gradient_bytes / (d_.tp * d_.pp);
      for (const std::uint32_t g : data_) data.collectives.push_back({g, bytes});
      plan_.phases.push_back(data);
    }
    return std::move(plan_);
  }

 private:
  [[nodiscard]] std::uint32_t rank(std::uint32_t stage, std::uint32_t replica, std::uint32_t t) const {
    return (stage * d_.dp + replica) * d_.tp + t;
  }
  std::uint32_t add(GroupKind kind, std::vector<std::uint32_t> ranks) {
    plan_.groups.push_back({kind, std::move(ranks)});
    return static_cast<std::uint32_t>(plan_.groups.size() - 1);
  }

  void add_groups() {
    tensor_.resize(d_.pp);
    forward_.resize(d_.pp);
    backward_.resize(d_.pp);
    for (std::uint32_t s = 0; s < d_.pp && d_.tp > 1; ++s) {
      for (std::uint32_t r = 0; r < d_.dp; ++r) {
        std::vector<std::uint32_t> ranks;
        for (std::uint32_t t = 0; t < d_.tp; ++t) ranks.push_back(rank(s, r, t));
        tensor_[s].push_back(add(GroupKind::tensor, ranks));
      }
    }
    for (std::uint32_t s = 0; s < d_.pp && d_.dp > 1; ++s) {
      for (std::uint32_t t = 0; t < d_.tp; ++t) {
        std::vector<std::uint32_t> ranks;
        for (std::uint32_t r = 0; r < d_.dp; ++r) ranks.push_back(rank(s, r, t));
        data_.push_back(add(GroupKind::data, ranks));
      }
    }
    for (std::uint32_t s = 0; s + 1 < d_.pp; ++s) {
      for (std::uint32_t r = 0; r < d_.dp; ++r) {
        for (std::uint32_t t = 0; t < d_.tp; ++t) {
          forward_[s].push_back(add(GroupKind::pipeline, {rank(s, r, t), rank(s + 1, r, t)}));
          backward_[s + 1].push_back(add(GroupKind::pipeline, {rank(s + 1, r, t), rank(s, r, t)}));
        }
      }
    }
  }

  /// All micro-batches through all stages, in one direction.
  void add_pass(const char* what, double compute_ns, bool forward) {
    // Sequences of a micro-batch and replica; a fraction when batches are not divided further.
    const double sequences = static_cast<double>(m_.batch) / d_.dp / d_.micro_batches;
    const double bytes = sequences * m_.sequence * m_.hidden * m_.activation_bytes;
    const std::uint32_t layers = m_.layers / d_.pp;
    for (std::uint32_t slot = 0; slot < d_.micro_batches + d_.pp - 1; ++slot) {
      const std::string name = d_.pp == 1 && d_.micro_batches == 1 ? what : what + (" slot " + std::to_string(slot));
      Phase work{name, static_cast<TimeNs>(std::llround(compute_ns)), {}}, send{name + ": to the next stage", 0, {}};
      for (std::uint32_t i = 0; i < d_.pp; ++i) {
        if (slot < i || slot - i >= d_.micro_batches) continue;
        const std::uint32_t stage = forward ? i : d_.pp - 1 - i;
        for (const std::uint32_t g : tensor_[stage]) work.collectives.push_back({g, bytes, 2 * layers});
        for (const std::uint32_t g : (forward ? forward_ : backward_)[stage]) {
          send.collectives.push_back({g, bytes / d_.tp});
        }
      }
      plan_.phases.push_back(work);
      if (!send.collectives.empty()) plan_.phases.push_back(send);
    }
  }

  const Model& m_;
  const Division& d_;
  JobPlan plan_;
  std::vector<std::vector<std::uint32_t>> tensor_, forward_, backward_;  ///< by stage
  std::vector<std::uint32_t> data_;
};

}  // namespace

std::vector<std::string> mistakes_of(const Model& m, const Division& d) {
  std::vector<std::string> out;
  const auto whole = [&](std::uint32_t all, std::uint32_t parts, const std::string& what) {
    if (parts == 0)
      out.push_back("parts of a division are 1 or more");
    else if (all % parts != 0)
      out.push_back(std::to_string(all) + " " + what + " cannot be divided by " + std::to_string(parts));
  };
  if (!(m.gpu_flops > 0)) out.push_back("a GPU that computes nothing never ends");
  if (!(m.efficiency > 0)) out.push_back("an efficiency of 0 never ends");
  if (!(m.parameters > 0)) out.push_back("a model without parameters has nothing to train");
  whole(m.hidden, d.tp, "elements (hidden)");
  whole(m.layers, d.pp, "layers");
  if (d.dp == 0 || d.micro_batches == 0) {
    out.push_back("parts of a division are 1 or more");
  } else {
    whole(m.batch, d.dp, "sequences (batch)");
    if (m.batch % d.dp == 0) whole(m.batch / d.dp, d.micro_batches, "sequences of a replica");
  }
  return out;
}

double compute_ns(const Model& model, const Division& division) {
  return micro_batch_ns(model, division) * (division.micro_batches + division.pp - 1);
}

JobPlan plan_of(const Model& model, const Division& division, std::uint32_t iterations) {
  return Planner(model, division, iterations).plan();
}

std::string explain(const Model& m, const Division& d, const JobPlan& plan) {
  std::string out = m.name + ": " + std::to_string(d.ranks()) + " GPUs, TP " + std::to_string(d.tp) + ", DP " +
                    std::to_string(d.dp) + ", PP " + std::to_string(d.pp) + ", " + std::to_string(d.micro_batches) +
                    " micro-batches, " + std::to_string(plan.iterations) + " iterations\n";
  std::map<GroupKind, std::pair<std::size_t, std::size_t>> groups;  // how many, of how many ranks
  for (const GroupPlan& g : plan.groups) {
    auto& [count, ranks] = groups[g.kind];
    ++count;
    ranks = g.ranks.size();
  }
  for (const auto& [kind, about] : groups) {
    out += "  " + std::string(to_string(kind)) + ": " + std::to_string(about.first) + " groups of " +
           std::to_string(about.second) + " ranks\n";
  }
  out += "An iteration, phase by phase:\n";
  TimeNs compute = 0;
  std::map<GroupKind, double> sums;
  for (const Phase& phase : plan.phases) {
    compute += phase.compute_ns;
    out += "  " + phase.what;
    if (phase.compute_ns > 0) out += ", " + number(static_cast<double>(phase.compute_ns) / 1e9) + " s of computing";
    std::map<GroupKind, std::pair<std::size_t, const Collective*>> by_kind;
    for (const Collective& c : phase.collectives) {
      auto& [count, one] = by_kind[plan.groups[c.group].kind];
      ++count;
      one = &c;
      sums[plan.groups[c.group].kind] += c.bytes * c.count;
    }
    for (const auto& [kind, about] : by_kind) {
      const Collective& c = *about.second;
      out += std::string(kind == GroupKind::pipeline ? ", sends" : ", AllReduces") + " in " +
             std::to_string(about.first) + " " + std::string(to_string(kind)) + " groups, " + std::to_string(c.count) +
             " of " + number(c.bytes / 1e6) + " MB each";
    }
    out += "\n";
  }
  out += "In all: " + number(static_cast<double>(compute) / 1e9) + " s of computing";
  for (const auto& [kind, bytes] : sums) {
    out += ", " + std::string(to_string(kind)) + " " + number(bytes / 1e9) + " GB";
  }
  return out + " in an iteration, of the vectors of all groups\n";
}

const std::vector<Model>& known_models() {
  // Layers, hidden sizes, parameters and sequences as EPIC's Table 33 has them. Elements of 4 bytes, batches of 128 and
  // GPUs of 312 TFLOPS that reach all of these are what Tables 36 to 43 agree with (bench/papers/epic/flow/README.md);
  // Table 33 says 1536 and 125 TFLOPS of the 175B model, and 2 bytes of the others.
  static const std::vector<Model> models{
      {"gpt3-175b", 96, 12288, 175e9, 2048, 128, 4, 4, 312e12, 1},
      {"gpt3-13b", 40, 5120, 13e9, 2048, 128, 4, 4, 312e12, 1},
      {"llama-65b", 80, 8192, 65e9, 4096, 128, 4, 4, 312e12, 1},
      {"llama-7b", 32, 4096, 6.7e9, 4096, 128, 4, 4, 312e12, 1},
  };
  return models;
}

}  // namespace weft::flow
