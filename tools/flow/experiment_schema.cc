// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <algorithm>

#include "switch/config/schema/validate.h"
#include "tools/flow/experiment.h"
#include "tools/flow/experiment_mistakes.h"

namespace weft::flow {
namespace {

using config::Schema;
using config::Value;
using Key = Schema::Key;

constexpr std::int64_t kMany = 1 << 20;

Schema fabric_schema() {
  return Schema::map({
      Key::with_default("pods", Schema::integer(1, 1024), Value(4), "Groups of leaves and spines."),
      Key::with_default("leaves", Schema::integer(1, 64), Value(4), "Leaf switches of a pod."),
      Key::with_default("spines", Schema::integer(1, 64), Value(4), "Spine switches of a pod."),
      Key::with_default("gpus_per_leaf", Schema::integer(1, 64), Value(8), "GPUs of a leaf, each with a link."),
      Key::with_default("cores_per_spine", Schema::integer(1, 64), Value(4),
                        "Core switches of a spine; spines of one number in all pods share them."),
      Key::with_default("link_gbps", Schema::number(0.001, 1600), Value(100), "Rate of every link, Gbit/s."),
      Key::with_default("payload_ratio", Schema::number(0.01, 1), Value(1.0), "Payload per byte on a link."),
      Key::with_default("hop_ns", Schema::integer(1, 10'000'000), Value(1000),
                        "From one node to the next, with the time in the switch."),
      Key::with_default("latency", Schema::boolean(), Value(true),
                        "Whether collectives take the hops of their first bytes; no: bytes alone."),
      Key::with_default("paths", Schema::one_of({"balanced", "ecmp", "spray"}), Value("balanced"),
                        "Which shortest way flows of rings take: that with the fewest flows, one by a hash, or all."),
      Key::with_default("ring_volume", Schema::one_of({"exact", "twice"}), Value("exact"),
                        "What a ring of n sends for a byte: 2 (n - 1) / n bytes, or two, as EPIC counts."),
  });
}

Schema memory_schema() {
  return Schema::map({
      Key::optional_key("units", Schema::integer(1, kMany),
                        "Groups that a switch has memory for, each enough for the full rate. Default: 8."),
      Key::optional_key("mb", Schema::number(0.001, 1e6), "Memory of a switch for groups instead, 10^6 bytes."),
      Key::with_default("window", Schema::integer(1, 4096), Value(8), "Of mb: messages that a group asks for."),
      Key::with_default("least_window", Schema::integer(1, 4096), Value(1), "Of mb: messages that are of use."),
      Key::with_default("message_packets", Schema::integer(1, 4096), Value(16), "Of mb: packets of a message."),
      Key::with_default("mtu", Schema::integer(256, 4096), Value(1024), "Of mb: bytes of a packet."),
  });
}

Schema admission_schema() {
  return Schema::map({
      Key::with_default("least_hosts", Schema::integer(2, 64), Value(2),
                        "Groups of fewer hosts get no tree; in a ring of two each sends as much as over a tree."),
      Key::with_default("local_share", Schema::number(0, 1), Value(0.0),
                        "Of a leaf's memory: kept for groups that need no other switch."),
      Key::with_default("shared_duty", Schema::number(0, 1), Value(1.0),
                        "temporal: blocks of groups that do not take turns are busy for at most so much of the time."),
      Key::with_default("together", Schema::boolean(), Value(false),
                        "Tensor groups of a job, and data groups, get trees all or none."),
      Key::with_default("ask_again", Schema::boolean(), Value(false),
                        "Groups without a tree ask for one when a job ends that had memory at one of their leaves."),
      Key::with_default("moments", Schema::boolean(), Value(false),
                        "temporal: tensor groups of a job share no memory with each other, nor do data groups, as they "
                        "communicate at the same time."),
      Key::with_default("patience", Schema::number(0, 100), Value(0.0),
                        "temporal: a group whose memory is locked waits for it, if it will be done before its ring "
                        "would be so many times over; 0: it never waits."),
  });
}

Schema model_schema() {
  return Schema::map({
      Key::optional_key("base", Schema::string(),
                        "A built-in model, of which it has all that is not said here; without one, the next four keys "
                        "are needed."),
      Key::optional_key("layers", Schema::integer(1, 4096), "Layers."),
      Key::optional_key("hidden", Schema::integer(1, kMany), "Size of a token's activations."),
      Key::optional_key("parameters", Schema::number(0, 1e15), "All of them, as 13e9."),
      Key::optional_key("sequence", Schema::integer(1, kMany), "Tokens of a sequence."),
      Key::optional_key("batch", Schema::integer(1, kMany),
                        "Sequences of an iteration, of all replicas; without a base 128. Traces have 8 for each "
                        "replica instead."),
      Key::optional_key("activation_bytes", Schema::integer(1, 8), "Of an element; without a base 2."),
      Key::optional_key("gradient_bytes", Schema::integer(1, 8), "Of an element; without a base 2."),
      Key::optional_key("gpu_tflops", Schema::number(0, 1e6), "Of a GPU, 10^12 a second; without a base 312."),
      Key::optional_key("efficiency", Schema::number(0, 1), "Of these, what training reaches; without a base 1."),
  });
}

std::vector<Key> trace_keys(std::vector<Key> more) {
  std::vector<Key> keys{
      Key::required_key("model", Schema::string(), "Model that all jobs train."),
      Key::with_default("busy", Schema::number(0.01, 10), Value(0.8),
                        "Share of the GPUs that jobs would keep busy, if each took as long as it does alone in rings."),
  };
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

Schema scale_up_schema() {
  return Schema::map({
      Key::with_default("gpus", Schema::integer(2, 64), Value(8), "GPUs of a server."),
      Key::with_default("gbps", Schema::number(1, 1e6), Value(7200),
                        "Rate of a GPU inside of its server, each direction, Gbit/s."),
      Key::with_default("in_network", Schema::boolean(), Value(false),
                        "Whether a server's own switch adds up, under every policy: its GPUs send a vector once and "
                        "receive the sum, in place of a ring."),
  });
}

Schema failure_schema() {
  return Schema::map({
      Key::optional_key("switch", Schema::string(), "As \"spine3\" or \"core0\"."),
      Key::optional_key("link", Schema::string(), "Instead, as \"leaf0 - spine1\"."),
      Key::required_key("at_s", Schema::number(0, 1e9), "When it goes down."),
      Key::required_key("for_s", Schema::number(1e-9, 1e9), "How long."),
  });
}

Schema job_schema() {
  return Schema::map({
      Key::required_key("model", Schema::string(), "Name of a model."),
      Key::with_default("tp", Schema::integer(0, kMany), Value(8), "GPUs that share each layer."),
      Key::with_default("dp", Schema::integer(0, kMany), Value(1), "Replicas."),
      Key::with_default("pp", Schema::integer(0, kMany), Value(1), "Stages of layers."),
      Key::with_default("micro_batches", Schema::integer(0, kMany), Value(1), "Of an iteration and replica."),
      Key::with_default("iterations", Schema::integer(1, 1'000'000'000), Value(1), "Iterations."),
      Key::with_default("arrival_s", Schema::number(0, 1e9), Value(0.0), "When it comes."),
      Key::with_default("count", Schema::integer(1, kMany), Value(1), "Jobs like this one."),
  });
}

Schema workload_schema() {
  return Schema::tagged(
      "kind",
      {{"jobs", Schema::map({Key::required_key("jobs", Schema::list(job_schema(), 1), "Jobs.")})},
       {"trace1", Schema::map(trace_keys({
                      Key::with_default("jobs", Schema::integer(1, kMany), Value(1000),
                                        "Jobs of 8, 16, 32, 64 and 128 GPUs: 30, 30, 25, 10 and 5 %."),
                      Key::with_default("iterations", Schema::integer(1, kMany), Value(400), "Of each."),
                  }))},
       {"csv", Schema::map(trace_keys({
                   Key::required_key("file", Schema::string(),
                                     "Columns job_id, submission_time and duration in seconds, num_gpu."),
                   Key::with_default("jobs", Schema::integer(1, kMany), Value(1000), "The first so many of the file."),
                   Key::with_default("least_gpus", Schema::integer(1, kMany), Value(1),
                                     "Of these, jobs with fewer GPUs are left out."),
                   Key::optional_key("iterations", Schema::integer(1, kMany),
                                     "Of each job; default: as many as its duration alone in rings has."),
                   Key::with_default("most_iterations", Schema::integer(1, 1'000'000'000), Value(1'000'000'000),
                                     "Longer jobs end after as many."),
               }))}});
}

const config::DocumentNode* child_of(const config::DocumentNode& map, std::string_view key) {
  const auto at = std::find_if(map.entries.begin(), map.entries.end(), [&](const auto& e) { return e.key == key; });
  return at == map.entries.end() ? nullptr : &at->value;
}

/// What is not there is fine.
bool fine(const Schema& schema, const config::DocumentNode* node) {
  if (node == nullptr) return true;
  config::Diagnostics diagnostics;
  static_cast<void>(config::validate(schema, *node, "", nullptr, diagnostics));
  return diagnostics.ok();
}

std::set<std::size_t> wrong_items(const Schema& schema, const config::DocumentNode* list) {
  std::set<std::size_t> out;
  for (std::size_t i = 0; list != nullptr && i < list->items.size(); ++i) {
    if (!fine(schema, &list->items[i])) out.insert(i);
  }
  return out;
}

}  // namespace

Mistakes mistakes_in(const config::DocumentNode& document) {
  Mistakes out;
  out.cluster =
      !fine(fabric_schema(), child_of(document, "fabric")) || !fine(scale_up_schema(), child_of(document, "scale_up"));
  out.memory = !fine(memory_schema(), child_of(document, "memory"));
  if (const auto* models = child_of(document, "models")) {
    for (const auto& model : models->entries) {
      if (!fine(model_schema(), &model.value)) out.models.insert(model.key);
    }
  }
  out.failures = wrong_items(failure_schema(), child_of(document, "failures"));
  if (const auto* workload = child_of(document, "workload")) {
    out.workload = !fine(workload_schema(), workload);
    out.jobs = wrong_items(job_schema(), child_of(*workload, "jobs"));
  }
  return out;
}

Schema experiment_schema() {
  const Schema values = Schema::dictionary(
      Schema::list(Schema::either(Schema::text(), Schema::either(Schema::number(-1e18, 1e18), Schema::boolean()))));
  return Schema::map({
      Key::optional_key("name", Schema::string(), "Title of reports; default: the name of the file."),
      Key::with_default("fabric", fabric_schema(), Value(Value::Map{}), "A three-tier fat tree."),
      Key::optional_key("scale_up", scale_up_schema(),
                        "Servers whose GPUs do not need the fabric between each other; default: none."),
      Key::with_default("policy", Schema::one_of({"ring", "edge_disjoint", "spatial", "temporal"}), Value("spatial"),
                        "ring: no group is added up by switches; edge_disjoint and spatial: trees as weft-inc-manager "
                        "gives them; temporal: by the same code, with locks, which the manager does not have."),
      Key::with_default("memory", memory_schema(), Value(Value::Map{}), "What a switch holds for groups."),
      Key::with_default("admission", admission_schema(), Value(Value::Map{}), "Who gets a tree, beyond the policy."),
      Key::with_default("stagger", Schema::boolean(), Value(true),
                        "temporal: whether the policy learns which groups are of one job, and its period."),
      Key::with_default("placement", Schema::one_of({"packed", "random"}), Value("packed"),
                        "Jobs get the free servers with the lowest numbers, or any."),
      Key::optional_key(
          "models", Schema::dictionary(model_schema()),
          "Models besides gpt3-175b, gpt3-13b, llama-65b and llama-7b, which are as EPIC's tables have them: "
          "elements of 4 bytes, and GPUs that reach all of 312 TFLOPS."),
      Key::required_key("workload", workload_schema(), "Jobs."),
      Key::optional_key("failures", Schema::list(failure_schema()),
                        "What goes down and comes back. Something must always connect all leaves."),
      Key::with_default("closed_form", Schema::boolean(), Value(true),
                        "Whether iterations that are all the same are taken at once. The results are the same."),
      Key::with_default("seed", Schema::integer(0, INT64_MAX), Value(1), "Of all random sources."),
      Key::optional_key("sweep", Schema::either(values, Schema::list(values, 1)),
                        "weft-flow sweep: keys and the values that each takes, of which every combination is run; or "
                        "a list of such maps, one after the other."),
  });
}

}  // namespace weft::flow
