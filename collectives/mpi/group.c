// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <stdlib.h>
#include <string.h>

#include <ompi/proc/proc.h>
#include <opal/runtime/opal_progress.h>
#include <opal/util/output.h>
#include "collectives/mpi/coll_weft.h"

/* What a rank says of itself before there is a group. */
struct offer {
  int usable; /* it has an RNIC, which no other rank of its host wants */
  weft_inc_handle handle;
};

static void say(const struct ompi_communicator_t* comm, const char* what, const char* why) {
  if (coll_weft_settings.verbose > 0) opal_output(0, "coll:weft: %s: %s%s", comm->c_name, what, why);
}

/* An RNIC serves one rank: ranks beside each other would need its connections to go through shared memory first. */
static int alone_on_host(struct ompi_communicator_t* comm) {
  for (int r = 0; r < ompi_comm_size(comm); ++r) {
    if (r == ompi_comm_rank(comm)) continue;
    const ompi_proc_t* peer = ompi_comm_peer_lookup(comm, r);
    if (OPAL_PROC_ON_LOCAL_NODE(peer->super.proc_flags)) return 0;
  }
  return 1;
}

static weft_inc_group* begin(struct ompi_communicator_t* comm, struct offer* offer) {
  weft_inc_context* context = alone_on_host(comm) ? coll_weft_context() : NULL;
  weft_inc_group* group = NULL;
  weft_inc_group_options options;
  if (context == NULL) return NULL;
  memset(&options, 0, sizeof options);
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

/* All ranks get the same offers, and so come to the same end. */
static int connect_all(struct ompi_communicator_t* comm, weft_inc_group* group, const struct offer* offers) {
  const int ranks = ompi_comm_size(comm);
  enum weft_inc_status status = WEFT_INC_AGAIN;
  weft_inc_handle* handles = malloc((size_t)ranks * sizeof *handles);
  int usable = handles != NULL;
  for (int r = 0; usable && r < ranks; ++r) {
    usable = offers[r].usable;
    handles[r] = offers[r].handle;
  }
  if (usable) usable = weft_inc_group_connect(group, handles, NULL) == WEFT_INC_OK;
  free(handles);
  if (!usable) return 0;
  while ((status = weft_inc_group_test(group)) == WEFT_INC_AGAIN) opal_progress();
  return status == WEFT_INC_OK;
}

static int open_group(coll_weft_module* module, struct ompi_communicator_t* comm) {
  const int ranks = ompi_comm_size(comm);
  struct offer mine, *all = calloc((size_t)ranks, sizeof *all);
  weft_inc_group_info info;
  module->state = COLL_WEFT_OFF;
  memset(&mine, 0, sizeof mine);
  if (all == NULL) return MPI_ERR_NO_MEM;
  module->group = begin(comm, &mine);
  const int gathered = module->before.coll_allgather(&mine, (int)sizeof mine, MPI_BYTE, all, (int)sizeof mine, MPI_BYTE,
                                                     comm, module->before.coll_allgather_module);
  const int ready = gathered == MPI_SUCCESS && module->group != NULL && connect_all(comm, module->group, all);
  free(all);
  if (ready && weft_inc_group_info_get(module->group, &info) == WEFT_INC_OK && info.reason == WEFT_INC_REASON_NONE) {
    module->state = COLL_WEFT_READY;
    say(comm, "by switches", "");
    return MPI_SUCCESS;
  }
  if (ready) {
    say(comm, "as before, because of ", weft_inc_reason_name(info.reason));
  } else {
    say(comm, "as before: ", "a rank has no RNIC to itself, or does not reach the others");
  }
  weft_inc_group_destroy(module->group);
  module->group = NULL;
  return gathered;
}

int coll_weft_by_switch(coll_weft_module* module, struct ompi_communicator_t* comm, enum weft_inc_primitive primitive,
                        enum weft_inc_type type, enum weft_inc_op op, uint64_t bytes) {
  if (module->state == COLL_WEFT_NEW) {
    open_group(module, comm);
    if (module->state == COLL_WEFT_OFF && coll_weft_settings.use == 2) {
      opal_output(0, "coll:weft: %s gets no switches, and coll_weft_use is 2", comm->c_name);
      ompi_mpi_abort(comm, MPI_ERR_OTHER);
    }
  }
  if (module->state != COLL_WEFT_READY) return 0;
  /* Ranks hear at different times that the group has lost its switches, or got others: whatever it has, it runs what
   * switches would. */
  switch (weft_inc_can(module->group, primitive, type, op, bytes)) {
    case WEFT_INC_REASON_TOO_SMALL:
    case WEFT_INC_REASON_TOO_LARGE:
    case WEFT_INC_REASON_NO_OPERATION:
    case WEFT_INC_REASON_NOT_READY:
      return 0;
    default:
      return 1;
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
