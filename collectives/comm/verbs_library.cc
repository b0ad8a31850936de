// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/comm/verbs_library.h"

#include <dlfcn.h>

#include <optional>
#include <type_traits>

namespace weft::inc::comm {
namespace {

constexpr const char* kLibrary = "libibverbs.so.1";

/// The loaded library, or why there is none.
struct Loaded {
  std::optional<Verbs> verbs;
  std::string why;
};

Loaded load() {
  // Its drivers keep it from being unloaded in any case.
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {std::nullopt, std::string("libibverbs is not installed: ") + dlerror()};
  Verbs v;
  std::string missing;
  const auto find = [&](const char* name, auto& function) {
    void* found = dlsym(library, name);
    if (found == nullptr) missing += missing.empty() ? name : std::string(", ") + name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
  find("ibv_get_device_list", v.get_device_list);
  find("ibv_free_device_list", v.free_device_list);
  find("ibv_get_device_name", v.get_device_name);
  find("ibv_open_device", v.open_device);
  find("ibv_close_device", v.close_device);
  find("ibv_query_port", v.query_port);
  find("_ibv_query_gid_table", v.query_gid_table);
  find("ibv_alloc_pd", v.alloc_pd);
  find("ibv_dealloc_pd", v.dealloc_pd);
  find("ibv_reg_mr", v.reg_mr);
  find("ibv_dereg_mr", v.dereg_mr);
  find("ibv_create_comp_channel", v.create_comp_channel);
  find("ibv_destroy_comp_channel", v.destroy_comp_channel);
  find("ibv_create_cq", v.create_cq);
  find("ibv_destroy_cq", v.destroy_cq);
  find("ibv_get_cq_event", v.get_cq_event);
  find("ibv_ack_cq_events", v.ack_cq_events);
  find("ibv_create_qp", v.create_qp);
  find("ibv_modify_qp", v.modify_qp);
  find("ibv_destroy_qp", v.destroy_qp);
  find("ibv_wc_status_str", v.wc_status_str);
  if (missing.empty()) return {v, ""};
  return {std::nullopt, std::string(kLibrary) + " is too old: it has no " + missing};
}

}  // namespace

const Verbs* load_verbs(std::string& why) {
  static const Loaded loaded = load();
  why = loaded.why;
  return loaded.verbs ? &*loaded.verbs : nullptr;
}

}  // namespace weft::inc::comm
