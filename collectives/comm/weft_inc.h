// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
/*
 * libweftinc: collectives that switches run, and hosts where switches cannot.
 *
 *   weft_inc_open(NULL, &context);
 *   weft_inc_group_create(context, NULL, rank, ranks, &mine, &group);
 *   ... every rank gives its handle to all others, by whatever the program has for that ...
 *   weft_inc_group_connect(group, handles, NULL);
 *   while ((status = weft_inc_group_test(group)) == WEFT_INC_AGAIN) ...
 *   weft_inc_iallreduce(group, in, out, count, WEFT_INC_FP32, WEFT_INC_SUM, &request);
 *   weft_inc_wait(&request, 1000);
 *
 * All ranks of a group call the same collectives, with the same count, type, operation and root, in the same order.
 * Where the switches do not take one, the hosts run it among themselves, and weft_inc_can() says why. Which of the two
 * it is follows from the group and the call alone, so that all ranks decide alike. With WEFT_INC_LOG=info in its
 * environment a process says on standard error what becomes of its groups, and of each collective that hosts run the
 * reason: `weftinc: info: rank 0 of 4: allreduce of 4096 bytes by hosts: no_tree`.
 *
 * Functions may be called from any thread; a group and its requests from one at a time. Buffers of a request are the
 * library's until it is over. A thread of the library answers the network while the program computes.
 *
 * Elements are in the host's byte order, little endian. Sizes are bytes, unless they are counts of elements.
 *
 * Structures that grow with the library begin with `size`, which the program sets to their sizeof. To a program that
 * was built with an older header the fields that it does not know are zeros. One that was built with a newer header is
 * refused (WEFT_INC_INVALID) if it sets a field that this library does not know.
 */
#ifndef WEFT_INC_H
#define WEFT_INC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* What functions return. Negative: an error; weft_inc_last_error() has it in words. */
enum weft_inc_status {
  WEFT_INC_OK = 0,
  WEFT_INC_AGAIN = 1,        /* not yet over; or a post found no room for another request: try later */
  WEFT_INC_INVALID = -1,     /* an argument is wrong; nothing has happened */
  WEFT_INC_UNAVAILABLE = -2, /* no interface, no rights, or no way to another rank */
  WEFT_INC_REFUSED = -3,     /* the group has to be on switches, and is not (WEFT_INC_BACKEND_SWITCH) */
  WEFT_INC_FAILED = -4       /* a connection broke, ranks run different collectives, or the group is gone; it has to be
                                destroyed, and what its requests were to write is undefined */
};

/* Numbers are those of the control message (collectives/engine/arithmetic.h). */
enum weft_inc_type {
  WEFT_INC_FP32 = 0,
  WEFT_INC_FP16 = 1,
  WEFT_INC_BF16 = 2,
  WEFT_INC_FP64 = 3,
  WEFT_INC_INT8 = 4,
  WEFT_INC_INT16 = 5,
  WEFT_INC_INT32 = 6,
  WEFT_INC_INT64 = 7,
  WEFT_INC_UINT8 = 8,
  WEFT_INC_UINT16 = 9,
  WEFT_INC_UINT32 = 10,
  WEFT_INC_UINT64 = 11
};

/* The last three are for integers alone. Integer sums and products wrap, as MPI's do. */
enum weft_inc_op {
  WEFT_INC_SUM = 0,
  WEFT_INC_MIN = 1,
  WEFT_INC_MAX = 2,
  WEFT_INC_PROD = 3,
  WEFT_INC_BAND = 4,
  WEFT_INC_BOR = 5,
  WEFT_INC_BXOR = 6
};

enum weft_inc_primitive {
  WEFT_INC_ALLREDUCE = 0,
  WEFT_INC_REDUCE = 1,
  WEFT_INC_BROADCAST = 2,
  WEFT_INC_BARRIER = 3,
  WEFT_INC_REDUCE_SCATTER = 4,
  WEFT_INC_ALLGATHER = 5
};

/* Who runs the collectives of a group. */
enum weft_inc_backend {
  WEFT_INC_BACKEND_AUTO = 0,   /* switches where they can, hosts otherwise */
  WEFT_INC_BACKEND_SWITCH = 1, /* a group that gets no switches fails */
  WEFT_INC_BACKEND_RING = 2,   /* hosts; AllReduce is a ring */
  WEFT_INC_BACKEND_TREE = 3    /* hosts; AllReduce is a binomial tree up and down */
};

