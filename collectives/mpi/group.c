// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <stdlib.h>
#include <string.h>

#include <ompi_config.h>

#include <opal/runtime/opal_progress.h>
#include <opal/util/output.h>
#include "collectives/mpi/coll_weft.h"

/* What a rank, alone on its host, says of itself before there is a group. */
struct offer {
  int usable; /* it has an RNIC */
  weft_inc_handle handle;
};

static void say(const struct ompi_communicator_t* comm, const char* what, const char* why) {
  if (coll_weft_settings.verbose > 0) opal_output(0, "coll:weft: %s: %s%s", comm->c_name, what, why);
}

static weft_inc_group* begin(struct ompi_communicator_t* comm, struct offer* offer) {
  weft_inc_context* context = coll_weft_context();
  weft_inc_group* group = NULL;
  weft_inc_group_options options;
  if (context == NULL) return NULL;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.mtu = coll_weft_settings.mtu;
  options.reproducible = coll_weft_settings.reproducible;
  options.min_bytes = coll_weft_settings.min_bytes;
  options.max_bytes = coll_weft_settings.max_bytes;
  if (weft_inc_group_create(context, &options, (uint32_t)ompi_comm_rank(comm), (uint32_t)ompi_comm_size(comm),
                            &offer->handle, &group) != WEFT_INC_OK) {
    say(comm, "no group: ", weft_inc_last_error());
    return NULL;
  }
  offer->usable = 1;
  return group;
}

/* All ranks get the same offers. A reason; NONE: the group runs collectives, by switches or after it has lost them. */
static int connect_all(struct ompi_communicator_t* comm, weft_inc_group* group, const struct offer* offers) {
  const int ranks = ompi_comm_size(comm);
  weft_inc_group_info info = {.size = sizeof info};
  enum weft_inc_status status = WEFT_INC_AGAIN;
  weft_inc_handle* handles = malloc((size_t)ranks * sizeof *handles);
  int usable = handles != NULL && group != NULL;
  for (int r = 0; usable && r < ranks; ++r) {
    usable = offers[r].usable;
    handles[r] = offers[r].handle;
  }
  const int all_usable = usable;
  if (usable) usable = weft_inc_group_connect(group, handles, NULL) == WEFT_INC_OK;
  free(handles);
  while (usable && (status = weft_inc_group_test(group)) == WEFT_INC_AGAIN) opal_progress();
  if (!all_usable) return COLL_WEFT_NO_RNIC;
  if (status != WEFT_INC_OK || weft_inc_group_info_get(group, &info) != WEFT_INC_OK) {
    say(comm, "no group: ", weft_inc_last_error());
    return WEFT_INC_REASON_NOT_READY;
  }
  return info.reason == WEFT_INC_REASON_LOST ? WEFT_INC_REASON_NONE : (int)info.reason;
}

/* One rank on each host: the group is theirs. */
static int open_flat(coll_weft_module* module, struct ompi_communicator_t* comm) {
  const int ranks = ompi_comm_size(comm);
  struct offer mine, *all = calloc((size_t)ranks, sizeof *all);
  int off = COLL_WEFT_NO_RNIC;
  memset(&mine, 0, sizeof mine);
  if (all == NULL) return 0;
  module->group = begin(comm, &mine);
  const int gathered = module->before.coll_allgather(&mine, (int)sizeof mine, MPI_BYTE, all, (int)sizeof mine, MPI_BYTE,
                                                     comm, module->before.coll_allgather_module);
  if (gathered == MPI_SUCCESS) off = connect_all(comm, module->group, all);
  free(all);
  /* A group that ends as soon as it is there may have failed at some ranks alone: they must not go different ways. */
  module->off = COLL_WEFT_NO_RNIC;
  if (gathered == MPI_SUCCESS) {
    module->before.coll_allreduce(&off, &module->off, 1, MPI_INT, MPI_MAX, comm, module->before.coll_allreduce_module);
  }
  if (module->off == WEFT_INC_REASON_NONE) {
    say(comm, "by switches", "");
    return 1;
  }
  say(comm, "as before, because of ", coll_weft_reason_name(module->off));
  weft_inc_group_destroy(module->group);
  module->group = NULL;
  return 0;
}

