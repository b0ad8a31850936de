// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <pthread.h>

#include <opal/util/output.h>
#include "collectives/mpi/coll_weft.h"

struct coll_weft_settings coll_weft_settings = {80, 1, 0, 1, 1, 1024, 0, 0, NULL, NULL, NULL, NULL, 0};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static weft_inc_context* context;
static int opened;

weft_inc_context* coll_weft_context(void) {
  pthread_mutex_lock(&lock);
  if (!opened) {
    const weft_inc_options options = {.size = sizeof options,
                                      .address = coll_weft_settings.address,
                                      .interface = coll_weft_settings.interface,
                                      .socket = coll_weft_settings.socket,
                                      .device = coll_weft_settings.device,
                                      .poll_us = coll_weft_settings.poll_us};
    opened = 1;
    if (weft_inc_open(&options, &context) != WEFT_INC_OK) {
      context = NULL;
      if (coll_weft_settings.verbose > 0) opal_output(0, "coll:weft: no RNIC: %s", weft_inc_last_error());
    }
  }
  pthread_mutex_unlock(&lock);
  return context;
}

void coll_weft_close(void) {
  weft_inc_close(context);
  context = NULL;
}

static int register_settings(void) {
  const mca_base_component_t* c = &mca_coll_weft_component.collm_version;
  struct coll_weft_settings* s = &coll_weft_settings;
  const int level = OPAL_INFO_LVL_6, scope = MCA_BASE_VAR_SCOPE_READONLY;
  mca_base_component_var_register(c, "priority", "Priority; above 30 it goes before tuned", MCA_BASE_VAR_TYPE_INT, NULL,
                                  0, 0, level, scope, &s->priority);
  mca_base_component_var_register(c, "use", "0: off, 1: switches if possible, 2: switches or an error",
                                  MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, level, scope, &s->use);
  mca_base_component_var_register(c, "verbose",
                                  "1: say what becomes of communicators, and why; 2: also of each collective without "
                                  "switches",
                                  MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, level, scope, &s->verbose);
  mca_base_component_var_register(c, "report",
                                  "1: communicators say at their end how many collectives ran without switches, and "
                                  "why; 0: they do not",
                                  MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, level, scope, &s->report);
  mca_base_component_var_register(c, "reproducible", "1: sums of floats by switches are the same in every run",
                                  MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, level, scope, &s->reproducible);
  mca_base_component_var_register(c, "mtu", "Payload of a full packet in bytes", MCA_BASE_VAR_TYPE_UNSIGNED_INT, NULL,
                                  0, 0, level, scope, &s->mtu);
  mca_base_component_var_register(c, "min_bytes", "Smaller vectors stay with MPI's own algorithms",
                                  MCA_BASE_VAR_TYPE_UNSIGNED_LONG, NULL, 0, 0, level, scope, &s->min_bytes);
  mca_base_component_var_register(c, "max_bytes", "And larger ones; 0: none are too large",
                                  MCA_BASE_VAR_TYPE_UNSIGNED_LONG, NULL, 0, 0, level, scope, &s->max_bytes);
  mca_base_component_var_register(c, "address", "Address of this rank's RNIC", MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0,
                                  level, scope, &s->address);
  mca_base_component_var_register(c, "interface", "Interface of the RNIC", MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, level,
                                  scope, &s->interface);
  mca_base_component_var_register(c, "device", "Device of libibverbs with RoCE v2; none: weft's own RNIC",
                                  MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, level, scope, &s->device);
  mca_base_component_var_register(c, "poll_us", "Microseconds that who waits looks for what comes before it sleeps",
                                  MCA_BASE_VAR_TYPE_UNSIGNED_INT, NULL, 0, 0, level, scope, &s->poll_us);
  mca_base_component_var_register(c, "socket", "Socket of weft-incd", MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, level,
                                  scope, &s->socket);
  return OMPI_SUCCESS;
}

static int close_component(void) {
  coll_weft_report_rest();
  coll_weft_close();
  return OMPI_SUCCESS;
}

static int init_query(bool progress_threads, bool mpi_threads) {
  (void)progress_threads;
  (void)mpi_threads;
  return OMPI_SUCCESS;
}

