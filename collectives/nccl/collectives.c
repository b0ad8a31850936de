// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
/*
 * Collectives of NCCL's CollNet: a group that switches run, or none, so that NCCL does without.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/nccl/plugin.h"

static const int64_t kMeetNs = (int64_t)30 * 1000000000;

/* --- a group comes about ----------------------------------------------------------------------------------------- */

/* Rank 0 hears all others, and tells them what it has heard: all handles, or that a rank has none. */
static int gather(const struct weft_nccl_listener* listener, uint32_t ranks, struct weft_nccl_hello* all,
                  int64_t deadline_ns) {
  int* sockets = malloc(ranks * sizeof *sockets);
  uint32_t heard = 1;
  int well = sockets != NULL;
  for (uint32_t r = 0; well && r < ranks; ++r) sockets[r] = -1;
  while (well && heard < ranks && weft_nccl_now_ns() < deadline_ns) {
    struct weft_nccl_hello hello;
    const int socket_ = weft_nccl_answer(listener);
    if (socket_ < 0) {
      usleep(1000);
      continue;
    }
    const int is_one = weft_nccl_receive_all(socket_, &hello, sizeof hello, deadline_ns) == 1 &&
                       hello.cookie == listener->cookie && hello.rank > 0 && hello.rank < ranks &&
                       sockets[hello.rank] < 0;
    if (!is_one) {
      close(socket_);
      continue;
    }
    sockets[hello.rank] = socket_;
    all[hello.rank] = hello;
    ++heard;
  }
  well = well && heard == ranks;
  for (uint32_t r = 1; sockets != NULL && r < ranks; ++r) {
    if (sockets[r] < 0) continue;
    if (well) well = weft_nccl_send_all(sockets[r], all, ranks * sizeof *all, deadline_ns) == 1;
    close(sockets[r]);
  }
  free(sockets);
  return well;
}

static int tell_first(const struct weft_nccl_handle* first, uint32_t rank, uint32_t ranks, struct weft_nccl_hello* all,
                      int64_t deadline_ns) {
  const int socket_ = weft_nccl_dial(first);
  if (socket_ < 0) return 0;
  const int well = weft_nccl_send_all(socket_, &all[rank], sizeof all[rank], deadline_ns) == 1 &&
                   weft_nccl_receive_all(socket_, all, ranks * sizeof *all, deadline_ns) == 1;
  close(socket_);
  return well;
}

/* All ranks' handles, the same at all. 0: a rank has none, or does not answer. */
static int exchange(void** handles, const struct weft_nccl_listener* listener, uint32_t rank, uint32_t ranks,
                    struct weft_nccl_hello* all) {
  const int64_t deadline_ns = weft_nccl_now_ns() + kMeetNs;
  struct weft_nccl_handle first;
  memcpy(&first, handles[0], sizeof first);
  all[rank].cookie = first.cookie;
  all[rank].rank = rank;
  const int well =
      rank == 0 ? gather(listener, ranks, all, deadline_ns) : tell_first(&first, rank, ranks, all, deadline_ns);
  for (uint32_t r = 0; well && r < ranks; ++r) {
    if (!all[r].usable) return 0;
  }
  return well;
}

/* True: switches run the group. All ranks find the same. */
static int get_switches(weft_inc_group* group, const struct weft_nccl_hello* all, uint32_t ranks) {
  enum weft_inc_status status = WEFT_INC_AGAIN;
  weft_inc_group_info info = {.size = sizeof info};
  weft_inc_handle* handles = malloc(ranks * sizeof *handles);
  if (handles == NULL) return 0;
  for (uint32_t r = 0; r < ranks; ++r) handles[r] = all[r].handle;
  const int begun = weft_inc_group_connect(group, handles, NULL) == WEFT_INC_OK;
  free(handles);
  while (begun && (status = weft_inc_group_test(group)) == WEFT_INC_AGAIN) usleep(200);
  if (status != WEFT_INC_OK || weft_inc_group_info_get(group, &info) != WEFT_INC_OK) {
    SAY("no collectives by switches: %s", weft_inc_last_error());
    return 0;
  }
  if (info.reason == WEFT_INC_REASON_NONE) {
    SAY("group %u: collectives of %u ranks by switches", info.group, ranks);
    return 1;
  }
  SAY("no collectives by switches: %s%s%s", weft_inc_reason_name(info.reason), info.detail[0] == '\0' ? "" : ", ",
      info.detail);
  return 0;
}