/* What becomes of a communicator follows from what all ranks know. */
static void open_group(coll_weft_module* module, struct ompi_communicator_t* comm) {
  int ready = 0;
  /* What is called on the way, on the same communicator, goes where it did before. */
  module->state = COLL_WEFT_OPENING;
  if (coll_weft_hosts_find(module, comm) != MPI_SUCCESS) {
    module->state = COLL_WEFT_OFF;
    return;
  }
  if (module->hosts.hosts == 1) {
    module->off = COLL_WEFT_ONE_HOST;
    say(comm, "as before: ", "all ranks are on one host");
  } else if (module->hosts.hosts == ompi_comm_size(comm)) {
    ready = open_flat(module, comm);
  } else {
    ready = coll_weft_hosts_open(module, comm);
    say(comm, ready ? "by switches, after the ranks of each host" : "as before: its leaders have no switches", "");
  }
  if (!ready) coll_weft_hosts_close(&module->hosts);
  module->state = ready ? COLL_WEFT_READY : COLL_WEFT_OFF;
}

int coll_weft_group_ready(coll_weft_module* module, struct ompi_communicator_t* comm) {
  if (module->state == COLL_WEFT_NEW) {
    open_group(module, comm);
    if (module->state == COLL_WEFT_OFF && coll_weft_settings.use == 2) {
      opal_output(0, "coll:weft: %s gets no switches, and coll_weft_use is 2", comm->c_name);
      ompi_mpi_abort(comm, MPI_ERR_OTHER);
    }
  }
  return module->state == COLL_WEFT_READY;
}

/* Where leaders have a group, they find out by themselves what it runs: the others need not know. */
static enum coll_weft_way way_by_hosts(coll_weft_module* module, enum weft_inc_primitive primitive, uint64_t bytes) {
  const coll_weft_hosts* hosts = &module->hosts;
  const struct coll_weft_settings* s = &coll_weft_settings;
  const int in_blocks = primitive == WEFT_INC_REDUCE_SCATTER || primitive == WEFT_INC_ALLGATHER;
  /* Blocks of a host's ranks lie side by side, and all of them are counted by an int. */
  if (in_blocks && hosts->each == 0) return coll_weft_fall_back(module, COLL_WEFT_UNEVEN_HOSTS);
  if (in_blocks && bytes * (uint64_t)(hosts->hosts * hosts->each) > INT32_MAX) {
    return coll_weft_fall_back(module, WEFT_INC_REASON_TOO_LARGE);
  }
  if (primitive == WEFT_INC_BARRIER) return COLL_WEFT_HOSTS;
  if (bytes < s->min_bytes) return coll_weft_fall_back(module, WEFT_INC_REASON_TOO_SMALL);
  if (s->max_bytes != 0 && bytes > s->max_bytes) return coll_weft_fall_back(module, WEFT_INC_REASON_TOO_LARGE);
  return COLL_WEFT_HOSTS;
}

enum coll_weft_way coll_weft_way_of(coll_weft_module* module, struct ompi_communicator_t* comm,
                                    enum weft_inc_primitive primitive, enum weft_inc_type type, enum weft_inc_op op,
                                    uint64_t bytes) {
  if (!coll_weft_group_ready(module, comm)) return coll_weft_fall_back(module, module->off);
  if (module->group == NULL) return way_by_hosts(module, primitive, bytes);
  /* Ranks hear at different times that the group has lost its switches, or got others: whatever it has, it runs what
   * switches would. */
  const enum weft_inc_reason reason = weft_inc_can(module->group, primitive, type, op, bytes);
  switch (reason) {
    case WEFT_INC_REASON_TOO_SMALL:
    case WEFT_INC_REASON_TOO_LARGE:
    case WEFT_INC_REASON_NO_OPERATION:
    case WEFT_INC_REASON_NOT_READY:
      return coll_weft_fall_back(module, reason);
    default:
      return COLL_WEFT_SWITCHES;
  }
}

int coll_weft_finish(enum weft_inc_status status, weft_inc_request** request) {
  if (status == WEFT_INC_OK) {
    while ((status = weft_inc_wait(request, 1)) == WEFT_INC_AGAIN) opal_progress();
  }
  if (status == WEFT_INC_OK) return MPI_SUCCESS;
  opal_output(0, "coll:weft: %s", weft_inc_last_error());
  return MPI_ERR_OTHER;
}
