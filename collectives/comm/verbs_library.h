// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// libibverbs, which hosts without an RDMA device need not have: it is loaded when somebody asks for a device.
#pragma once

#include <infiniband/verbs.h>

#include <string>

namespace weft::inc::comm {

/// Its functions by their names (ibv_...). Those that go to a device's driver, as ibv_poll_cq does, are in its
/// contexts.
struct Verbs {
  decltype(&::ibv_get_device_list) get_device_list = nullptr;
  decltype(&::ibv_free_device_list) free_device_list = nullptr;
  decltype(&::ibv_get_device_name) get_device_name = nullptr;
  decltype(&::ibv_open_device) open_device = nullptr;
  decltype(&::ibv_close_device) close_device = nullptr;
  decltype(&::ibv_query_port) query_port = nullptr;
  decltype(&::_ibv_query_gid_table) query_gid_table = nullptr;
  decltype(&::ibv_alloc_pd) alloc_pd = nullptr;
  decltype(&::ibv_dealloc_pd) dealloc_pd = nullptr;
  decltype(&::ibv_reg_mr) reg_mr = nullptr;
  decltype(&::ibv_dereg_mr) dereg_mr = nullptr;
  decltype(&::ibv_create_comp_channel) create_comp_channel = nullptr;
  decltype(&::ibv_destroy_comp_channel) destroy_comp_channel = nullptr;
  decltype(&::ibv_create_cq) create_cq = nullptr;
  decltype(&::ibv_destroy_cq) destroy_cq = nullptr;
  decltype(&::ibv_get_cq_event) get_cq_event = nullptr;
  decltype(&::ibv_ack_cq_events) ack_cq_events = nullptr;
  decltype(&::ibv_create_qp) create_qp = nullptr;
  decltype(&::ibv_modify_qp) modify_qp = nullptr;
  decltype(&::ibv_destroy_qp) destroy_qp = nullptr;
  decltype(&::ibv_wc_status_str) wc_status_str = nullptr;
};

/// The library stays loaded. nullptr: it is not there, or lacks a function; `why` says which, in words.
[[nodiscard]] const Verbs* load_verbs(std::string& why);

}  // namespace weft::inc::comm
