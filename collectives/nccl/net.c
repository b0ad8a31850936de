// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
/*
 * Messages from one rank to another: a group of two ranks, whose first one sends. A message is two broadcasts by the
 * hosts, over their queue pair: how long it is, and what is in it.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/nccl/plugin.h"

enum { SENDER = 0, RECEIVER = 1, RANKS = 2 };
static const int64_t kMeetNs = (int64_t)30 * 1000000000;
static const uint64_t kEnd = UINT64_MAX; /* in place of a length: there is no message any more */

/* Two ranks on their way to a connection. */
struct meeting {
  uint32_t rank;
  int socket;
  enum { SENDING, RECEIVING, CONNECTING } stage;
  uint64_t cookie;
  int64_t deadline_ns;
  struct weft_nccl_exchange out, in;
  struct weft_nccl_hello ours, theirs;
  weft_inc_group* group;
};

static void end_meeting(struct meeting* m) {
  if (m->socket >= 0) close(m->socket);
  weft_inc_group_destroy(m->group);
  free(m);
}

static struct meeting* begin_meeting(int socket_, uint32_t rank, uint64_t cookie) {
  struct meeting* m = calloc(1, sizeof *m);
  weft_inc_group_options options = weft_nccl_group_options();
  options.backend = WEFT_INC_BACKEND_TREE;
  if (m == NULL) return NULL;
  m->rank = rank;
  m->socket = socket_;
  m->stage = rank == SENDER ? SENDING : RECEIVING;
  m->cookie = cookie;
  m->deadline_ns = weft_nccl_now_ns() + kMeetNs;
  m->ours.cookie = cookie;
  m->ours.rank = rank;
  m->ours.usable = 1;
  if (weft_inc_group_create(weft_nccl_context(), &options, rank, RANKS, &m->ours.handle, &m->group) != WEFT_INC_OK) {
    WARN("%s", weft_inc_last_error());
    free(m);
    return NULL;
  }
  return m;
}

static int send_hello(struct meeting* m) {
  const int sent = weft_nccl_send_some(m->socket, &m->ours, sizeof m->ours, &m->out);
  if (sent == 1) m->stage = m->rank == SENDER ? RECEIVING : CONNECTING;
  return sent;
}

static int receive_hello(struct meeting* m) {
  const int received = weft_nccl_receive_some(m->socket, &m->theirs, sizeof m->theirs, &m->in);
  if (received != 1) return received;
  if (m->theirs.cookie != m->cookie || m->theirs.rank != 1 - m->rank) return -1;
  m->stage = m->rank == SENDER ? CONNECTING : SENDING;
  return 1;
}

static int connect_group(struct meeting* m) {
  if (m->socket >= 0) {
    weft_inc_handle handles[RANKS];
    handles[m->rank] = m->ours.handle;
    handles[1 - m->rank] = m->theirs.handle;
    close(m->socket);
    m->socket = -1;
    if (weft_inc_group_connect(m->group, handles, NULL) != WEFT_INC_OK) {
      WARN("%s", weft_inc_last_error());
      return -1;
    }
  }
  const enum weft_inc_status status = weft_inc_group_test(m->group);
  if (status == WEFT_INC_AGAIN) return 0;
  if (status != WEFT_INC_OK) WARN("%s", weft_inc_last_error());
  return status == WEFT_INC_OK ? 1 : -1;
}

/* 1: the group is ready; 0: to be called again; -1: it will not be. */
static int go_on(struct meeting* m) {
  int through = 1;
  while (through == 1) {
    switch (m->stage) {
      case SENDING:
        through = send_hello(m);
        break;
      case RECEIVING:
        through = receive_hello(m);
        break;
      case CONNECTING:
        through = connect_group(m);
        if (through == 1) return 1;
        break;
    }
  }
  return through == 0 && weft_nccl_now_ns() > m->deadline_ns ? -1 : through;
}

/* The connection of a meeting that is over, which is freed. */
static nccl_result take_connection(struct meeting* m, void** connection) {
  *connection = weft_nccl_connection_open(m->group, m->rank, RANKS);
  if (*connection != NULL) m->group = NULL;
  end_meeting(m);
  return *connection == NULL ? NCCL_SYSTEM_ERROR : NCCL_OK;
}

nccl_result weft_nccl_connect(int device, void* handle, void** sender, void** device_sender) {
  struct weft_nccl_handle to;
  (void)device_sender;
  *sender = NULL;
  if (device != 0 || weft_nccl_context() == NULL) return NCCL_INVALID_ARGUMENT;
  memcpy(&to, handle, sizeof to);
  struct meeting* m = to.connecting;
  if (m == NULL) {
    const int socket_ = weft_nccl_dial(&to);
    m = socket_ < 0 ? NULL : begin_meeting(socket_, SENDER, to.cookie);
    if (m == NULL) {
      WARN("%.64s cannot be reached", to.address);
      if (socket_ >= 0) close(socket_);
      return NCCL_SYSTEM_ERROR;
    }
    to.connecting = m;
    memcpy(handle, &to, sizeof to);
  }
  const int state = go_on(m);
  if (state == 0) return NCCL_OK;
  to.connecting = NULL;
  memcpy(handle, &to, sizeof to);
  if (state == 1) return take_connection(m, sender);
  WARN("no connection with %.64s", to.address);
  end_meeting(m);
  return NCCL_REMOTE_ERROR;
}

