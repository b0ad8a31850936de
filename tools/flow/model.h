// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What an iteration of 3D-parallel training computes and sends (Megatron-LM, Narayanan et al., SC 2021): from the model
// and how it is divided follow the groups, the volumes and the order of their collectives.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/flow/plan.h"

namespace weft::flow {

struct Model {
  std::string name;
  std::uint32_t layers = 1;
  std::uint32_t hidden = 1;                                ///< size of a token's activations
  double parameters = 0;                                   ///< all of them
  std::uint32_t sequence = 1;                              ///< tokens
  std::uint32_t batch = 1;                                 ///< sequences of an iteration, of all replicas together
  std::uint32_t activation_bytes = 2, gradient_bytes = 2;  ///< of an element
  double gpu_flops = 0;                                    ///< a second
  double efficiency = 1;                                   ///< of these, what training reaches
};

/// How a model is divided. Rank numbers go through tensor groups first, then replicas, then stages.
struct Division {
  std::uint32_t tp = 1;             ///< GPUs that share each layer
  std::uint32_t dp = 1;             ///< replicas
  std::uint32_t pp = 1;             ///< stages of layers
  std::uint32_t micro_batches = 1;  ///< of an iteration, that go through the stages one after the other

  [[nodiscard]] std::uint32_t ranks() const noexcept { return tp * dp * pp; }
};

/// Sentences about what does not fit; empty when all does.
[[nodiscard]] std::vector<std::string> mistakes_of(const Model& model, const Division& division);

/// For a model and a division without mistakes, of a number of iterations.
///   compute    6 * parameters * tokens FLOPs (Kaplan et al. 2020): a third forward, the rest backward
///   tensor     4 AllReduces of sequence * hidden activations for each sequence and layer: two forward, two backward
///   pipeline   activations go to the next stage and gradients come back, for each micro-batch: divided by tp
///   data       an AllReduce of the gradients of each GPU's parameters
/// All stages work on a micro-batch each; before the first and after the last has gone through, some have none.
[[nodiscard]] JobPlan plan_of(const Model& model, const Division& division, std::uint32_t iterations);

/// How long an iteration computes, in nanoseconds before they are rounded: what each GPU does, and what it waits while
/// the pipeline fills and empties. For a model and a division without mistakes; infinite where GPUs do next to nothing.
[[nodiscard]] double compute_ns(const Model& model, const Division& division);

/// The plan for people: groups, phases with times and bytes, and sums.
[[nodiscard]] std::string explain(const Model& model, const Division& division, const JobPlan& plan);

/// Models of EPIC's Tables 33 and 36 to 43, by name: "gpt3-175b", "gpt3-13b", "llama-65b", "llama-7b".
[[nodiscard]] const std::vector<Model>& known_models();

}  // namespace weft::flow
