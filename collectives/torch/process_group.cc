// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/torch/process_group.h"

#include <ATen/ATen.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

#include "collectives/torch/settings.h"

namespace weft::inc::pytorch {
namespace {

using ::c10d::OpType;
using ::c10d::ReduceOp;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using GroupPointer = std::unique_ptr<weft_inc_group, decltype(&weft_inc_group_destroy)>;

// --- How ranks meet -------------------------------------------------------------------------------------------------

/// What a rank leaves in the store: its handle, or why it has none. Its first byte says which.
constexpr std::uint8_t kHandle = 1, kError = 0;

std::string key_of(int rank) {
  return "weft/" + std::to_string(rank);
}

void leave(::c10d::Store& store, int rank, std::uint8_t kind, std::string_view bytes) {
  std::vector<std::uint8_t> value(1 + bytes.size());
  value[0] = kind;
  std::copy(bytes.begin(), bytes.end(), value.begin() + 1);
  store.set(key_of(rank), value);
}

std::vector<weft_inc_handle> read_handles(::c10d::Store& store, int size, milliseconds timeout) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < size; ++rank) keys.push_back(key_of(rank));
  store.wait(keys, timeout);
  std::vector<weft_inc_handle> handles;
  for (const std::string& key : keys) {
    const std::vector<std::uint8_t> value = store.get(key);
    weft_inc_handle handle;
    if (value.size() != 1 + sizeof handle.bytes || value[0] != kHandle) {
      const bool says_why = !value.empty() && value[0] == kError;
      throw std::runtime_error("weft: rank " + std::to_string(handles.size()) + " has no group: " +
                               (says_why ? std::string(value.begin() + 1, value.end()) : "it runs another version"));
    }
    std::copy(value.begin() + 1, value.end(), handle.bytes);
    handles.push_back(handle);
  }
  return handles;
}

GroupPointer make_group(weft_inc_context* context, int rank, int size, weft_inc_handle& handle) {
  const weft_inc_group_options options = group_options(at::globalContext().deterministicAlgorithms());
  weft_inc_group* group = nullptr;
  if (weft_inc_group_create(context, &options, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(size),
                            &handle, &group) != WEFT_INC_OK) {
    throw std::runtime_error(std::string("weft: ") + weft_inc_last_error());
  }
  return {group, weft_inc_group_destroy};
}

void connect(weft_inc_group* group, const std::vector<weft_inc_handle>& handles, Clock::time_point deadline) {
  weft_inc_status status = weft_inc_group_connect(group, handles.data(), nullptr);
  while (status == WEFT_INC_OK && (status = weft_inc_group_test(group)) == WEFT_INC_AGAIN) {
    if (Clock::now() >= deadline) throw std::runtime_error("weft: the ranks have not connected in time");
    std::this_thread::sleep_for(milliseconds(1));
    status = WEFT_INC_OK;
  }
  if (status != WEFT_INC_OK) throw std::runtime_error(std::string("weft: ") + weft_inc_last_error());
}

// --- Tensors --------------------------------------------------------------------------------------------------------

const at::Tensor& only(const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(tensors.size() == 1, "weft: a rank has one tensor, not ", tensors.size());
  return tensors.front();
}

void check(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.device().is_cpu(), "weft: a tensor is on ", tensor.device(), ", and has to be on the CPU");
  TORCH_CHECK(tensor.layout() == at::kStrided, "weft: a tensor is ", tensor.layout(), ", and has to be dense");
}

/// A tensor of one row of memory: the same one where it is that already.
at::Tensor flat(const at::Tensor& tensor) {
  check(tensor);
  return tensor.detach().contiguous();
}

/// A tensor of one row of memory for what comes.
at::Tensor room(const at::Tensor& tensor) {
  check(tensor);
  return tensor.is_contiguous() ? tensor.detach() : at::empty(tensor.sizes(), tensor.options().requires_grad(false));
}

