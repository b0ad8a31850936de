// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/flow/experiment.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <tuple>
#include <utility>

#include "collectives/manager/group_record.h"
#include "switch/config/schema/suggest.h"
#include "switch/config/schema/validate.h"
#include "switch/config/yaml_reader.h"
#include "tools/experiment/files.h"
#include "tools/flow/experiment_mistakes.h"
#include "tools/flow/workload.h"

namespace weft::flow {
namespace {

using config::Diagnostics;
using config::Mark;
using config::Value;

constexpr std::uint32_t kSequencesOfReplica = 8;
constexpr double kGpuFlops = 312e12;  ///< of models without a base, as kBatch
constexpr std::uint32_t kBatch = 128;
constexpr double kNs = 1e9;
constexpr double kLongestS = 1e9;  ///< of a job, and of all arrivals: 30 years; times in ns have room for it

std::string seconds_text(double s) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", s);
  return text;
}

std::uint32_t count_of(const Value& map, const char* key) {
  return static_cast<std::uint32_t>(map[key].integer());
}

/// From validated values to an experiment, with the checks that a schema cannot express. Parts of the file that are
/// wrong are left out, and so is whatever depends on them.
class Builder {
 public:
  /// @param wrong  where the schema has found mistakes
  Builder(const Value& source, const std::string& file, Mistakes wrong, Diagnostics& diagnostics)
      : source_(source), file_(file), wrong_(std::move(wrong)), diagnostics_(diagnostics) {}

  void build(Experiment& out) {
    out.name = source_.has("name") ? source_["name"].string() : std::filesystem::path(file_).stem().string();
    out.seed = source_["seed"].unsigned_integer();
    const std::size_t before = diagnostics_.entries().size();
    build_cluster(out.cluster);
    cluster_known_ = !wrong_.cluster && diagnostics_.entries().size() == before;
    build_memory(out.cluster);
    for (const Model& m : known_models()) models_[m.name] = m;
    build_models();
    if (cluster_known_ && source_.has("failures")) build_failures(out.cluster);
    if (source_.has("workload") && source_["workload"].has("kind")) build_workload(out);
  }

 private:
  void error(const Value& at, std::string text) { diagnostics_.error(at.mark(), std::move(text)); }

  void build_cluster(ClusterOptions& c) {
    const Value& f = source_["fabric"];
    c.fabric = {count_of(f, "pods"),
                count_of(f, "leaves"),
                count_of(f, "spines"),
                count_of(f, "gpus_per_leaf"),
                count_of(f, "cores_per_spine"),
                static_cast<std::uint32_t>(std::llround(f["link_gbps"].number() * 1000)),
                f["payload_ratio"].number()};
    constexpr std::uint64_t kMostGpus = 1 << 18;
    const std::uint64_t gpus = std::uint64_t{c.fabric.pods} * c.fabric.leaves * c.fabric.gpus_per_leaf;
    if (gpus > kMostGpus && !wrong_.cluster) {
      error(f["pods"], "pods: " + std::to_string(gpus) + " GPUs, at most " + std::to_string(kMostGpus));
    }
    c.hop_ns = f["hop_ns"].unsigned_integer();
    c.count_latency = f["latency"].boolean();
    const std::string& paths = f["paths"].string();
    c.paths = paths == "balanced" ? Paths::balanced : paths == "ecmp" ? Paths::ecmp : Paths::spray;
    c.ring_sends_twice = f["ring_volume"].string() == "twice";
    if (source_.has("scale_up")) {
      const Value& s = source_["scale_up"];
      c.scale_up = {count_of(s, "gpus"), s["gbps"].number() / 8, s["in_network"].boolean()};
      if (c.fabric.gpus_per_leaf % c.scale_up.gpus != 0 && !wrong_.cluster) {
        error(s["gpus"], "gpus: servers of " + std::to_string(c.scale_up.gpus) + " do not fill a leaf's " +
                             std::to_string(c.fabric.gpus_per_leaf));
      }
    }
    const std::string& policy = source_["policy"].string();
    c.policy = policy == "ring" ? std::nullopt : inc::policy::policy_kind_from(policy);
    const Value& a = source_["admission"];
    c.admission = {count_of(a, "least_hosts"),
                   static_cast<std::uint32_t>(std::llround(a["local_share"].number() * 1000)),
                   static_cast<std::uint32_t>(std::llround(a["shared_duty"].number() * 1000)),
                   a["together"].boolean(),
                   a["ask_again"].boolean(),
                   a["moments"].boolean(),
                   a["patience"].number()};
    c.stagger = source_["stagger"].boolean();
    c.closed_form = source_["closed_form"].boolean();
    c.placement = source_["placement"].string() == "packed" ? Placement::packed : Placement::random;
    c.seed = source_["seed"].unsigned_integer();
  }