/* Why the hosts run a collective, or all of a group. */
enum weft_inc_reason {
  WEFT_INC_REASON_NONE = 0,          /* the switches run it */
  WEFT_INC_REASON_SINGLE_RANK = 1,   /* there is nobody to talk to */
  WEFT_INC_REASON_HOSTS_ASKED = 2,   /* the group's backend says so */
  WEFT_INC_REASON_NO_DAEMON = 3,     /* weft-incd does not run on the host of rank 0, or on this one */
  WEFT_INC_REASON_NO_MANAGER = 4,    /* weft-incd cannot reach weft-inc-manager */
  WEFT_INC_REASON_NO_TREE = 5,       /* no free tree of switches between the hosts; the detail says what is missing */
  WEFT_INC_REASON_SWITCH = 6,        /* a switch refused the group, or does not answer */
  WEFT_INC_REASON_BAD_REQUEST = 7,   /* the manager does not know a host, or takes no such group */
  WEFT_INC_REASON_NO_PATH = 8,       /* a rank does not reach its switch, or has not been told of one */
  WEFT_INC_REASON_TOO_SMALL = 9,     /* below min_bytes of the group */
  WEFT_INC_REASON_TOO_LARGE = 10,    /* above max_bytes of the group */
  WEFT_INC_REASON_NOT_READY = 11,    /* the group is not connected yet, or has failed */
  WEFT_INC_REASON_NO_OPERATION = 12, /* nobody runs it: no such primitive, type or operation, or none of this type */
  WEFT_INC_REASON_LOST = 13, /* the group had switches, and lost them; it asks for others (weft_inc_group_connect) */
  WEFT_INC_REASON_BUSY = 14  /* of a call: a group with the same memory of a switch had it at that time */
};
enum { WEFT_INC_REASONS = 15 };

typedef struct weft_inc_context weft_inc_context;
typedef struct weft_inc_group weft_inc_group;
typedef struct weft_inc_memory weft_inc_memory;
typedef struct weft_inc_request weft_inc_request;

/* What a rank has to give to all others. Plain bytes, the same on all machines. */
typedef struct weft_inc_handle {
  unsigned char bytes[256];
} weft_inc_handle;

/* Zeros and null pointers are defaults. */
typedef struct weft_inc_options {
  size_t size;           /* sizeof(weft_inc_options) */
  const char* address;   /* of this rank's RNIC, which no other rank has; default: the interface's or device's first */
  const char* interface; /* default: the one that has the address, or the only one that is up; none with a device */
  const char* socket;    /* of weft-incd; default: $WEFT_INC_SOCKET, or /run/weft/incd.sock; "": ask no daemon */
  const char* device;    /* of libibverbs, with RoCE v2: "mlx5_0", or with a port, "mlx5_0:2"; default, and "": none,
                            but weft's own RNIC in the process, on an interface */
  uint32_t poll_us;      /* weft_inc_wait() looks for so long for what comes before it sleeps, up to a second */
  uint64_t cache_bytes;  /* memory that stays registered when the request that has used it is over, at most; at most a
                            thousand buffers. 0: none, and each request of more than 16 KiB registers its buffers. A
                            program with a cache says what it gives back to the system (weft_inc_memory_gone) */
  const char* memif;     /* socket of a memif port of weft-switch (role: server), in place of an interface; `address`
                            has the length of its network then, "10.0.0.2/24", and `interface` names the interface of
                            the kernel that the library makes beside it; default: weftinc0, weftinc1... Routes beyond
                            its network are the program's to add */
} weft_inc_options;

