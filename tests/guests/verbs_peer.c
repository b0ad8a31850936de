// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The other end of `weft-rnic verify`, with the verbs of Linux: `verbs_peer ADDRESS` serves one connection,
// `verbs_peer ADDRESS SERVER MTU TIMEOUT` verifies a server of weft-rnic in the same way: every opcode with sizes
// around the MTU there, compared by hash, and back by READ. tools/weft-rnic/greeting.h has the private data and what is
// published.
//
// SEND with Invalidate closes a memory window of type 2: those that a user may bind are the keys that Linux lets a peer
// invalidate.
#include <arpa/inet.h>
#include <endian.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  kLargest = 1 << 18,
  kReceives = 256,
  kPort = 18515,
  kMagic = 0x77726e31,
  kVerify = 6,
  kMemory = 2 * kLargest + 128,
  kImmediates = 0x57000000
};

struct hello {
  uint32_t magic;
  uint8_t test, loss_recovery, renack, reserved;
  uint32_t size, depth, reorder_window;
  uint64_t address;
  uint32_t rkey;
} __attribute__((packed));
struct welcome {
  uint32_t magic, rkey;
  uint64_t address, statistics;
} __attribute__((packed));

struct statistics {
  uint64_t packets, duplicates, out_of_order, naks_sent, ce_marked, cnps_sent;
  uint64_t window_address;
  uint32_t window_rkey, invalidations;
  uint64_t hash;
  uint32_t hashes, last_immediate;
} __attribute__((packed));

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_mw *window;
static struct ibv_cq *cq;
static struct welcome peer;
static uint8_t *memory;
static unsigned done;

static void need(int condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "verbs_peer: %s\n", what);
  exit(1);
}