  void build_memory(ClusterOptions& c) {
    const Value& m = source_["memory"];
    if (m.has("units") && m.has("mb")) error(m["mb"], "mb: there are units already");
    if (!m.has("mb")) {
      constexpr std::uint64_t kUnits = 8;
      c.memory = memory_in_units(m.has("units") ? m["units"].unsigned_integer() : kUnits, c.fabric, c.hop_ns);
      return;
    }
    inc::manager::GroupOptions group;
    group.mtu = count_of(m, "mtu");
    group.message_packets = count_of(m, "message_packets");
    group.window = count_of(m, "window");
    group.least_window = count_of(m, "least_window");
    if (group.least_window > group.window && !wrong_.memory) error(m["least_window"], "least_window: more than window");
    c.memory = {static_cast<std::uint64_t>(m["mb"].number() * 1e6), inc::manager::memory_demand(group)};
  }

  void build_failures(ClusterOptions& c) {
    const inc::policy::Topology topology = Fabric(c.fabric).topology({});
    const Value::List& failures = source_["failures"].list();
    for (std::size_t i = 0; i < failures.size(); ++i) {
      if (wrong_.failures.contains(i)) continue;
      const Value& f = failures[i];
      const std::size_t before = diagnostics_.entries().size();
      const auto from = static_cast<TimeNs>(std::llround(f["at_s"].number() * kNs));
      const TimeNs to = from + static_cast<TimeNs>(std::llround(f["for_s"].number() * kNs));
      if (f.has("switch") == f.has("link")) {
        error(f, "failures: either a switch or a link");
      } else if (f.has("switch")) {
        const inc::policy::NodeId node = topology.find(f["switch"].string());
        if (node != inc::policy::kNoNode && topology.node(node).is_switch) {
          c.failures.push_back(failure_of(topology, node, from, to));
        } else {
          error(f["switch"], "switch: there is no switch " + config::quote(f["switch"].string()));
        }
      } else if (const auto link = link_of(topology, f["link"].string())) {
        c.failures.push_back({{*link}, std::nullopt, from, to});
      } else {
        error(f["link"], "link: there is no link " + config::quote(f["link"].string()));
      }
      if (diagnostics_.entries().size() == before) check_connected(f, topology, c);
    }
  }

  static std::optional<inc::policy::LinkId> link_of(const inc::policy::Topology& topology, const std::string& name) {
    for (inc::policy::LinkId link = 0; link < topology.links().size(); ++link) {
      if (topology.link_name(link) == name) return link;
    }
    return std::nullopt;
  }

  /// At each moment of the last failure at which something goes down, with all that is down then.
  void check_connected(const Value& at, const inc::policy::Topology& topology, const ClusterOptions& c) {
    const Failure& last = c.failures.back();
    for (const inc::policy::LinkId link : last.links) {
      const inc::policy::Node& host = topology.node(topology.link(link).lower);
      if (!host.is_switch) return error(at, "failures: that would cut " + host.name + " off");
    }
    // Another failure that begins while this one lasts has this one among those before it.
    for (const Failure& moment : c.failures) {
      if (moment.from < last.from || moment.from >= last.to) continue;
      Fabric fabric(c.fabric);
      for (const Failure& f : c.failures) {
        if (f.from > moment.from || f.to <= moment.from) continue;
        for (const inc::policy::LinkId link : f.links) fabric.set_link_up(link, false);
      }
      const auto cut = fabric.cut_off();
      if (!cut) continue;
      return error(at, "failures: nothing would connect leaf" + std::to_string(cut->first) + " and leaf" +
                           std::to_string(cut->second) + " any more");
    }
  }

  void build_models() {
    if (!source_.has("models")) return;
    for (const auto& [name, v] : source_["models"].map()) {
      if (wrong_.models.contains(name)) continue;
      auto m = model_from(name, v);
      if (!m) {
        wrong_.models.insert(name);
        continue;
      }
      // What a division has nothing to do with.
      const std::vector<std::string> mistakes = mistakes_of(*m, Division{});
      for (const std::string& mistake : mistakes) error(v, name + ": " + mistake);
      if (mistakes.empty())
        models_[name] = *m;
      else
        wrong_.models.insert(name);
    }
  }