/// From one row of memory to where the program has its tensor.
std::function<void()> back_to(const at::Tensor& tensor, const at::Tensor& row) {
  if (tensor.data_ptr() == row.data_ptr()) return {};
  return [tensor, row] { tensor.copy_(row.view(tensor.sizes())); };
}

std::size_t bytes_of(const at::Tensor& tensor) {
  return static_cast<std::size_t>(tensor.nbytes());
}

std::size_t count_of(const at::Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel());
}

struct Reduction {
  weft_inc_type type;
  weft_inc_op op;
};

weft_inc_type type_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return WEFT_INC_FP32;
    case at::kDouble:
      return WEFT_INC_FP64;
    case at::kHalf:
      return WEFT_INC_FP16;
    case at::kBFloat16:
      return WEFT_INC_BF16;
    case at::kChar:
      return WEFT_INC_INT8;
    case at::kShort:
      return WEFT_INC_INT16;
    case at::kInt:
      return WEFT_INC_INT32;
    case at::kLong:
      return WEFT_INC_INT64;
    case at::kByte:
    case at::kBool:
      return WEFT_INC_UINT8;
    default:
      TORCH_CHECK(false, "weft: nobody reduces tensors of ", type);
  }
}

Reduction reduction_of(const at::Tensor& tensor, const ReduceOp& op) {
  const at::ScalarType type = tensor.scalar_type();
  const bool is_bool = type == at::kBool;
  // The sum of bools is whether one of them is true, and their product whether all are.
  switch (op.op_) {
    case ReduceOp::SUM:
      return {type_of(type), is_bool ? WEFT_INC_MAX : WEFT_INC_SUM};
    case ReduceOp::PRODUCT:
      return {type_of(type), is_bool ? WEFT_INC_MIN : WEFT_INC_PROD};
    case ReduceOp::MIN:
      return {type_of(type), WEFT_INC_MIN};
    case ReduceOp::MAX:
      return {type_of(type), WEFT_INC_MAX};
    case ReduceOp::BAND:
    case ReduceOp::BOR:
    case ReduceOp::BXOR:
      TORCH_CHECK(at::isIntegralType(type, true), "weft: BAND, BOR and BXOR are for integers, not for ", type);
      return {type_of(type), op.op_ == ReduceOp::BAND  ? WEFT_INC_BAND
                             : op.op_ == ReduceOp::BOR ? WEFT_INC_BOR
                                                       : WEFT_INC_BXOR};
    default:
      TORCH_CHECK(false, "weft: there are SUM, PRODUCT, MIN, MAX, BAND, BOR and BXOR, and no other operations");
  }
}

/// What begins the gathering of blocks of one type into one row of memory.
decltype(Plan::begin) gathers(const at::Tensor& mine, const at::Tensor& all) {
  return [mine, all](weft_inc_group* group, weft_inc_request** request) {
    return weft_inc_iallgather(group, mine.data_ptr(), all.data_ptr(), bytes_of(mine), WEFT_INC_UINT8, request);
  };
}

Plan plan_of(OpType type, const char* title, std::vector<at::Tensor> inputs, std::vector<at::Tensor> outputs) {
  Plan plan;
  plan.type = type;
  plan.title = title;
  plan.inputs = std::move(inputs);
  plan.outputs = std::move(outputs);
  return plan;
}

}  // namespace

ProcessGroupWeft::ProcessGroupWeft(const c10::intrusive_ptr<::c10d::Store>& store, int rank, int size,
                                   milliseconds timeout)
    : ProcessGroup(rank, size), timeout_(timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  weft_inc_handle mine;
  GroupPointer group(nullptr, weft_inc_group_destroy);
  try {
    context_ = shared_context();
    group = make_group(context_.get(), rank, size, mine);
  } catch (const std::exception& e) {
    // The others would wait for this rank.
    leave(*store, rank, kError, e.what());
    throw;
  }
  leave(*store, rank, kHandle, {reinterpret_cast<const char*>(mine.bytes), sizeof mine.bytes});
  connect(group.get(), read_handles(*store, size, timeout), deadline);
  runner_ = std::make_unique<Runner>(group.release());
}

