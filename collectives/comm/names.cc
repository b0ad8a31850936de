// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Numbers of the C interface in words.
#include <array>
#include <string_view>

#include "collectives/comm/host_schedule.h"
#include "collectives/comm/weft_inc.h"
#include "collectives/engine/arithmetic.h"

namespace {

constexpr std::array<const char*, WEFT_INC_REASONS> kReasons{
    "none",    "single_rank", "hosts_asked", "no_daemon", "no_manager",   "no_tree", "switch", "bad_request",
    "no_path", "too_small",   "too_large",   "not_ready", "no_operation", "lost",    "busy"};

}  // namespace

extern "C" {

const char* weft_inc_status_name(enum weft_inc_status status) {
  switch (status) {
    case WEFT_INC_OK:
      return "ok";
    case WEFT_INC_AGAIN:
      return "again";
    case WEFT_INC_INVALID:
      return "invalid";
    case WEFT_INC_UNAVAILABLE:
      return "unavailable";
    case WEFT_INC_REFUSED:
      return "refused";
    case WEFT_INC_FAILED:
      return "failed";
  }
  return "?";
}

const char* weft_inc_reason_name(enum weft_inc_reason reason) {
  const auto number = static_cast<std::size_t>(reason);
  return number < kReasons.size() ? kReasons[number] : "?";
}

// The names are literals, which end by a zero.
const char* weft_inc_primitive_name(enum weft_inc_primitive primitive) {
  return weft::inc::comm::to_string(static_cast<weft::inc::comm::Collective>(primitive)).data();
}

const char* weft_inc_type_name(enum weft_inc_type type) {
  return weft::inc::to_string(static_cast<weft::inc::DataType>(type)).data();
}

const char* weft_inc_op_name(enum weft_inc_op op) {
  return weft::inc::to_string(static_cast<weft::inc::Op>(op)).data();
}

size_t weft_inc_type_bytes(enum weft_inc_type type) {
  return weft::inc::element_bytes(static_cast<weft::inc::DataType>(type));
}
}