/* What this rank knows alone is not looked at: ranks that decided differently would wait for each other. */
static mca_coll_base_module_t* comm_query(struct ompi_communicator_t* comm, int* priority) {
  if (coll_weft_settings.use == 0 || OMPI_COMM_IS_INTER(comm) || ompi_comm_size(comm) < 2) return NULL;
  coll_weft_module* module = OBJ_NEW(coll_weft_module);
  if (module == NULL) return NULL;
  *priority = coll_weft_settings.priority;
  return &module->super;
}

const mca_coll_base_component_2_0_0_t mca_coll_weft_component = {
    .collm_version =
        {
            MCA_COLL_BASE_VERSION_2_0_0,
            .mca_component_name = "weft",
            MCA_BASE_MAKE_VERSION(component, 0, 1, 0),
            .mca_close_component = close_component,
            .mca_register_component_params = register_settings,
        },
    .collm_data = {MCA_BASE_METADATA_PARAM_NONE},
    .collm_init_query = init_query,
    .collm_comm_query = comm_query,
};

static int module_enable(mca_coll_base_module_t* base, struct ompi_communicator_t* comm) {
  coll_weft_module* module = (coll_weft_module*)base;
  const mca_coll_base_comm_coll_t* now = comm->c_coll;
  if (now->coll_allgather == NULL || now->coll_allreduce == NULL || now->coll_reduce == NULL ||
      now->coll_bcast == NULL || now->coll_barrier == NULL || now->coll_reduce_scatter_block == NULL) {
    return OMPI_ERR_NOT_FOUND;
  }
  module->before = *now;
  module->comm = comm;
  OBJ_RETAIN(now->coll_allgather_module);
  OBJ_RETAIN(now->coll_allreduce_module);
  OBJ_RETAIN(now->coll_reduce_module);
  OBJ_RETAIN(now->coll_bcast_module);
  OBJ_RETAIN(now->coll_barrier_module);
  OBJ_RETAIN(now->coll_reduce_scatter_block_module);
  return OMPI_SUCCESS;
}

static void construct(coll_weft_module* module) {
  module->state = COLL_WEFT_NEW;
  module->off = WEFT_INC_REASON_NOT_READY;
  module->inner = 0;
  module->comm = NULL;
  module->group = NULL;
  memset(module->calls, 0, sizeof module->calls);
  memset(&module->hosts, 0, sizeof module->hosts);
  memset(&module->before, 0, sizeof module->before);
  module->super.coll_module_enable = module_enable;
  module->super.coll_allreduce = coll_weft_allreduce;
  module->super.coll_reduce = coll_weft_reduce;
  module->super.coll_bcast = coll_weft_bcast;
  module->super.coll_barrier = coll_weft_barrier;
  module->super.coll_reduce_scatter_block = coll_weft_reduce_scatter_block;
  module->super.coll_allgather = coll_weft_allgather;
}

static void say_calls(const coll_weft_module* module) {
  weft_inc_group_info info = {.size = sizeof info};
  if (weft_inc_group_info_get(module->group, &info) != WEFT_INC_OK) return;
  opal_output(0, "coll:weft: group %u ran %llu collectives", info.group,
              (unsigned long long)info.calls[WEFT_INC_REASON_NONE]);
}

static void destruct(coll_weft_module* module) {
  coll_weft_hosts_forget_ended(&module->hosts);
  if (module->group != NULL && coll_weft_settings.verbose > 0) say_calls(module);
  coll_weft_report(module);
  weft_inc_group_destroy(module->group);
  coll_weft_hosts_close(&module->hosts);
  if (module->before.coll_allgather_module == NULL) return;
  OBJ_RELEASE(module->before.coll_allgather_module);
  OBJ_RELEASE(module->before.coll_allreduce_module);
  OBJ_RELEASE(module->before.coll_reduce_module);
  OBJ_RELEASE(module->before.coll_bcast_module);
  OBJ_RELEASE(module->before.coll_barrier_module);
  OBJ_RELEASE(module->before.coll_reduce_scatter_block_module);
}

OBJ_CLASS_INSTANCE(coll_weft_module, mca_coll_base_module_t, construct, destruct);