static struct rdma_cm_event *wait_for(enum rdma_cm_event_type type) {
  struct rdma_cm_event *event;
  need(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
  if (event->event != type) {
    fprintf(stderr, "verbs_peer: %s, status %d\n", rdma_event_str(event->event), event->status);
    exit(1);
  }
  return event;
}

static void receive(void) {
  struct ibv_sge sge = {(uintptr_t)memory, kLargest, mr->lkey};
  struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
  need(ibv_post_recv(id->qp, &wr, &bad) == 0, "ibv_post_recv");
}

static void make_queue_pair(void) {
  const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                  IBV_ACCESS_MW_BIND;
  cq = ibv_create_cq(id->verbs, 2 * kReceives, NULL, NULL, 0);
  pd = ibv_alloc_pd(id->verbs);
  struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
  attr.cap.max_send_wr = attr.cap.max_recv_wr = kReceives;
  attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
  need(cq && pd && rdma_create_qp(id, pd, &attr) == 0, "rdma_create_qp");
  memory = calloc(1, kMemory);
  mr = ibv_reg_mr(pd, memory, kMemory, all);
  need(mr != NULL, "ibv_reg_mr");
  for (int i = 0; i < kReceives; ++i) receive();
}

static uint64_t hash(const uint8_t *bytes, uint32_t count) {
  uint64_t h = 0xcbf29ce484222325;
  for (uint32_t i = 0; i < count; ++i) h = (h ^ bytes[i]) * 0x100000001b3;
  return h;
}

static struct statistics *published(void) { return (struct statistics *)(memory + 2 * kLargest); }

// Gives the window a new key, with which it opens when the work request has completed.
static void open_window(void) {
  struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;
  wr.bind_mw.mw = window;
  wr.bind_mw.rkey = ibv_inc_rkey(window->rkey);
  wr.bind_mw.bind_info.mr = mr;
  wr.bind_mw.bind_info.addr = (uintptr_t)memory;
  wr.bind_mw.bind_info.length = kLargest;
  wr.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  need(ibv_post_send(id->qp, &wr, &bad) == 0, "binding a memory window");
}

static void note(const struct ibv_wc *wc) {
  struct statistics *s = published();
  if (wc->status == IBV_WC_WR_FLUSH_ERR) return;
  if (wc->status != IBV_WC_SUCCESS) {
    fprintf(stderr, "verbs_peer: completion of kind %d: %s\n", wc->opcode, ibv_wc_status_str(wc->status));
    exit(1);
  }
  if (wc->opcode == IBV_WC_BIND_MW) {
    window->rkey = ibv_inc_rkey(window->rkey);
    s->window_address = htobe64((uintptr_t)memory);
    s->window_rkey = htobe32(window->rkey);
    return;
  }
  receive();
  // rdma_rxe gives a user the kernel's number of this flag, which is another one's in libibverbs.
  if (wc->wc_flags & (IBV_WC_WITH_INV | IBV_WC_IP_CSUM_OK)) {
    need(wc->invalidated_rkey == window->rkey, "another key was invalidated than the window's");
    s->invalidations = htobe32(be32toh(s->invalidations) + 1);
    open_window();
  } else if (wc->wc_flags & IBV_WC_WITH_IMM) {
    const uint32_t immediate = be32toh(wc->imm_data);
    if (immediate > kLargest) {
      s->last_immediate = htobe32(immediate);
    } else {
      s->hash = htobe64(hash(memory, immediate));
      s->hashes = htobe32(be32toh(s->hashes) + 1);
    }
  }
}

static void serve(void) {
  need(rdma_listen(id, 1) == 0, "rdma_listen");
  struct rdma_cm_event *event = wait_for(RDMA_CM_EVENT_CONNECT_REQUEST);
  id = event->id;
  make_queue_pair();
  window = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
  need(window != NULL, "ibv_alloc_mw");
  struct welcome w = {htobe32(kMagic), htobe32(mr->rkey), htobe64((uintptr_t)memory),
                      htobe64((uintptr_t)memory + 2 * kLargest)};
  struct rdma_conn_param param = {.private_data = &w, .private_data_len = sizeof w};
  param.responder_resources = event->param.conn.responder_resources;
  param.initiator_depth = event->param.conn.initiator_depth;
  param.rnr_retry_count = 7;
  need(rdma_accept(id, &param) == 0, "rdma_accept");
  rdma_ack_cm_event(event);
  rdma_ack_cm_event(wait_for(RDMA_CM_EVENT_ESTABLISHED));
  open_window();
  struct pollfd waiting = {channel->fd, POLLIN, 0};
  struct ibv_wc wc;
  // The client ends with a WRITE that is refused: what comes then is flushed.
  while (poll(&waiting, 1, 0) == 0) {
    while (ibv_poll_cq(cq, 1, &wc) == 1) note(&wc);
  }
  wait_for(RDMA_CM_EVENT_DISCONNECTED);
  rdma_disconnect(id);
  printf("served, %u windows closed\n", be32toh(published()->invalidations));
}

// Posts a work request and waits for its end.
static enum ibv_wc_status status_of(struct ibv_send_wr *wr, uint32_t local, uint32_t length) {
  struct ibv_sge sge = {(uintptr_t)memory + local, length, mr->lkey};
  struct ibv_send_wr *bad;
  struct ibv_wc wc;
  int count;
  wr->sg_list = &sge;
  wr->num_sge = 1;
  wr->send_flags = IBV_SEND_SIGNALED;
  wr->wr_id = ++done;
  need(ibv_post_send(id->qp, wr, &bad) == 0, "ibv_post_send");
  while ((count = ibv_poll_cq(cq, 1, &wc)) == 0) continue;
  need(count == 1 && wc.wr_id == done, "ibv_poll_cq");
  return wc.status;
}

static void succeed(struct ibv_send_wr *wr, uint32_t local, uint32_t length) {
  const enum ibv_wc_status status = status_of(wr, local, length);
  if (status == IBV_WC_SUCCESS) return;
  fprintf(stderr, "verbs_peer: opcode %d of %u bytes: %s\n", wr->opcode, length, ibv_wc_status_str(status));
  exit(1);
}

static void complete(struct ibv_send_wr *wr, uint32_t local, uint32_t length, uint64_t remote) {
  if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
    wr->wr.atomic.remote_addr = remote;
    wr->wr.atomic.rkey = be32toh(peer.rkey);
  } else {
    wr->wr.rdma.remote_addr = remote;
    wr->wr.rdma.rkey = be32toh(peer.rkey);
  }
  succeed(wr, local, length);
}

// What the server publishes.
static struct statistics server(void) {
  struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_READ};
  complete(&wr, 2 * kLargest, sizeof(struct statistics), be64toh(peer.statistics));
  return *published();
}

static void there_and_back(enum ibv_wr_opcode opcode, uint32_t size) {
  const uint64_t remote = be64toh(peer.address);
  const uint32_t immediate = kImmediates + done;
  for (uint32_t i = 0; i < size; ++i) memory[i] = (uint8_t)(rand() >> 8);
  const uint64_t sent = hash(memory, size);
  memset(memory + kLargest, 0, kLargest);
  const struct statistics before = server();
  struct statistics after;
  struct ibv_send_wr wr = {.opcode = opcode, .imm_data = htobe32(immediate)};
  if (opcode == IBV_WR_SEND_WITH_INV) {
    wr.invalidate_rkey = be32toh(before.window_rkey);
    succeed(&wr, 0, size);
  } else if (opcode == IBV_WR_RDMA_WRITE) {
    wr.wr.rdma.remote_addr = be64toh(before.window_address);
    wr.wr.rdma.rkey = be32toh(before.window_rkey);
    succeed(&wr, 0, size);
  } else {
    complete(&wr, 0, size, remote);
  }
  struct ibv_send_wr question = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = htobe32(size)};
  complete(&question, 0, 0, remote);
  do after = server();
  while (after.hashes == before.hashes);
  need(be64toh(after.hash) == sent, "the data that the server has is not the same");
  if (opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
    need(be32toh(after.last_immediate) == immediate, "the server got another immediate");
  }
  need(be32toh(after.invalidations) - be32toh(before.invalidations) == (opcode == IBV_WR_SEND_WITH_INV),
       "windows were closed that should not, or not those that should");
  struct ibv_send_wr back = {.opcode = IBV_WR_RDMA_READ};
  complete(&back, kLargest, size, remote);
  need(hash(memory + kLargest, size) == sent, "the data that was read back is not the same");
}