typedef struct weft_inc_group_options {
  size_t size; /* sizeof(weft_inc_group_options) */
  enum weft_inc_backend backend;
  uint32_t mtu;             /* bytes of a full packet: 256, 512, 1024 (default), 2048 or 4096 */
  uint32_t message_packets; /* packets of a full message, 1 to 64; default 4 */
  uint32_t window;          /* messages under way on a connection, 1 to 256; default 8 */
  uint32_t mode;            /* of the switches, 1 to 3; 0: the manager's choice */
  int reproducible;         /* sums of floats by switches are the same to the last bit in every run */
  uint64_t min_bytes;       /* smaller vectors are left to the hosts */
  uint64_t max_bytes;       /* and larger ones; 0: none are too large */
  /* How it communicates, for a manager that lets groups of mode 2, its choice, have the memory of switches in turns
   * (policy temporal). Groups of modes 1 and 3 have memory of their own: */
  uint32_t duty_per_mille; /* of the time, 1 to 1000; 1000: it wants memory of its own; 0: as the manager's file says */
  uint32_t period_us;      /* of its job's iterations, in each of which it has one burst; 0: not known; at most 10^9 */
  uint32_t job;            /* groups of a job with the same number and period are staggered: see `offset_ns` of
                              weft_inc_group_info; 0: of none */
} weft_inc_group_options;

/* The switch's end of a rank's connection, where no manager makes the group (weftctl inc create, or YAML). */
typedef struct weft_inc_endpoint {
  const char* address; /* of the switch */
  uint32_t qp;         /* of the switch */
  uint32_t group;      /* its number on the switches */
  uint32_t window;     /* messages that it takes from a rank */
} weft_inc_endpoint;

/* This rank's end of that connection: what the switch has to be told of it. */
typedef struct weft_inc_member {
  char address[64];
  uint32_t qp;
  uint32_t first_psn;   /* that the rank sends */
  uint32_t expects_psn; /* that it receives */
  uint32_t mtu;
} weft_inc_member;

typedef struct weft_inc_group_info {
  size_t size;                 /* sizeof(weft_inc_group_info), before the call; what it does not hold is not told */
  enum weft_inc_reason reason; /* NONE: the group is on switches */
  char detail[256];            /* of the reason: a sentence, or an empty string */
  uint32_t group;              /* its number on the switches */
  uint64_t generation;         /* that the manager gave it; 0: no manager */
  uint32_t window;             /* messages under way towards the switch */
  uint64_t calls[WEFT_INC_REASONS]; /* collectives so far, by what weft_inc_can() said of them, or BUSY */
  int turns;          /* 1: other groups have the switches' memory, too, and it asks in front of each collective */
  int staggered;      /* 1: its bursts keep out of those of its job's other groups, */
  uint64_t offset_ns; /* if they begin at this time of the period, on a clock that the job has. The library delays no
                         call: who comes at another time may find the memory BUSY. Other switches, other times: to be
                         read again when `generation` is another one */
} weft_inc_group_info;

/* In words: "invalid", "no_tree", "allreduce", "fp32"...; "?" for numbers that are none. */
const char* weft_inc_status_name(enum weft_inc_status status);
const char* weft_inc_reason_name(enum weft_inc_reason reason);
const char* weft_inc_primitive_name(enum weft_inc_primitive primitive);
const char* weft_inc_type_name(enum weft_inc_type type);
const char* weft_inc_op_name(enum weft_inc_op op);
/* Bytes of an element; 0 for a number that is no type. */
size_t weft_inc_type_bytes(enum weft_inc_type type);
/* What went wrong in the calling thread's last call that returned an error. */
const char* weft_inc_last_error(void);

/* Opens an RNIC. weft's own needs CAP_NET_RAW and CAP_NET_ADMIN, a device enough memory that can be locked (ulimit -l).
 * options: NULL: defaults. */
enum weft_inc_status weft_inc_open(const weft_inc_options* options, weft_inc_context** context);
/* Ends a context, whose groups have been destroyed. NULL is fine. */
void weft_inc_close(weft_inc_context* context);

/* Makes a rank's part of a group of 1 to 1024 ranks. options: NULL: defaults; they are the same at all ranks. */
enum weft_inc_status weft_inc_group_create(weft_inc_context* context, const weft_inc_group_options* options,
                                           uint32_t rank, uint32_t ranks, weft_inc_handle* handle,
                                           weft_inc_group** group);
enum weft_inc_status weft_inc_group_member(const weft_inc_group* group, weft_inc_member* member);
/* Begins to connect. With a device the call, and those that go on with it, can wait a second for a neighbour's address.
 * handles: those of all ranks, in their order. endpoint: NULL: weft-incd asks the manager for a
 * group; otherwise every rank has to give its own. */
