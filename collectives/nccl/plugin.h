// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
/*
 * The parts of the plugin. A connection, point to point or of a collective group, is a group of libweftinc with a queue
 * of requests in front of it.
 */
#ifndef WEFT_NCCL_PLUGIN_H
#define WEFT_NCCL_PLUGIN_H

#include <stdint.h>

#include "collectives/comm/weft_inc.h"
#include "collectives/nccl/abi.h"

/* --- context.c: the process's RNIC ------------------------------------------------------------------------------- */

/* Messages to NCCL's log. */
void weft_nccl_set_logger(nccl_logger logger);
void weft_nccl_log(int level, const char* function, int line, const char* format, ...)
    __attribute__((format(printf, 4, 5)));
#define SAY(...) weft_nccl_log(NCCL_LOG_INFO, __func__, __LINE__, __VA_ARGS__)
#define WARN(...) weft_nccl_log(NCCL_LOG_WARN, __func__, __LINE__, __VA_ARGS__)

/* Opened when it is asked for first; NULL: there is none, and the log says why. */
weft_inc_context* weft_nccl_context(void);
/* Of the RNIC, as text; "" without one. */
const char* weft_nccl_address(void);
/* Of groups: what the environment says. */
weft_inc_group_options weft_nccl_group_options(void);

nccl_result weft_nccl_devices(int* count);
/* The newest properties; other versions are parts of them. */
nccl_result weft_nccl_properties(int device, nccl_properties_v9* properties);
nccl_result weft_nccl_register(void* connection, void* data, size_t bytes, int kind, void** memory);
nccl_result weft_nccl_register_dmabuf(void* connection, void* data, size_t bytes, int kind, uint64_t offset, int file,
                                      void** memory);
nccl_result weft_nccl_deregister(void* connection, void* memory);

/* --- meeting.c: how ranks find each other ------------------------------------------------------------------------ */

/* What listen() writes for others. */
struct weft_nccl_handle {
  uint64_t cookie;  /* whoever knows it is one of us */
  void* connecting; /* of the rank that connects: its state between two calls */
  uint16_t port;    /* TCP */
  char address[64];
};
_Static_assert(sizeof(struct weft_nccl_handle) <= NCCL_HANDLE_BYTES, "what NCCL carries");

/* What ranks tell each other over TCP before they have a group. */
struct weft_nccl_hello {
  uint64_t cookie;
  uint32_t rank;
  uint32_t usable; /* 0: it has no group, so nobody has */
  weft_inc_handle handle;
};

/* A message on its way, in as many calls as it takes. */
struct weft_nccl_exchange {
  size_t done;
};

struct weft_nccl_listener {
  int socket;
  uint64_t cookie;
  void* accepting; /* of net.c */
};

nccl_result weft_nccl_listen(int device, void* handle, void** listener);
nccl_result weft_nccl_close_listener(void* listener);
/* A socket that connects, or -1. Nothing of the following waits. */
int weft_nccl_dial(const struct weft_nccl_handle* to);
/* The next connection, or -1. */
int weft_nccl_answer(const struct weft_nccl_listener* listener);
/* 1: all of it is through; 0: not yet; -1: the other end is gone. */
int weft_nccl_send_some(int socket, const void* data, size_t bytes, struct weft_nccl_exchange* state);
int weft_nccl_receive_some(int socket, void* data, size_t bytes, struct weft_nccl_exchange* state);
/* The same to the end. -1 also after deadline_ns of the monotonic clock. */
int weft_nccl_send_all(int socket, const void* data, size_t bytes, int64_t deadline_ns);
int weft_nccl_receive_all(int socket, void* data, size_t bytes, int64_t deadline_ns);
int64_t weft_nccl_now_ns(void);

/* --- queue.c: requests of a connection --------------------------------------------------------------------------- */

struct weft_nccl_request;

/* Posts step number `step` of a request: OK, or AGAIN where the group takes no more now. */
typedef enum weft_inc_status (*weft_nccl_post)(struct weft_nccl_request* request, uint32_t step,
                                               weft_inc_request** posted);

/* What goes in front of a message: how long it is. */
struct weft_nccl_header {
  uint64_t bytes;
};

struct weft_nccl_connection;

struct weft_nccl_request {
  struct weft_nccl_connection* connection;
  struct weft_nccl_request* next; /* in the order of the program's calls */
  weft_nccl_post post;
  uint32_t steps, posted, ended; /* of its steps */
  int taken;
  int after_first;                 /* the second step is made from what the first has brought */
  struct weft_nccl_header* header; /* registered */
  /* What the call was given. */
  const char* send;
  char* receive;
  size_t bytes, block, offset; /* of the vector or window; of a rank's block; where the window begins */
  int type, op;
};

struct weft_nccl_posted {
  weft_inc_request* request;
  struct weft_nccl_request* of;
};

struct weft_nccl_connection {
  weft_inc_group* group;
  uint32_t rank, ranks;
  struct weft_nccl_request requests[NCCL_REQUESTS];
  struct weft_nccl_header headers[NCCL_REQUESTS];
  weft_inc_memory* header_memory;
  struct weft_nccl_request *first, *last;        /* those that are not posted to their last step */
  struct weft_nccl_posted posted[NCCL_REQUESTS]; /* a ring: what the group runs, which ends in this order */
  uint32_t posted_first, posted_count;
  int failed;
};

/* A connection with a group that is ready, which becomes its own; NULL: no memory. */
struct weft_nccl_connection* weft_nccl_connection_open(weft_inc_group* group, uint32_t rank, uint32_t ranks);
/* Gives up what is under way. */
void weft_nccl_connection_close(struct weft_nccl_connection* connection);
/* A request that is not in the queue yet; NULL: as many as NCCL may have are under way. */
struct weft_nccl_request* weft_nccl_request_take(struct weft_nccl_connection* connection);
/* Puts it into the queue, and begins what can begin. */
void weft_nccl_request_begin(struct weft_nccl_request* request);
/* Goes on with all of a connection. */
void weft_nccl_advance(struct weft_nccl_connection* connection);
nccl_result weft_nccl_test(void* request, int* done, int* bytes);

/* --- net.c, collectives.c ---------------------------------------------------------------------------------------- */

nccl_result weft_nccl_connect(int device, void* handle, void** sender, void** device_sender);
nccl_result weft_nccl_accept(void* listener, void** receiver, void** device_receiver);
/* Gives up a connection that accept() has begun. */
void weft_nccl_end_accept(struct weft_nccl_listener* listener);
nccl_result weft_nccl_isend(void* sender, void* data, size_t bytes, int tag, void* memory, void** request);
nccl_result weft_nccl_irecv(void* receiver, void* data, size_t bytes, void** request);
nccl_result weft_nccl_close(void* connection);

nccl_result weft_nccl_join(void** handles, int ranks, int rank, void* listener, void** collective);
nccl_result weft_nccl_can_reduce(int type, int op, int* can);
nccl_result weft_nccl_iallreduce(void* collective, void* send, void* receive, size_t count, int type, int op,
                                 void* send_memory, void* receive_memory, void** request);
nccl_result weft_nccl_iallgather(void* collective, void* send, void* receive, size_t block, size_t offset, size_t bytes,
                                 void** request);
nccl_result weft_nccl_ireduce_scatter(void* collective, void* send, void* receive, size_t block, size_t offset,
                                      size_t bytes, int type, int op, void** request);

#endif
