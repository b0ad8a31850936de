// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
/*
 * An Open MPI (4.1) component: collectives of communicators run on switches where they can, and where they did before
 * otherwise. Which calls go where follows from arguments that MPI wants to be the same at all ranks.
 */
#ifndef COLL_WEFT_H
#define COLL_WEFT_H

#include <ompi_config.h>

#include <mpi.h>
#include <ompi/communicator/communicator.h>
#include <ompi/mca/coll/coll.h>
#include "collectives/comm/weft_inc.h"

/* What the user has set: `mpirun --mca coll_weft_NAME VALUE`. */
struct coll_weft_settings {
  int priority;     /* above those that it takes the place of; -1: off */
  int use;          /* 0: off, 1: if possible, 2: required */
  int verbose;      /* 1: what becomes of communicators, and why; 2: of each call without switches, too */
  int report;       /* 1: one line for a communicator with collectives that ran without switches, at its end */
  int reproducible; /* sums of floats by switches are the same in every run */
  unsigned mtu;
  unsigned long min_bytes, max_bytes;          /* vectors beyond them stay where they were; 0: none are too large */
  char *address, *interface, *device, *socket; /* of the RNIC, and of weft-incd */
  unsigned poll_us;                            /* who waits looks for so long before it sleeps */
};
extern struct coll_weft_settings coll_weft_settings;

OMPI_MODULE_DECLSPEC extern const mca_coll_base_component_2_0_0_t mca_coll_weft_component;

/* On which hosts the ranks of a communicator are; with several on a host also who speaks with whom. */
typedef struct coll_weft_hosts {
  int hosts;     /* how many; in the order of their lowest ranks, which lead them */
  int each;      /* ranks on each, where all have as many and ranks of a host follow each other; 0 otherwise */
  int host;      /* of this rank */
  int* host_of;  /* by rank */
  int* place_of; /* by rank: among those of its host */
  struct ompi_communicator_t* local;     /* the ranks of this host; NULL: each host has one rank alone */
  struct ompi_communicator_t* leaders;   /* one rank of each host; MPI_COMM_NULL at the others */
  uint32_t local_number, leaders_number; /* by which MPI has these two */
} coll_weft_hosts;

/* Why calls go where they did before: those of the library, and behind them the component's own. */
enum coll_weft_reason {
  COLL_WEFT_EMPTY = WEFT_INC_REASONS, /* a count of 0 */
  COLL_WEFT_ONE_HOST,                 /* all ranks are on one host */
  COLL_WEFT_NO_RNIC,                  /* a rank has none, or does not reach the others */
  COLL_WEFT_UNEVEN_HOSTS, /* hosts have not all as many ranks, or those of a host do not follow each other */
  COLL_WEFT_REASONS
};

/* Who runs a call. */
enum coll_weft_way {
  COLL_WEFT_BEFORE,   /* whoever did before */
  COLL_WEFT_SWITCHES, /* the communicator's group: its switches, or when they are lost its hosts */
  COLL_WEFT_HOSTS     /* ranks of a host among themselves, and their leaders with each other */
};

/* A communicator: the functions that it had before, and its group. */
typedef struct coll_weft_module {
  mca_coll_base_module_t super;
  enum { COLL_WEFT_NEW, COLL_WEFT_OPENING, COLL_WEFT_READY, COLL_WEFT_OFF } state;
  int off;   /* why it is off */
  int inner; /* of ranks on a host, or of their leaders: the program does not know it */
  struct ompi_communicator_t* comm;
  uint64_t calls[COLL_WEFT_REASONS]; /* that went where they did before; the group counts those that it has run */
  weft_inc_group* group;             /* NULL where leaders have one */
  coll_weft_hosts hosts;
  mca_coll_base_comm_coll_t before;
} coll_weft_module;
OBJ_CLASS_DECLARATION(coll_weft_module);

/* The process's RNIC, opened when the first communicator wants it. NULL: there is none. */
weft_inc_context* coll_weft_context(void);
void coll_weft_close(void);

/* Who runs a call. Makes the group when the communicator is used for the first time: collective. */
enum coll_weft_way coll_weft_way_of(coll_weft_module* module, struct ompi_communicator_t* comm,
                                    enum weft_inc_primitive primitive, enum weft_inc_type type, enum weft_inc_op op,
                                    uint64_t bytes);
