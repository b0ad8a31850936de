// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The backend "weft" of torch.distributed (PyTorch 1.13): a process group is a group of libweftinc. Collectives of
// tensors in the host's memory are the switches', or the hosts' where switches have no part of the group.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "collectives/torch/runner.h"

namespace weft::inc::pytorch {

/// What libweftinc has no primitive for (gather, scatter, alltoall, send, recv) raises PyTorch's own error.
class ProcessGroupWeft final : public ::c10d::ProcessGroup {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Pending = c10::intrusive_ptr<::c10d::Work>;

  /// Meets the other ranks in the store, and connects with them: collective.
  /// @param timeout  of this, and of each collective that has none of its own
  /// @throws std::runtime_error  a rank has no RNIC, or does not reach the others; or the group has to have switches
  ///                             (WEFT_TORCH_BACKEND), and gets none
  ProcessGroupWeft(const c10::intrusive_ptr<::c10d::Store>& store, int rank, int size,
                   std::chrono::milliseconds timeout);
  ~ProcessGroupWeft() override;

  const std::string getBackendName() const override { return "weft"; }

  /// In place. Integers and bool: all operations of PyTorch but AVG; floats: SUM, PRODUCT, MIN and MAX.
  Pending allreduce(Tensors& tensors, const ::c10d::AllreduceOptions& options) override;
  /// In place at the root; other ranks keep what they gave.
  Pending reduce(Tensors& tensors, const ::c10d::ReduceOptions& options) override;
  Pending broadcast(Tensors& tensors, const ::c10d::BroadcastOptions& options) override;
  Pending barrier(const ::c10d::BarrierOptions& options) override;
  Pending allgather(std::vector<Tensors>& outputs, Tensors& inputs, const ::c10d::AllgatherOptions& options) override;
  Pending _allgather_base(at::Tensor& output, at::Tensor& input, const ::c10d::AllgatherOptions& options) override;
  Pending reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const ::c10d::ReduceScatterOptions& options) override;
  Pending _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const ::c10d::ReduceScatterOptions& options) override;

  /// As of the last collective that is over: whether the group has switches, and who ran what.
  [[nodiscard]] weft_inc_group_info info() const { return runner_->info(); }

 private:
  Pending submit(Plan plan, std::chrono::milliseconds timeout);
  Pending scatter_sums(Plan plan, const at::Tensor& all, const at::Tensor& mine, const ::c10d::ReduceOp& op,
                       std::chrono::milliseconds timeout);

  const std::chrono::milliseconds timeout_;
  std::shared_ptr<weft_inc_context> context_;
  std::unique_ptr<Runner> runner_;
};

}  // namespace weft::inc::pytorch