ProcessGroupWeft::~ProcessGroupWeft() {
  // The runner's thread wants Python's lock where it lets the last reference to a tensor go.
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
    const pybind11::gil_scoped_release released;
    runner_.reset();
  }
  runner_.reset();
}

ProcessGroupWeft::Pending ProcessGroupWeft::submit(Plan plan, milliseconds timeout) {
  plan.deadline = Clock::now() + (timeout == ::c10d::kUnsetTimeout ? timeout_ : timeout);
  auto work = c10::make_intrusive<Work>(rank_, std::move(plan));
  runner_->submit(work);
  return work;
}

ProcessGroupWeft::Pending ProcessGroupWeft::allreduce(Tensors& tensors, const ::c10d::AllreduceOptions& options) {
  const at::Tensor tensor = only(tensors), row = flat(tensor);
  const Reduction by = reduction_of(tensor, options.reduceOp);
  Plan plan = plan_of(OpType::ALLREDUCE, "weft:all_reduce", tensors, tensors);
  plan.begin = [row, by](weft_inc_group* group, weft_inc_request** request) {
    return weft_inc_iallreduce(group, row.data_ptr(), row.data_ptr(), count_of(row), by.type, by.op, request);
  };
  plan.deliver = back_to(tensor, row);
  return submit(std::move(plan), options.timeout);
}

ProcessGroupWeft::Pending ProcessGroupWeft::reduce(Tensors& tensors, const ::c10d::ReduceOptions& options) {
  const at::Tensor tensor = only(tensors), row = flat(tensor);
  TORCH_CHECK(options.rootTensor == 0, "weft: a rank has one tensor");
  const Reduction by = reduction_of(tensor, options.reduceOp);
  const auto root = static_cast<std::uint32_t>(options.rootRank);
  Plan plan = plan_of(OpType::REDUCE, "weft:reduce", tensors, tensors);
  plan.begin = [row, by, root](weft_inc_group* group, weft_inc_request** request) {
    return weft_inc_ireduce(group, row.data_ptr(), row.data_ptr(), count_of(row), by.type, by.op, root, request);
  };
  if (options.rootRank == rank_) plan.deliver = back_to(tensor, row);
  return submit(std::move(plan), options.timeout);
}

// Collectives that only move bytes take tensors of all types.

ProcessGroupWeft::Pending ProcessGroupWeft::broadcast(Tensors& tensors, const ::c10d::BroadcastOptions& options) {
  const at::Tensor tensor = only(tensors), row = flat(tensor);
  TORCH_CHECK(options.rootTensor == 0, "weft: a rank has one tensor");
  const auto root = static_cast<std::uint32_t>(options.rootRank);
  Plan plan = plan_of(OpType::BROADCAST, "weft:broadcast", tensors, tensors);
  plan.begin = [row, root](weft_inc_group* group, weft_inc_request** request) {
    return weft_inc_ibroadcast(group, row.data_ptr(), bytes_of(row), WEFT_INC_UINT8, root, request);
  };
  if (options.rootRank != rank_) plan.deliver = back_to(tensor, row);
  return submit(std::move(plan), options.timeout);
}

ProcessGroupWeft::Pending ProcessGroupWeft::barrier(const ::c10d::BarrierOptions& options) {
  Plan plan = plan_of(OpType::BARRIER, "weft:barrier", {}, {});
  plan.begin = weft_inc_ibarrier;
  return submit(std::move(plan), options.timeout);
}