enum weft_inc_status weft_inc_group_connect(weft_inc_group* group, const weft_inc_handle* handles,
                                            const weft_inc_endpoint* endpoint);
/* OK: connected, by switches or hosts. It ends at all ranks alike.
 *
 * A group whose switches are gone goes on by its hosts, if all ranks are alive, and hosts have run none of its
 * collectives beside the switches (those that were BUSY are fine; those of min_bytes and max_bytes are not); what is
 * under way begins again. Otherwise it fails: after 5 s, or half of a lease if that is longer, and a second more for
 * each MB that hosts have to move before. A group of AUTO that has no switches asks for them again, at first after a
 * second, then after up to a minute: rank 0 does, between two collectives, while the others wait. */
enum weft_inc_status weft_inc_group_test(weft_inc_group* group);
enum weft_inc_status weft_inc_group_info_get(const weft_inc_group* group, weft_inc_group_info* info);
/* Ends a group. Waits, for 2 s at most, until all ranks are here. Its requests are over, or given up: then it does not
 * wait. NULL is fine. */
void weft_inc_group_destroy(weft_inc_group* group);

/* Registers memory, which saves doing so in every request that uses a part of it. */
enum weft_inc_status weft_inc_memory_register(weft_inc_context* context, void* data, size_t bytes,
                                              weft_inc_memory** memory);
/* No request uses it any more. NULL is fine. */
void weft_inc_memory_deregister(weft_inc_memory* memory);

/* To be called before memory that requests have used goes back to the system or becomes other memory: by munmap, mremap
 * or MADV_DONTNEED, and by free() of what malloc() has mapped (mallopt, M_MMAP_THRESHOLD). With cache_bytes the RNIC
 * would go on with the pages that were there, and send what nobody has written. No request uses the memory. Without a
 * cache, and for memory that is not in it, nothing happens. */
enum weft_inc_status weft_inc_memory_gone(weft_inc_context* context, const void* data, size_t bytes);

/* Whether switches would run a collective, and why not. bytes: of the vector as it goes to the switches: of one block
 * for ReduceScatter and AllGather. */
enum weft_inc_reason weft_inc_can(const weft_inc_group* group, enum weft_inc_primitive primitive,
                                  enum weft_inc_type type, enum weft_inc_op op, uint64_t bytes);

/* The collectives. Each begins, and gives a request; AGAIN: 32 of the group are under way. Send and receive buffers are
 * the same (in place) or do not overlap. A count of 0 is over at once. */
enum weft_inc_status weft_inc_iallreduce(weft_inc_group* group, const void* send, void* receive, size_t count,
                                         enum weft_inc_type type, enum weft_inc_op op, weft_inc_request** request);
/* receive: of the root alone. */
enum weft_inc_status weft_inc_ireduce(weft_inc_group* group, const void* send, void* receive, size_t count,
                                      enum weft_inc_type type, enum weft_inc_op op, uint32_t root,
                                      weft_inc_request** request);
enum weft_inc_status weft_inc_ibroadcast(weft_inc_group* group, void* buffer, size_t count, enum weft_inc_type type,
                                         uint32_t root, weft_inc_request** request);
enum weft_inc_status weft_inc_ibarrier(weft_inc_group* group, weft_inc_request** request);
/* send: a block of `count` for each rank. In place: receive is the rank's own block of send. */
enum weft_inc_status weft_inc_ireduce_scatter(weft_inc_group* group, const void* send, void* receive, size_t count,
                                              enum weft_inc_type type, enum weft_inc_op op, weft_inc_request** request);
/* receive: a block of `count` for each rank. In place: send is the rank's own block of receive. */
enum weft_inc_status weft_inc_iallgather(weft_inc_group* group, const void* send, void* receive, size_t count,
                                         enum weft_inc_type type, weft_inc_request** request);

/* OK and errors end the request, and set it to NULL; a request that is NULL is over. */
enum weft_inc_status weft_inc_test(weft_inc_request** request);
/* The same, and waits. timeout_ms: AGAIN after so long; negative: without end. */
enum weft_inc_status weft_inc_wait(weft_inc_request** request, int timeout_ms);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