static struct weft_nccl_connection* join(void** handles, uint32_t ranks, uint32_t rank,
                                         const struct weft_nccl_listener* listener) {
  const weft_inc_group_options options = weft_nccl_group_options();
  weft_inc_group* group = NULL;
  struct weft_nccl_connection* made = NULL;
  struct weft_nccl_hello* all = calloc(ranks, sizeof *all);
  if (all == NULL) return NULL;
  all[rank].usable =
      weft_inc_group_create(weft_nccl_context(), &options, rank, ranks, &all[rank].handle, &group) == WEFT_INC_OK;
  if (!all[rank].usable) WARN("%s", weft_inc_last_error());
  if (!exchange(handles, listener, rank, ranks, all)) {
    SAY("no collectives by switches: a rank has no RNIC, or does not answer");
  } else if (get_switches(group, all, ranks)) {
    made = weft_nccl_connection_open(group, rank, ranks);
  }
  free(all);
  if (made == NULL) weft_inc_group_destroy(group);
  return made;
}

/* NCCL goes on without where this fails, and has forgotten the listener then: only its socket is taken back. */
nccl_result weft_nccl_join(void** handles, int ranks, int rank, void* listener, void** collective) {
  struct weft_nccl_listener* l = listener;
  *collective = NULL;
  if (weft_nccl_context() == NULL || ranks < 1 || rank < 0 || rank >= ranks) return NCCL_INVALID_ARGUMENT;
  *collective = join(handles, (uint32_t)ranks, (uint32_t)rank, l);
  if (*collective != NULL) return NCCL_OK;
  close(l->socket);
  l->socket = -1;
  return NCCL_INVALID_USAGE;
}

/* --- what is asked of it -------------------------------------------------------------------------------------------
 */

static int type_of(int nccl) {
  static const int types[] = {WEFT_INC_INT8,   WEFT_INC_UINT8, WEFT_INC_INT32, WEFT_INC_UINT32, WEFT_INC_INT64,
                              WEFT_INC_UINT64, WEFT_INC_FP16,  WEFT_INC_FP32,  WEFT_INC_FP64,   WEFT_INC_BF16};
  return nccl >= 0 && nccl < (int)(sizeof types / sizeof *types) ? types[nccl] : -1;
}

static int op_of(int nccl) {
  static const int ops[] = {WEFT_INC_SUM, WEFT_INC_PROD, WEFT_INC_MAX, WEFT_INC_MIN};
  return nccl >= 0 && nccl < (int)(sizeof ops / sizeof *ops) ? ops[nccl] : -1;
}

nccl_result weft_nccl_can_reduce(int type, int op, int* can) {
  *can = type_of(type) >= 0 && op_of(op) >= 0;
  return NCCL_OK;
}

/* NULL: NCCL asks again. */
static nccl_result begin(struct weft_nccl_connection* c, const struct weft_nccl_request* call, void** request) {
  *request = NULL;
  if (c->failed) return NCCL_REMOTE_ERROR;
  struct weft_nccl_request* r = weft_nccl_request_take(c);
  if (r == NULL) return NCCL_OK;
  r->post = call->post;
  r->steps = call->steps;
  r->send = call->send;
  r->receive = call->receive;
  r->bytes = call->bytes;
  r->block = call->block;
  r->offset = call->offset;
  r->type = call->type;
  r->op = call->op;
  weft_nccl_request_begin(r);
  *request = r;
  return NCCL_OK;
}

static enum weft_inc_status post_allreduce(struct weft_nccl_request* r, uint32_t step, weft_inc_request** posted) {
  (void)step;
  const enum weft_inc_type type = (enum weft_inc_type)r->type;
  return weft_inc_iallreduce(r->connection->group, r->send, r->receive, r->bytes / weft_inc_type_bytes(type), type,
                             (enum weft_inc_op)r->op, posted);
}