  /// Of a built-in model, or of none, with what the file says. nullopt, with a diagnostic, when something is missing.
  std::optional<Model> model_from(const std::string& name, const Value& v) {
    Model m;
    m.gpu_flops = kGpuFlops;
    m.batch = kBatch;
    if (v.has("base")) {
      std::vector<std::string> known;
      for (const Model& base : known_models()) {
        known.push_back(base.name);
        if (base.name == v["base"].string()) m = base;
      }
      if (m.name.empty()) {
        error(v["base"], "base: there is no built-in model " + config::quote(v["base"].string()) +
                             config::suggestion(v["base"].string(), known));
        return std::nullopt;
      }
    } else {
      bool whole = true;
      for (const char* key : {"layers", "hidden", "parameters", "sequence"}) {
        if (v.has(key)) continue;
        error(v, name + ": missing key '" + key + "', as there is no base");
        whole = false;
      }
      if (!whole) return std::nullopt;
    }
    m.name = name;
    const auto set = [&](const char* key, std::uint32_t& what) {
      if (v.has(key)) what = count_of(v, key);
    };
    set("layers", m.layers);
    set("hidden", m.hidden);
    set("sequence", m.sequence);
    set("batch", m.batch);
    set("activation_bytes", m.activation_bytes);
    set("gradient_bytes", m.gradient_bytes);
    if (v.has("parameters")) m.parameters = v["parameters"].number();
    if (v.has("gpu_tflops")) m.gpu_flops = v["gpu_tflops"].number() * 1e12;
    if (v.has("efficiency")) m.efficiency = v["efficiency"].number();
    return m;
  }

  /// nullptr when there is no such model, or when something is wrong about it, which has been said.
  const Model* model_of(const Value& workload) {
    if (!workload.has("model") || wrong_.models.contains(workload["model"].string())) return nullptr;
    const auto at = models_.find(workload["model"].string());
    if (at != models_.end()) return &at->second;
    std::vector<std::string> known;
    for (const auto& [name, model] : models_) known.push_back(name);
    error(workload["model"], "model: unknown model " + config::quote(workload["model"].string()) +
                                 config::suggestion(workload["model"].string(), known));
    return nullptr;
  }

  void build_workload(Experiment& out) {
    const Value& w = source_["workload"];
    const std::string& kind = w["kind"].string();
    if (kind == "jobs") {
      if (w.has("jobs")) build_jobs(w["jobs"].list(), out);
    } else {
      const Model* model = model_of(w);
      if (kind == "csv") build_csv(w, model, out);
      if (kind == "trace1" && model != nullptr && !wrong_.workload) build_trace1(w, *model, out);
    }
    std::stable_sort(out.jobs.begin(), out.jobs.end(),
                     [](const NamedJob& a, const NamedJob& b) { return a.arrival_ns < b.arrival_ns; });
  }

  /// Whether a job can be divided as that says, and has enough GPUs and time.
  bool fits(const Mark& at, const Model& model, const Division& d, const Experiment& out) {
    const std::vector<std::string> mistakes = mistakes_of(model, d);
    for (const std::string& mistake : mistakes) diagnostics_.error(at, model.name + ": " + mistake);
    if (!cluster_known_) return mistakes.empty();
    const std::uint64_t ranks = std::uint64_t{d.tp} * d.dp * d.pp;
    if (ranks > out.cluster.fabric.gpus()) {
      diagnostics_.error(at, model.name + ": " + std::to_string(ranks) + " GPUs, and the cluster has " +
                                 std::to_string(out.cluster.fabric.gpus()));
      return false;
    }
    return mistakes.empty() && takes_time(at, model, d, out);
  }

  /// Whether an iteration takes a time that can be counted in nanoseconds.
  bool takes_time(const Mark& at, const Model& model, const Division& d, const Experiment& out) {
    if (least_ns(model, d, out) == 0) {
      diagnostics_.error(
          at, model.name + ": an iteration takes less than a nanosecond; it needs more to compute or to send");
      return false;
    }
    return ends(at, model, d, 1, out);
  }

