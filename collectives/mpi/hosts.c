// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
/*
 * Communicators with several ranks on a host: those of a host among themselves, by MPI's own way (shared memory), and
 * then one of each host, its leader, with the leaders of the others, by switches.
 */
#include <stdlib.h>
#include <string.h>

#include <ompi/datatype/ompi_datatype.h>
#include <ompi/mca/coll/base/coll_tags.h>
#include <ompi/mca/pml/pml.h>
#include <ompi/proc/proc.h>
#include "collectives/mpi/coll_weft.h"

static int leads(const coll_weft_hosts* h) {
  return h->leaders != NULL && h->leaders != MPI_COMM_NULL;
}

/* The lowest rank on this rank's host. */
static int leader(struct ompi_communicator_t* comm) {
  for (int r = 0; r < ompi_comm_rank(comm); ++r) {
    const ompi_proc_t* peer = ompi_comm_peer_lookup(comm, r);
    if (OPAL_PROC_ON_LOCAL_NODE(peer->super.proc_flags)) return r;
  }
  return ompi_comm_rank(comm);
}

/* Fills in which host and which place on it each rank has. An MPI error. */
static int number_ranks(coll_weft_hosts* h, const int* leaders, int ranks) {
  h->host_of = calloc((size_t)ranks, sizeof *h->host_of);
  h->place_of = calloc((size_t)ranks, sizeof *h->place_of);
  int* members = calloc((size_t)ranks, sizeof *members);
  int regular = 1;
  if (h->host_of == NULL || h->place_of == NULL || members == NULL) {
    free(members);
    return MPI_ERR_NO_MEM;
  }
  for (int r = 0; r < ranks; ++r) {
    /* A leader is the lowest rank of its host, and so it comes before all others of it. */
    h->host_of[r] = leaders[r] == r ? h->hosts++ : h->host_of[leaders[r]];
    h->place_of[r] = members[h->host_of[r]]++;
  }
  for (int r = 0; r < ranks; ++r) {
    regular &= members[h->host_of[r]] == members[0] && r == h->host_of[r] * members[0] + h->place_of[r];
  }
  h->each = regular ? members[0] : 0;
  free(members);
  return MPI_SUCCESS;
}

int coll_weft_hosts_find(coll_weft_module* m, struct ompi_communicator_t* comm) {
  const int ranks = ompi_comm_size(comm), own = leader(comm);
  int* leaders = calloc((size_t)ranks, sizeof *leaders);
  if (leaders == NULL) return MPI_ERR_NO_MEM;
  int rc = m->before.coll_allgather(&own, 1, MPI_INT, leaders, 1, MPI_INT, comm, m->before.coll_allgather_module);
  if (rc == MPI_SUCCESS) rc = number_ranks(&m->hosts, leaders, ranks);
  free(leaders);
  if (rc == MPI_SUCCESS) m->hosts.host = m->hosts.host_of[ompi_comm_rank(comm)];
  return rc;
}

coll_weft_module* coll_weft_module_of(const struct ompi_communicator_t* comm) {
  if (comm == NULL || comm == MPI_COMM_NULL || comm->c_coll == NULL) return NULL;
  const mca_coll_base_comm_coll_t* c = comm->c_coll;
  return c->coll_allreduce == coll_weft_allreduce ? (coll_weft_module*)c->coll_allreduce_module : NULL;
}

