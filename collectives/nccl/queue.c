// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <limits.h>
#include <stdlib.h>

#include "collectives/nccl/plugin.h"

struct weft_nccl_connection* weft_nccl_connection_open(weft_inc_group* group, uint32_t rank, uint32_t ranks) {
  struct weft_nccl_connection* made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  if (weft_inc_memory_register(weft_nccl_context(), made->headers, sizeof made->headers, &made->header_memory) !=
      WEFT_INC_OK) {
    WARN("%s", weft_inc_last_error());
    free(made);
    return NULL;
  }
  made->group = group;
  made->rank = rank;
  made->ranks = ranks;
  return made;
}

void weft_nccl_connection_close(struct weft_nccl_connection* c) {
  if (c == NULL) return;
  weft_inc_group_destroy(c->group);
  /* They are over since their group is. */
  for (; c->posted_count > 0; --c->posted_count) {
    weft_inc_wait(&c->posted[c->posted_first].request, 0);
    c->posted_first = (c->posted_first + 1) % NCCL_REQUESTS;
  }
  weft_inc_memory_deregister(c->header_memory);
  free(c);
}

struct weft_nccl_request* weft_nccl_request_take(struct weft_nccl_connection* c) {
  for (int i = 0; i < NCCL_REQUESTS; ++i) {
    struct weft_nccl_request* r = &c->requests[i];
    if (r->taken) continue;
    *r = (struct weft_nccl_request){.connection = c, .taken = 1, .header = &c->headers[i]};
    return r;
  }
  return NULL;
}

void weft_nccl_request_begin(struct weft_nccl_request* r) {
  struct weft_nccl_connection* c = r->connection;
  if (c->last == NULL) {
    c->first = r;
  } else {
    c->last->next = r;
  }
  c->last = r;
  weft_nccl_advance(c);
}

static void fail(struct weft_nccl_connection* c) {
  if (!c->failed) WARN("%s", weft_inc_last_error());
  c->failed = 1;
}

/* What is over, in its order. */
static void take_ends(struct weft_nccl_connection* c) {
  while (c->posted_count > 0 && !c->failed) {
    struct weft_nccl_posted* p = &c->posted[c->posted_first];
    const enum weft_inc_status status = weft_inc_test(&p->request);
    if (status == WEFT_INC_AGAIN) return;
    if (status != WEFT_INC_OK) return fail(c);
    ++p->of->ended;
    c->posted_first = (c->posted_first + 1) % NCCL_REQUESTS;
    --c->posted_count;
  }
}

/* All ranks post the same in the same order: no request begins before all steps of the one in front of it have. */
static void post_steps(struct weft_nccl_connection* c) {
  while (c->first != NULL && !c->failed) {
    struct weft_nccl_request* r = c->first;
    while (r->posted < r->steps) {
      if (c->posted_count == NCCL_REQUESTS || (r->after_first && r->posted == 1 && r->ended == 0)) return;
      struct weft_nccl_posted* p = &c->posted[(c->posted_first + c->posted_count) % NCCL_REQUESTS];
      p->of = r;
      p->request = NULL;
      const enum weft_inc_status status = r->post(r, r->posted, &p->request);
      if (status == WEFT_INC_AGAIN) return;
      if (status != WEFT_INC_OK) return fail(c);
      ++c->posted_count;
      ++r->posted;
    }
    c->first = r->next;
    if (c->first == NULL) c->last = NULL;
  }
}

void weft_nccl_advance(struct weft_nccl_connection* c) {
  take_ends(c);
  post_steps(c);
}

nccl_result weft_nccl_test(void* request, int* done, int* bytes) {
  struct weft_nccl_request* r = request;
  weft_nccl_advance(r->connection);
  *done = 0;
  if (r->connection->failed) return NCCL_REMOTE_ERROR;
  if (r->posted < r->steps || r->ended < r->steps) return NCCL_OK;
  *done = 1;
  if (bytes != NULL) *bytes = r->bytes > INT_MAX ? INT_MAX : (int)r->bytes;
  r->taken = 0;
  return NCCL_OK;
}
