// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "collectives/nccl/plugin.h"

enum { BACKLOG = 1024 };

union any_address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
};

/* 0: the text is no address. */
static socklen_t address_of(const char* text, uint16_t port, union any_address* to) {
  memset(to, 0, sizeof *to);
  if (inet_pton(AF_INET, text, &to->v4.sin_addr) == 1) {
    to->v4.sin_family = AF_INET;
    to->v4.sin_port = htons(port);
    return sizeof to->v4;
  }
  if (inet_pton(AF_INET6, text, &to->v6.sin6_addr) != 1) return 0;
  to->v6.sin6_family = AF_INET6;
  to->v6.sin6_port = htons(port);
  return sizeof to->v6;
}

static int listen_at(const char* text, uint16_t* port) {
  union any_address at;
  socklen_t bytes = address_of(text, 0, &at);
  const int socket_ = bytes == 0 ? -1 : socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket_ < 0) return -1;
  if (bind(socket_, &at.any, bytes) != 0 || listen(socket_, BACKLOG) != 0 ||
      getsockname(socket_, &at.any, &bytes) != 0) {
    close(socket_);
    return -1;
  }
  *port = ntohs(at.any.sa_family == AF_INET ? at.v4.sin_port : at.v6.sin6_port);
  return socket_;
}

nccl_result weft_nccl_listen(int device, void* handle, void** listener) {
  struct weft_nccl_handle own;
  if (device != 0 || weft_nccl_context() == NULL) return NCCL_INVALID_ARGUMENT;
  struct weft_nccl_listener* made = calloc(1, sizeof *made);
  memset(&own, 0, sizeof own);
  if (made == NULL || getrandom(&own.cookie, sizeof own.cookie, 0) != sizeof own.cookie) {
    free(made);
    return NCCL_SYSTEM_ERROR;
  }
  strncpy(own.address, weft_nccl_address(), sizeof own.address - 1);
  made->cookie = own.cookie;
  made->socket = listen_at(own.address, &own.port);
  if (made->socket < 0) {
    WARN("cannot listen at %s: %s", own.address, strerror(errno));
    free(made);
    return NCCL_SYSTEM_ERROR;
  }
  memset(handle, 0, NCCL_HANDLE_BYTES);
  memcpy(handle, &own, sizeof own);
  *listener = made;
  return NCCL_OK;
}

nccl_result weft_nccl_close_listener(void* listener) {
  struct weft_nccl_listener* ended = listener;
  if (ended == NULL) return NCCL_OK;
  weft_nccl_end_accept(ended);
  if (ended->socket >= 0) close(ended->socket);
  free(ended);
  return NCCL_OK;
}

int weft_nccl_dial(const struct weft_nccl_handle* to) {
  union any_address at;
  const socklen_t bytes = address_of(to->address, to->port, &at);
  const int made = bytes == 0 ? -1 : socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) return -1;
  if (connect(made, &at.any, bytes) == 0 || errno == EINPROGRESS) return made;
  close(made);
  return -1;
}

int weft_nccl_answer(const struct weft_nccl_listener* listener) {
  return accept4(listener->socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

static int again(ssize_t n) {
  return n < 0 && (errno == EAGAIN || errno == EINTR || errno == EINPROGRESS);
}

int weft_nccl_send_some(int socket_, const void* data, size_t bytes, struct weft_nccl_exchange* state) {
  struct pollfd writable = {socket_, POLLOUT, 0};
  /* A socket that is still being connected takes nothing. */
  if (poll(&writable, 1, 0) == 0) return 0;
  const ssize_t n = send(socket_, (const char*)data + state->done, bytes - state->done, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n > 0) state->done += (size_t)n;
  if (n < 0 && !again(n)) return -1;
  return state->done == bytes;
}

int weft_nccl_receive_some(int socket_, void* data, size_t bytes, struct weft_nccl_exchange* state) {
  const ssize_t n = recv(socket_, (char*)data + state->done, bytes - state->done, MSG_DONTWAIT);
  if (n > 0) state->done += (size_t)n;
  if (n == 0 || (n < 0 && !again(n))) return -1;
  return state->done == bytes;
}

int64_t weft_nccl_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Waits until there is something to do; 0: the time is over. */
static int wait_for(int socket_, short events, int64_t deadline_ns) {
  const int64_t left = (deadline_ns - weft_nccl_now_ns()) / 1000000;
  struct pollfd one = {socket_, events, 0};
  if (left <= 0) return 0;
  poll(&one, 1, (int)(left < 1000 ? left : 1000));
  return 1;
}

int weft_nccl_send_all(int socket_, const void* data, size_t bytes, int64_t deadline_ns) {
  struct weft_nccl_exchange state = {0};
  int sent;
  while ((sent = weft_nccl_send_some(socket_, data, bytes, &state)) == 0) {
    if (!wait_for(socket_, POLLOUT, deadline_ns)) return -1;
  }
  return sent;
}

int weft_nccl_receive_all(int socket_, void* data, size_t bytes, int64_t deadline_ns) {
  struct weft_nccl_exchange state = {0};
  int received;
  while ((received = weft_nccl_receive_some(socket_, data, bytes, &state)) == 0) {
    if (!wait_for(socket_, POLLIN, deadline_ns)) return -1;
  }
  return received;
}