int coll_weft_hosts_open(coll_weft_module* m, struct ompi_communicator_t* comm) {
  coll_weft_hosts* h = &m->hosts;
  const int rank = ompi_comm_rank(comm);
  int off = COLL_WEFT_NO_RNIC;
  if (ompi_comm_split(comm, h->host_of[rank], rank, &h->local, false) != OMPI_SUCCESS ||
      ompi_comm_split(comm, h->place_of[rank] == 0 ? 0 : MPI_UNDEFINED, rank, &h->leaders, false) != OMPI_SUCCESS) {
    return 0;
  }
  h->local_number = ompi_comm_get_cid(h->local);
  if (h->leaders != MPI_COMM_NULL) h->leaders_number = ompi_comm_get_cid(h->leaders);
  coll_weft_module* local = coll_weft_module_of(h->local);
  if (local != NULL) {
    local->state = COLL_WEFT_OFF;
    local->inner = 1;
  }
  if (h->leaders != MPI_COMM_NULL) {
    coll_weft_module* among = coll_weft_module_of(h->leaders);
    if (among != NULL) {
      among->inner = 1;
      off = coll_weft_group_ready(among, h->leaders) ? WEFT_INC_REASON_NONE : among->off;
    }
  }
  const int rc = h->local->c_coll->coll_bcast(&off, 1, MPI_INT, 0, h->local, h->local->c_coll->coll_bcast_module);
  m->off = rc == MPI_SUCCESS ? off : COLL_WEFT_NO_RNIC;
  return rc == MPI_SUCCESS && off == WEFT_INC_REASON_NONE;
}

void coll_weft_hosts_forget_ended(coll_weft_hosts* h) {
  if (h->local != NULL && ompi_comm_lookup(h->local_number) != h->local) h->local = NULL;
  if (leads(h) && ompi_comm_lookup(h->leaders_number) != h->leaders) h->leaders = NULL;
}

void coll_weft_hosts_close(coll_weft_hosts* h) {
  if (h->local != NULL) ompi_comm_free(&h->local);
  if (leads(h)) ompi_comm_free(&h->leaders);
  free(h->host_of);
  free(h->place_of);
  memset(h, 0, sizeof *h);
}

/* The calls below end at the first error, as all ranks' do: errors of MPI end the program where it has not said other
 * things. */
#define CALL(comm, what, ...) (comm)->c_coll->coll_##what(__VA_ARGS__, (comm), (comm)->c_coll->coll_##what##_module)

/* What a host's ranks have adds up at its leader, in `sum`; `send` may be in place, of what `receive` has. */
static int reduce_to_leader(const coll_weft_hosts* h, const void* send, void* receive, void* sum, int count,
                            struct ompi_datatype_t* type, struct ompi_op_t* op) {
  const void* mine = send == MPI_IN_PLACE ? receive : send;
  if (leads(h) && mine == sum) mine = MPI_IN_PLACE;
  return CALL(h->local, reduce, mine, leads(h) ? sum : NULL, count, type, op, 0);
}

int coll_weft_hosts_allreduce(const coll_weft_hosts* h, const void* send, void* receive, int count,
                              struct ompi_datatype_t* type, struct ompi_op_t* op) {
  int rc = reduce_to_leader(h, send, receive, receive, count, type, op);
  if (rc == MPI_SUCCESS && leads(h)) rc = CALL(h->leaders, allreduce, MPI_IN_PLACE, receive, count, type, op);
  return rc == MPI_SUCCESS ? CALL(h->local, bcast, receive, count, type, 0) : rc;
}

int coll_weft_hosts_reduce(const coll_weft_hosts* h, const void* send, void* receive, int count,
                           struct ompi_datatype_t* type, struct ompi_op_t* op, int root) {
  const int host = h->host_of[root], place = h->place_of[root];
  const int here = leads(h) ? ompi_comm_rank(h->leaders) == host : 0;
  const int own = ompi_comm_rank(h->local);
  size_t bytes = 0;
  ompi_datatype_type_size(type, &bytes);
  bytes *= (size_t)count;
  /* A leader that is not the root adds up in memory of its own. */
  void* sum = leads(h) && !(here && place == 0) ? malloc(bytes) : receive;
  if (sum == NULL && leads(h)) return MPI_ERR_NO_MEM;
  int rc = reduce_to_leader(h, send, receive, sum, count, type, op);
  if (rc == MPI_SUCCESS && leads(h)) {
    rc = CALL(h->leaders, reduce, here ? MPI_IN_PLACE : sum, here ? sum : NULL, count, type, op, host);
  }
  if (rc == MPI_SUCCESS && here && place != 0) {
    rc = MCA_PML_CALL(
        send(sum, (size_t)count, type, place, MCA_COLL_BASE_TAG_REDUCE, MCA_PML_BASE_SEND_STANDARD, h->local));
  }
  if (rc == MPI_SUCCESS && place != 0 && own == place && h->host == host) {
    rc = MCA_PML_CALL(recv(receive, (size_t)count, type, 0, MCA_COLL_BASE_TAG_REDUCE, h->local, MPI_STATUS_IGNORE));
  }
  if (sum != receive) free(sum);
  return rc;
}