  bool ends(const Mark& at, const Model& model, const Division& d, std::uint32_t iterations, const Experiment& out) {
    const double each = least_ns(model, d, out) / kNs;
    if (each * iterations <= kLongestS) return true;
    diagnostics_.error(at, model.name + ": " + std::to_string(iterations) + " iteration" +
                               (iterations == 1 ? "" : "s") + " of " + seconds_text(each) +
                               " s or more; a job may take " + seconds_text(kLongestS) + " s");
    return false;
  }

  double least_ns(const Model& model, const Division& d, const Experiment& out) {
    const ClusterOptions& c = out.cluster;
    double rate = c.fabric.link_mbps / 8000.0 * c.fabric.payload_ratio;
    if (c.scale_up.gpus > 1) rate = std::max(rate, c.scale_up.bytes_per_ns);
    auto& known = least_[{model.name, d.tp, d.dp, d.pp, d.micro_batches}];
    if (known == std::nullopt) known = least_iteration_ns(model, d, rate);
    return *known;
  }

  void build_jobs(const Value::List& jobs, Experiment& out) {
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      if (wrong_.jobs.contains(i)) continue;
      const Value& j = jobs[i];
      const Model* model = model_of(j);
      const Division d{count_of(j, "tp"), count_of(j, "dp"), count_of(j, "pp"), count_of(j, "micro_batches")};
      if (model == nullptr || !fits(j.mark(), *model, d, out)) continue;
      if (cluster_known_ && !ends(j.mark(), *model, d, count_of(j, "iterations"), out)) continue;
      NamedJob job{model->name, *model, d, count_of(j, "iterations"),
                   static_cast<TimeNs>(std::llround(j["arrival_s"].number() * kNs))};
      out.jobs.insert(out.jobs.end(), count_of(j, "count"), job);
    }
  }

  /// A job of a trace; nullopt, with a diagnostic, when it does not fit.
  std::optional<NamedJob> trace_job(const Mark& at, const Model& model, std::uint32_t gpus, const Experiment& out) {
    NamedJob job{model.name + " on " + std::to_string(gpus), model, division_of(gpus), 1, 0};
    job.model.batch = kSequencesOfReplica * job.division.dp;
    if (!fits(at, job.model, job.division, out)) return std::nullopt;
    return job;
  }

  TimeNs alone(const NamedJob& job, const Experiment& out) {
    auto& known = alone_[job.division.ranks()];
    if (known == 0) known = iteration_alone(out.cluster, job.model, job.division);
    return known;
  }

  /// GPU-seconds that the jobs take alone, over those that the cluster has a second. nullopt when that is too long.
  std::optional<double> span_s(const Value& w, Experiment& out) {
    double work = 0;
    for (const NamedJob& job : out.jobs) {
      work += static_cast<double>(alone(job, out)) * job.iterations / kNs * job.division.ranks();
    }
    const double span = work / (out.cluster.fabric.gpus() * w["busy"].number());
    if (span <= kLongestS) return span;
    error(w["busy"],
          "busy: arrivals would spread over " + seconds_text(span) + " s; at most " + seconds_text(kLongestS));
    return std::nullopt;
  }

  void build_trace1(const Value& w, const Model& model, Experiment& out) {
    for (const std::uint32_t gpus : trace1_sizes(count_of(w, "jobs"), out.seed)) {
      auto job = trace_job(w["kind"].mark(), model, gpus, out);
      if (!job || !cluster_known_) return;
      job->iterations = count_of(w, "iterations");
      if (!ends(w["kind"].mark(), job->model, job->division, job->iterations, out)) return;
      out.jobs.push_back(std::move(*job));
    }
    if (!diagnostics_.ok()) return;
    // Arrivals of a Poisson process, which has no memory: the times between them are exponential.
    Rng rng(out.seed + 1);
    const auto span = span_s(w, out);
    if (!span) return;
    const double mean = *span / static_cast<double>(out.jobs.size());
    double at = 0;
    for (NamedJob& job : out.jobs) {
      job.arrival_ns = static_cast<TimeNs>(at * kNs);
      const double uniform = (static_cast<double>(rng.next() >> 11) + 0.5) / static_cast<double>(1ull << 53);
      at -= mean * std::log(uniform);
    }
  }