nccl_result weft_nccl_accept(void* listener, void** receiver, void** device_receiver) {
  struct weft_nccl_listener* l = listener;
  (void)device_receiver;
  *receiver = NULL;
  if (l->accepting == NULL) {
    const int socket_ = weft_nccl_answer(l);
    if (socket_ < 0) return NCCL_OK;
    l->accepting = begin_meeting(socket_, RECEIVER, l->cookie);
    if (l->accepting == NULL) {
      close(socket_);
      return NCCL_SYSTEM_ERROR;
    }
  }
  struct meeting* m = l->accepting;
  const int state = go_on(m);
  if (state == 0) return NCCL_OK;
  l->accepting = NULL;
  if (state == 1) return take_connection(m, receiver);
  /* Somebody who is not one of us has called; whoever is calls anew. */
  const int stranger = m->stage == RECEIVING;
  end_meeting(m);
  return stranger ? NCCL_OK : NCCL_REMOTE_ERROR;
}

void weft_nccl_end_accept(struct weft_nccl_listener* listener) {
  if (listener->accepting != NULL) end_meeting(listener->accepting);
  listener->accepting = NULL;
}

static enum weft_inc_status broadcast(struct weft_nccl_connection* c, void* data, size_t bytes, uint32_t root,
                                      weft_inc_request** posted) {
  return weft_inc_ibroadcast(c->group, data, bytes, WEFT_INC_UINT8, root, posted);
}

static enum weft_inc_status post_send(struct weft_nccl_request* r, uint32_t step, weft_inc_request** posted) {
  if (step == 0) return broadcast(r->connection, r->header, sizeof *r->header, SENDER, posted);
  /* Nothing is written to what the root of a broadcast gives. */
  return broadcast(r->connection, (char*)r->send, r->bytes, SENDER, posted);
}

/* What has come in front may be longer than the program's buffer, or the end. */
static enum weft_inc_status post_receive(struct weft_nccl_request* r, uint32_t step, weft_inc_request** posted) {
  if (step == 0) return broadcast(r->connection, r->header, sizeof *r->header, SENDER, posted);
  if (r->header->bytes > r->bytes) {
    r->header->bytes == kEnd ? WARN("the sender has closed the connection")
                             : WARN("a message of %llu bytes came, and there is room for %zu",
                                    (unsigned long long)r->header->bytes, r->bytes);
    r->connection->failed = 1;
    return WEFT_INC_FAILED;
  }
  r->bytes = (size_t)r->header->bytes;
  return broadcast(r->connection, r->receive, r->bytes, SENDER, posted);
}

nccl_result weft_nccl_isend(void* sender, void* data, size_t bytes, int tag, void* memory, void** request) {
  struct weft_nccl_connection* c = sender;
  (void)tag, (void)memory;
  *request = NULL;
  if (c->failed) return NCCL_REMOTE_ERROR;
  struct weft_nccl_request* r = weft_nccl_request_take(c);
  if (r == NULL) return NCCL_OK;
  r->post = post_send;
  r->steps = 2;
  r->send = data;
  r->bytes = bytes;
  r->header->bytes = bytes;
  weft_nccl_request_begin(r);
  *request = r;
  return NCCL_OK;
}

nccl_result weft_nccl_irecv(void* receiver, void* data, size_t bytes, void** request) {
  struct weft_nccl_connection* c = receiver;
  *request = NULL;
  if (c->failed) return NCCL_REMOTE_ERROR;
  struct weft_nccl_request* r = weft_nccl_request_take(c);
  if (r == NULL) return NCCL_OK;
  r->post = post_receive;
  r->steps = 2;
  r->after_first = 1;
  r->receive = data;
  r->bytes = bytes;
  weft_nccl_request_begin(r);
  *request = r;
  return NCCL_OK;
}

/* A group with nothing under way would wait for its other rank, which closes its end when it likes. What is posted here
 * does not end: nobody sends to a sender, and nothing comes behind the end. */
nccl_result weft_nccl_close(void* connection) {
  struct weft_nccl_connection* c = connection;
  if (c == NULL) return NCCL_OK;
  struct weft_nccl_header farewell[2] = {{kEnd}, {0}};
  weft_inc_request* posted[2] = {NULL, NULL};
  for (int i = 0; i < 2; ++i) {
    const uint32_t root = c->rank == SENDER && i == 1 ? RECEIVER : SENDER;
    broadcast(c, &farewell[i], sizeof farewell[i], root, &posted[i]);
  }
  weft_nccl_connection_close(c);
  for (int i = 0; i < 2; ++i) weft_inc_wait(&posted[i], 0);
  return NCCL_OK;
}