ProcessGroupWeft::Pending ProcessGroupWeft::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                      const ::c10d::AllgatherOptions& options) {
  const at::Tensor mine = flat(only(inputs));
  TORCH_CHECK(outputs.size() == 1 && outputs[0].size() == static_cast<std::size_t>(size_),
              "weft: the output of allgather is one list of ", size_, " tensors");
  for (const at::Tensor& one : outputs[0]) {
    check(one);
    TORCH_CHECK(one.numel() == mine.numel() && one.scalar_type() == mine.scalar_type(),
                "weft: each output of allgather has the type and number of elements of the input");
  }
  const Tensors to = outputs[0];
  const at::Tensor all = at::empty({size_, mine.numel()}, mine.options());
  Plan plan = plan_of(OpType::ALLGATHER, "weft:all_gather", inputs, to);
  plan.begin = gathers(mine, all);
  plan.deliver = [all, to] {
    for (std::size_t rank = 0; rank < to.size(); ++rank) {
      to[rank].copy_(all[static_cast<std::int64_t>(rank)].view(to[rank].sizes()));
    }
  };
  return submit(std::move(plan), options.timeout);
}

ProcessGroupWeft::Pending ProcessGroupWeft::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                            const ::c10d::AllgatherOptions& options) {
  const at::Tensor mine = flat(input), all = room(output);
  TORCH_CHECK(output.numel() == input.numel() * size_ && output.scalar_type() == input.scalar_type(),
              "weft: the output of allgather has the input's type, and ", size_, " times its elements");
  Plan plan = plan_of(OpType::_ALLGATHER_BASE, "weft:_all_gather_base", {input}, {output});
  plan.begin = gathers(mine, all);
  plan.deliver = back_to(output, all);
  return submit(std::move(plan), options.timeout);
}

/// all: a block for each rank, in one row of memory. mine: where this rank's sums go.
ProcessGroupWeft::Pending ProcessGroupWeft::scatter_sums(Plan plan, const at::Tensor& all, const at::Tensor& mine,
                                                         const ReduceOp& op, milliseconds timeout) {
  const at::Tensor row = room(mine);
  const Reduction by = reduction_of(mine, op);
  plan.begin = [all, row, by](weft_inc_group* group, weft_inc_request** request) {
    return weft_inc_ireduce_scatter(group, all.data_ptr(), row.data_ptr(), count_of(row), by.type, by.op, request);
  };
  plan.deliver = back_to(mine, row);
  return submit(std::move(plan), timeout);
}

ProcessGroupWeft::Pending ProcessGroupWeft::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                           const ::c10d::ReduceScatterOptions& options) {
  const at::Tensor mine = only(outputs);
  check(mine);
  TORCH_CHECK(inputs.size() == 1 && inputs[0].size() == static_cast<std::size_t>(size_),
              "weft: the input of reduce_scatter is one list of ", size_, " tensors");
  const at::Tensor all = at::empty({size_, mine.numel()}, mine.options().requires_grad(false));
  for (std::size_t rank = 0; rank < inputs[0].size(); ++rank) {
    const at::Tensor& one = inputs[0][rank];
    check(one);
    TORCH_CHECK(one.numel() == mine.numel() && one.scalar_type() == mine.scalar_type(),
                "weft: each input of reduce_scatter has the type and number of elements of the output");
    const at::Tensor block = all[static_cast<std::int64_t>(rank)];
    block.copy_(one.detach().reshape(block.sizes()));
  }
  return scatter_sums(plan_of(OpType::REDUCE_SCATTER, "weft:reduce_scatter", inputs[0], outputs), all, mine,
                      options.reduceOp, options.timeout);
}

ProcessGroupWeft::Pending ProcessGroupWeft::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                                 const ::c10d::ReduceScatterOptions& options) {
  TORCH_CHECK(input.numel() == output.numel() * size_ && output.scalar_type() == input.scalar_type(),
              "weft: the input of reduce_scatter has the output's type, and ", size_, " times its elements");
  return scatter_sums(plan_of(OpType::_REDUCE_SCATTER_BASE, "weft:_reduce_scatter_base", {input}, {output}),
                      flat(input), output, options.reduceOp, options.timeout);
}

}  // namespace weft::inc::pytorch