int coll_weft_hosts_barrier(const coll_weft_hosts* h) {
  struct ompi_communicator_t* local = h->local;
  int rc = local->c_coll->coll_barrier(local, local->c_coll->coll_barrier_module);
  if (rc == MPI_SUCCESS && leads(h)) {
    rc = h->leaders->c_coll->coll_barrier(h->leaders, h->leaders->c_coll->coll_barrier_module);
  }
  return rc == MPI_SUCCESS ? local->c_coll->coll_barrier(local, local->c_coll->coll_barrier_module) : rc;
}

int coll_weft_hosts_bcast(const coll_weft_hosts* h, void* buffer, int count, struct ompi_datatype_t* type, int root) {
  const int host = h->host_of[root], here = h->host == host;
  int rc = here ? CALL(h->local, bcast, buffer, count, type, h->place_of[root]) : MPI_SUCCESS;
  if (rc == MPI_SUCCESS && leads(h)) rc = CALL(h->leaders, bcast, buffer, count, type, host);
  return rc == MPI_SUCCESS && !here ? CALL(h->local, bcast, buffer, count, type, 0) : rc;
}

int coll_weft_hosts_reduce_scatter_block(const coll_weft_hosts* h, const void* send, void* receive, int count,
                                         struct ompi_datatype_t* type, struct ompi_op_t* op) {
  const int ranks = h->hosts * h->each;
  size_t bytes = 0;
  ompi_datatype_type_size(type, &bytes);
  bytes *= (size_t)count;
  char* sum = leads(h) ? malloc(bytes * (size_t)ranks) : NULL;
  if (sum == NULL && leads(h)) return MPI_ERR_NO_MEM;
  int rc = reduce_to_leader(h, send, receive, sum, count * ranks, type, op);
  if (rc == MPI_SUCCESS && leads(h)) {
    rc = CALL(h->leaders, reduce_scatter_block, MPI_IN_PLACE, sum, count * h->each, type, op);
  }
  if (rc == MPI_SUCCESS) rc = CALL(h->local, scatter, sum, count, type, receive, count, type, 0);
  free(sum);
  return rc;
}

int coll_weft_hosts_allgather(const coll_weft_hosts* h, const void* send, int send_count,
                              struct ompi_datatype_t* send_type, void* receive, int receive_count,
                              struct ompi_datatype_t* receive_type) {
  ptrdiff_t lower = 0, extent = 0;
  ompi_datatype_get_extent(receive_type, &lower, &extent);
  const ptrdiff_t block = extent * receive_count;
  const int own = ompi_comm_rank(h->local);
  char* part = (char*)receive + block * h->host * h->each;
  if (send == MPI_IN_PLACE && !leads(h)) {
    send = part + block * own;
    send_count = receive_count;
    send_type = receive_type;
  }
  int rc = CALL(h->local, gather, send, send_count, send_type, part, receive_count, receive_type, 0);
  if (rc == MPI_SUCCESS && leads(h)) {
    rc =
        CALL(h->leaders, allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, receive, receive_count * h->each, receive_type);
  }
  return rc == MPI_SUCCESS ? CALL(h->local, bcast, receive, receive_count * h->hosts * h->each, receive_type, 0) : rc;
}
