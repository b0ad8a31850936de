// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
/*
 * Why collectives run without switches: counted by reason, and said on one line when their communicator ends.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <ompi/proc/proc.h>
#include <opal/util/output.h>
#include "collectives/mpi/coll_weft.h"

/* Programs that make communicators by the thousand get so many lines of a process, and one of all others. */
enum { MOST_LINES = 16 };

static struct {
  pthread_mutex_t lock;
  unsigned lines;
  unsigned long long communicators; /* that got none */
  uint64_t calls[COLL_WEFT_REASONS];
} rest = {.lock = PTHREAD_MUTEX_INITIALIZER};

const char* coll_weft_reason_name(int reason) {
  switch (reason) {
    case COLL_WEFT_EMPTY:
      return "empty";
    case COLL_WEFT_ONE_HOST:
      return "one_host";
    case COLL_WEFT_NO_RNIC:
      return "no_rnic";
    case COLL_WEFT_UNEVEN_HOSTS:
      return "uneven_hosts";
    default:
      return weft_inc_reason_name((enum weft_inc_reason)reason);
  }
}

enum coll_weft_way coll_weft_fall_back(coll_weft_module* module, int reason) {
  /* MPI's own calls while the group comes about are not the program's. */
  if (module->state == COLL_WEFT_OPENING) return COLL_WEFT_BEFORE;
  ++module->calls[reason];
  if (coll_weft_settings.verbose > 1 && !module->inner) {
    opal_output(0, "coll:weft: %s: a collective without switches: %s", module->comm->c_name,
                coll_weft_reason_name(reason));
  }
  return COLL_WEFT_BEFORE;
}

/* Adds what the group of a module has counted. */
static void add_group(const coll_weft_module* module, uint64_t* calls) {
  weft_inc_group_info info = {.size = sizeof info};
  if (module->group == NULL || weft_inc_group_info_get(module->group, &info) != WEFT_INC_OK) return;
  for (int r = 0; r < WEFT_INC_REASONS; ++r) calls[r] += info.calls[r];
}

void coll_weft_calls(const coll_weft_module* module, uint64_t* calls) {
  memcpy(calls, module->calls, sizeof module->calls);
  add_group(module, calls);
  const coll_weft_module* among = coll_weft_module_of(module->hosts.leaders);
  if (among == NULL) return;
  for (int r = 0; r < COLL_WEFT_REASONS; ++r) calls[r] += among->calls[r];
  add_group(among, calls);
}

static void print(const char* name, const uint64_t* calls) {
  char line[512];
  size_t used = 0;
  unsigned long long all = 0;
  line[0] = 0;
  for (int r = 0; r < COLL_WEFT_REASONS; ++r) {
    all += calls[r];
    if (r == WEFT_INC_REASON_NONE || calls[r] == 0 || used >= sizeof line) continue;
    used += (size_t)snprintf(line + used, sizeof line - used, " %s=%llu", coll_weft_reason_name(r),
                             (unsigned long long)calls[r]);
  }
  opal_output(0, "coll:weft: %s: %llu of %llu collectives without switches:%s", name,
              all - (unsigned long long)calls[WEFT_INC_REASON_NONE], all, line);
}

static int spans_hosts(struct ompi_communicator_t* comm) {
  for (int r = 0; r < ompi_comm_size(comm); ++r) {
    const ompi_proc_t* peer = ompi_comm_peer_lookup(comm, r);
    if (!OPAL_PROC_ON_LOCAL_NODE(peer->super.proc_flags)) return 1;
  }
  return 0;
}

void coll_weft_report(const coll_weft_module* module) {
  uint64_t calls[COLL_WEFT_REASONS], fell_back = 0;
  if (!coll_weft_settings.report || module->inner || module->comm == NULL || ompi_comm_rank(module->comm) != 0) return;
  coll_weft_calls(module, calls);
  for (int r = WEFT_INC_REASON_NONE + 1; r < COLL_WEFT_REASONS; ++r) fell_back += calls[r];
  /* Calls without elements, and those of one host's ranks, have nothing that a switch could do. */
  fell_back -= calls[COLL_WEFT_EMPTY];
  if (fell_back == 0 || !spans_hosts(module->comm)) return;
  pthread_mutex_lock(&rest.lock);
  /* The one that all programs have ends last. */
  const int has_line = module->comm == MPI_COMM_WORLD || rest.lines < MOST_LINES;
  if (has_line) {
    ++rest.lines;
  } else {
    ++rest.communicators;
    for (int r = 0; r < COLL_WEFT_REASONS; ++r) rest.calls[r] += calls[r];
  }
  pthread_mutex_unlock(&rest.lock);
  if (has_line) print(module->comm->c_name, calls);
}

void coll_weft_report_rest(void) {
  char name[64];
  if (rest.communicators == 0) return;
  snprintf(name, sizeof name, "%llu more communicators", rest.communicators);
  print(name, rest.calls);
  memset(rest.calls, 0, sizeof rest.calls);
  rest.communicators = 0;
  rest.lines = 0;
}