  /// @param model  nullptr when it is not known: then only the file is looked at
  void build_csv(const Value& w, const Model* model, Experiment& out) {
    if (!w.has("file")) return;
    const auto path = std::filesystem::path(file_).parent_path() / w["file"].string();
    const auto text = experiment::read_text(path.string());
    if (!text) return error(w["file"], "file: cannot read " + path.string() + ": " + std::strerror(errno));
    auto trace = read_trace(*text, path.string(), count_of(w, "jobs"), diagnostics_);
    if (trace.empty()) return;
    std::erase_if(trace, [&](const TraceJob& t) { return t.gpus < count_of(w, "least_gpus"); });
    if (trace.empty()) return error(w["least_gpus"], "least_gpus: no job of " + path.string() + " has as many");
    const auto by_size = trace_jobs(path.string(), trace, model, out);
    if (!diagnostics_.ok()) return;
    for (const TraceJob& t : trace) {
      NamedJob job = *by_size.at(t.gpus);
      const double iterations = w.has("iterations")
                                    ? w["iterations"].number()
                                    : std::round(t.duration_s * kNs / static_cast<double>(alone(job, out)));
      job.iterations = static_cast<std::uint32_t>(std::clamp(iterations, 1.0, w["most_iterations"].number()));
      if (!ends(w["file"].mark(), job.model, job.division, job.iterations, out)) return;
      job.arrival_ns = static_cast<TimeNs>((t.submission_s - trace.front().submission_s) * kNs);
      out.jobs.push_back(std::move(job));
    }
    const double published = trace.back().submission_s - trace.front().submission_s;
    if (published <= 0) return;
    const auto span = span_s(w, out);
    if (!span) return;
    out.arrival_factor = *span / published;
    for (NamedJob& job : out.jobs) {
      job.arrival_ns = static_cast<TimeNs>(static_cast<double>(job.arrival_ns) * out.arrival_factor);
    }
  }

  /// Jobs of a trace by their sizes. Every line with too many GPUs is reported, and whatever else is wrong with a size
  /// once: at its first line.
  std::map<std::uint32_t, std::optional<NamedJob>> trace_jobs(const std::string& path,
                                                              const std::vector<TraceJob>& trace, const Model* model,
                                                              const Experiment& out) {
    std::map<std::uint32_t, std::optional<NamedJob>> by_size;
    for (const TraceJob& t : trace) {
      const Mark at{path, t.line, t.column};
      if (cluster_known_ && t.gpus > out.cluster.fabric.gpus()) {
        diagnostics_.error(at, "num_gpu: " + std::to_string(t.gpus) + " GPUs, and the cluster has " +
                                   std::to_string(out.cluster.fabric.gpus()));
      } else if (model != nullptr && !by_size.contains(t.gpus)) {
        by_size[t.gpus] = trace_job(at, *model, t.gpus, out);
      }
    }
    return by_size;
  }

  const Value& source_;
  const std::string& file_;
  Mistakes wrong_;
  bool cluster_known_ = false;  ///< its size and its rates
  Diagnostics& diagnostics_;
  std::map<std::string, Model> models_;
  using Divided = std::tuple<std::string, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;
  std::map<Divided, std::optional<double>> least_;  ///< of an iteration, ns
  std::map<std::uint32_t, TimeNs> alone_;           ///< of an iteration, by size
};

}  // namespace

std::optional<Experiment> load_experiment(std::string_view text, const std::string& file,
                                          const std::vector<experiment::Override>& overrides,
                                          Diagnostics& diagnostics) {
  auto document = config::read_yaml(text, file, diagnostics);
  if (!document) return std::nullopt;
  for (const experiment::Override& change : overrides) experiment::apply(change, *document, diagnostics);
  Experiment out;
  out.source = config::validate(experiment_schema(), *document, "", nullptr, diagnostics);
  if (out.source.is_map()) Builder(out.source, file, mistakes_in(*document), diagnostics).build(out);
  if (!diagnostics.ok()) return std::nullopt;
  return out;
}

std::vector<Job> jobs_of(const Experiment& experiment) {
  using Key = std::tuple<std::string, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;
  std::map<Key, std::shared_ptr<const JobPlan>> plans;
  std::vector<Job> jobs;
  for (const NamedJob& job : experiment.jobs) {
    const Division& d = job.division;
    auto& plan = plans[{job.name, d.tp, d.dp, d.pp, d.micro_batches, job.iterations}];
    if (!plan) plan = std::make_shared<const JobPlan>(plan_of(job.model, d, job.iterations));
    jobs.push_back({plan, job.arrival_ns});
  }
  return jobs;
}

}  // namespace weft::flow