/* The component's part in a communicator; NULL: none, or no communicator. */
coll_weft_module* coll_weft_module_of(const struct ompi_communicator_t* comm);
/* A reason as a word: "no_manager", "one_host"... */
const char* coll_weft_reason_name(int reason);
/* Counts a call that goes where it did before. */
enum coll_weft_way coll_weft_fall_back(coll_weft_module* module, int reason);
/* All calls of a communicator by their reasons, WEFT_INC_REASON_NONE: by switches. calls: COLL_WEFT_REASONS of them. */
void coll_weft_calls(const coll_weft_module* module, uint64_t* calls);
/* The line that its lowest rank prints when a communicator ends; and one of all that were too many for lines. */
void coll_weft_report(const coll_weft_module* module);
void coll_weft_report_rest(void);
/* Whether a communicator has switches, by itself or by its leaders. Collective, as above. */
int coll_weft_group_ready(coll_weft_module* module, struct ompi_communicator_t* comm);

/* Finds out on which hosts the ranks are. Collective; an MPI error. */
int coll_weft_hosts_find(coll_weft_module* module, struct ompi_communicator_t* comm);
/* With several ranks on a host: makes the communicators of hosts and leaders. Whether the leaders have switches; if
 * not, `off` says why. */
int coll_weft_hosts_open(coll_weft_module* module, struct ompi_communicator_t* comm);
/* To be called before their end: MPI_Finalize ends communicators that programs have left in the order of their numbers,
 * and these two may be gone. */
void coll_weft_hosts_forget_ended(coll_weft_hosts* hosts);
void coll_weft_hosts_close(coll_weft_hosts* hosts);

/* The collectives in two steps; arguments and results are MPI's. The last two want `each`. */
int coll_weft_hosts_allreduce(const coll_weft_hosts* hosts, const void* send, void* receive, int count,
                              struct ompi_datatype_t* type, struct ompi_op_t* op);
int coll_weft_hosts_reduce(const coll_weft_hosts* hosts, const void* send, void* receive, int count,
                           struct ompi_datatype_t* type, struct ompi_op_t* op, int root);
int coll_weft_hosts_barrier(const coll_weft_hosts* hosts);
int coll_weft_hosts_bcast(const coll_weft_hosts* hosts, void* buffer, int count, struct ompi_datatype_t* type,
                          int root);
int coll_weft_hosts_reduce_scatter_block(const coll_weft_hosts* hosts, const void* send, void* receive, int count,
                                         struct ompi_datatype_t* type, struct ompi_op_t* op);
int coll_weft_hosts_allgather(const coll_weft_hosts* hosts, const void* send, int send_count,
                              struct ompi_datatype_t* send_type, void* receive, int receive_count,
                              struct ompi_datatype_t* receive_type);

/* Waits for a request that has been posted, and lets MPI go on meanwhile. An MPI error. */
int coll_weft_finish(enum weft_inc_status posted, weft_inc_request** request);

/* The library's number of a predefined type or operation; -1: it has none. */
int coll_weft_type(struct ompi_datatype_t* type);
int coll_weft_op(struct ompi_op_t* op);

int coll_weft_allreduce(const void* send, void* receive, int count, struct ompi_datatype_t* type, struct ompi_op_t* op,
                        struct ompi_communicator_t* comm, mca_coll_base_module_t* module);
int coll_weft_reduce(const void* send, void* receive, int count, struct ompi_datatype_t* type, struct ompi_op_t* op,
                     int root, struct ompi_communicator_t* comm, mca_coll_base_module_t* module);
int coll_weft_bcast(void* buffer, int count, struct ompi_datatype_t* type, int root, struct ompi_communicator_t* comm,
                    mca_coll_base_module_t* module);
int coll_weft_barrier(struct ompi_communicator_t* comm, mca_coll_base_module_t* module);
int coll_weft_reduce_scatter_block(const void* send, void* receive, int count, struct ompi_datatype_t* type,
                                   struct ompi_op_t* op, struct ompi_communicator_t* comm,
                                   mca_coll_base_module_t* module);
int coll_weft_allgather(const void* send, int send_count, struct ompi_datatype_t* send_type, void* receive,
                        int receive_count, struct ompi_datatype_t* receive_type, struct ompi_communicator_t* comm,
                        mca_coll_base_module_t* module);

#endif