nccl_result weft_nccl_iallreduce(void* collective, void* send, void* receive, size_t count, int type, int op,
                                 void* send_memory, void* receive_memory, void** request) {
  (void)send_memory, (void)receive_memory;
  if (type_of(type) < 0 || op_of(op) < 0) return NCCL_INVALID_ARGUMENT;
  const struct weft_nccl_request call = {.post = post_allreduce,
                                         .steps = 1,
                                         .send = send,
                                         .receive = receive,
                                         .bytes = count * weft_inc_type_bytes((enum weft_inc_type)type_of(type)),
                                         .type = type_of(type),
                                         .op = op_of(op)};
  return begin(collective, &call, request);
}

struct range {
  size_t begin, end; /* of all ranks' blocks */
};

/* Of a window, what is in the block of a rank; nothing: begin is end. */
static struct range in_block(const struct weft_nccl_request* r, uint32_t rank) {
  const size_t first = rank * r->block, window_end = r->offset + r->bytes;
  struct range out = {first > r->offset ? first : r->offset,
                      first + r->block < window_end ? first + r->block : window_end};
  if (out.end < out.begin) out.end = out.begin;
  return out;
}

/* One Broadcast, or Reduce, for each rank: those of ranks that the window leaves out have no elements. */
static enum weft_inc_status post_gather(struct weft_nccl_request* r, uint32_t step, weft_inc_request** posted) {
  const struct range part = in_block(r, step);
  char* to = r->receive + (part.begin - r->offset);
  const size_t bytes = part.end - part.begin;
  if (step == r->connection->rank && bytes > 0 && to != r->send) memmove(to, r->send, bytes);
  return weft_inc_ibroadcast(r->connection->group, to, bytes, WEFT_INC_UINT8, step, posted);
}

static enum weft_inc_status post_scatter(struct weft_nccl_request* r, uint32_t step, weft_inc_request** posted) {
  const struct range part = in_block(r, step);
  const enum weft_inc_type type = (enum weft_inc_type)r->type;
  return weft_inc_ireduce(r->connection->group, r->send + (part.begin - r->offset), r->receive,
                          (part.end - part.begin) / weft_inc_type_bytes(type), type, (enum weft_inc_op)r->op, step,
                          posted);
}

static int window_fits(const struct weft_nccl_connection* c, size_t block, size_t offset, size_t bytes) {
  const size_t all = block * c->ranks;
  return all / c->ranks == block && offset <= all && bytes <= all - offset;
}

nccl_result weft_nccl_iallgather(void* collective, void* send, void* receive, size_t block, size_t offset, size_t bytes,
                                 void** request) {
  struct weft_nccl_connection* c = collective;
  if (!window_fits(c, block, offset, bytes)) return NCCL_INVALID_ARGUMENT;
  const struct weft_nccl_request call = {.post = post_gather,
                                         .steps = c->ranks,
                                         .send = send,
                                         .receive = receive,
                                         .bytes = bytes,
                                         .block = block,
                                         .offset = offset};
  return begin(c, &call, request);
}

nccl_result weft_nccl_ireduce_scatter(void* collective, void* send, void* receive, size_t block, size_t offset,
                                      size_t bytes, int type, int op, void** request) {
  struct weft_nccl_connection* c = collective;
  if (type_of(type) < 0 || op_of(op) < 0 || !window_fits(c, block, offset, bytes)) return NCCL_INVALID_ARGUMENT;
  const size_t element = weft_inc_type_bytes((enum weft_inc_type)type_of(type));
  if (block % element != 0 || offset % element != 0 || bytes % element != 0) return NCCL_INVALID_ARGUMENT;
  const struct weft_nccl_request call = {.post = post_scatter,
                                         .steps = c->ranks,
                                         .send = send,
                                         .receive = receive,
                                         .bytes = bytes,
                                         .block = block,
                                         .offset = offset,
                                         .type = type_of(type),
                                         .op = op_of(op)};
  return begin(c, &call, request);
}