// The last act: a window that was closed is closed, and the queue pair ends.
static void closed_window(void) {
  const struct statistics s = server();
  struct ibv_send_wr close = {.opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = be32toh(s.window_rkey)};
  succeed(&close, 0, 0);
  struct ibv_send_wr write = {.opcode = IBV_WR_RDMA_WRITE};
  write.wr.rdma.remote_addr = be64toh(s.window_address);
  write.wr.rdma.rkey = be32toh(s.window_rkey);
  const enum ibv_wc_status status = status_of(&write, 0, 8);
  // The NAK that refuses it is sent once: where it is lost, the server ends the connection.
  need(status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_WR_FLUSH_ERR || status == IBV_WC_RETRY_EXC_ERR,
       "a WRITE through a closed window was executed");
}

static void atomics(void) {
  uint64_t expected = 0, found;
  const uint64_t remote = be64toh(peer.address);
  memset(memory, 0, 8);
  struct ibv_send_wr zero = {.opcode = IBV_WR_RDMA_WRITE};
  complete(&zero, 0, 8, remote);
  for (uint64_t i = 1; i <= 50; ++i) {
    const int swap = i % 3 == 0;
    struct ibv_send_wr wr = {.opcode = swap ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD};
    wr.wr.atomic.compare_add = swap ? expected : i;
    wr.wr.atomic.swap = i * 1000;
    complete(&wr, 0, 8, remote);
    memcpy(&found, memory, 8);
    need(found == expected, "an atomic operation found another value than was left there");
    expected = swap ? i * 1000 : expected + i;
  }
}

static void verify(struct sockaddr_in *to, uint32_t mtu, uint8_t timeout) {
  const uint32_t sizes[] = {0, 1, 3, mtu - 1, mtu, mtu + 1, 2 * mtu - 1, 2 * mtu, 2 * mtu + 1, 5 * mtu + 7, 33 * mtu};
  static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV,
                                               IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM};
  if (timeout != 0) {
    need(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout) == 0,
         "rdma_set_option");
  }
  need(rdma_resolve_addr(id, NULL, (struct sockaddr *)to, 5000) == 0, "rdma_resolve_addr");
  rdma_ack_cm_event(wait_for(RDMA_CM_EVENT_ADDR_RESOLVED));
  need(rdma_resolve_route(id, 5000) == 0, "rdma_resolve_route");
  rdma_ack_cm_event(wait_for(RDMA_CM_EVENT_ROUTE_RESOLVED));
  make_queue_pair();
  struct hello h = {.magic = htobe32(kMagic), .test = kVerify, .size = htobe32(kLargest)};
  h.reorder_window = htobe32(512);
  struct rdma_conn_param param = {.private_data = &h, .private_data_len = sizeof h};
  param.responder_resources = param.initiator_depth = 16;
  param.retry_count = param.rnr_retry_count = 7;
  need(rdma_connect(id, &param) == 0, "rdma_connect");
  struct rdma_cm_event *event = wait_for(RDMA_CM_EVENT_ESTABLISHED);
  memcpy(&peer, event->param.conn.private_data, sizeof peer);
  need(peer.magic == htobe32(kMagic), "the server is no weft-rnic");
  rdma_ack_cm_event(event);
  for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
    for (unsigned o = 0; o < sizeof opcodes / sizeof *opcodes; ++o) there_and_back(opcodes[o], sizes[s]);
  }
  atomics();
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  need(ibv_query_qp(id->qp, &attr, IBV_QP_PATH_MTU, &init) == 0, "ibv_query_qp");
  closed_window();
  rdma_disconnect(id);
  printf("verified %u messages, path MTU %u\n", done, 128u << attr.path_mtu);
}

int main(int argc, char **argv) {
  struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(kPort)}, to = own;
  need(argc >= 2 && inet_pton(AF_INET, argv[1], &own.sin_addr) == 1, "usage: verbs_peer ADDRESS [SERVER MTU TIMEOUT]");
  channel = rdma_create_event_channel();
  need(channel && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
  if (argc == 5) {
    need(inet_pton(AF_INET, argv[2], &to.sin_addr) == 1, "the server's address");
    verify(&to, (uint32_t)atoi(argv[3]), (uint8_t)atoi(argv[4]));
    return 0;
  }
  need(rdma_bind_addr(id, (struct sockaddr *)&own) == 0, "rdma_bind_addr");
  serve();
  return 0;
}
