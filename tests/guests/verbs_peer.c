// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The other end of `weft-rnic verify`, with the verbs of Linux: `verbs_peer ADDRESS` serves one connection,
// `verbs_peer ADDRESS SERVER` verifies a server of weft-rnic in the same way: every opcode with sizes around the MTU
// there, back by READ, and compared. tools/weft-rnic/greeting.h has the private data.
#include <arpa/inet.h>
#include <endian.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kLargest = 1 << 18, kReceives = 256, kMtu = 4096, kPort = 18515, kMagic = 0x77726e31, kVerify = 6 };

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

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;
static struct ibv_mr *mr;
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
  const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  cq = ibv_create_cq(id->verbs, 2 * kReceives, NULL, NULL, 0);
  struct ibv_pd *pd = ibv_alloc_pd(id->verbs);
  struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
  attr.cap.max_send_wr = attr.cap.max_recv_wr = kReceives;
  attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
  need(cq && pd && rdma_create_qp(id, pd, &attr) == 0, "rdma_create_qp");
  memory = calloc(1, 2 * kLargest + 64);
  mr = ibv_reg_mr(pd, memory, 2 * kLargest + 64, all);
  need(mr != NULL, "ibv_reg_mr");
  for (int i = 0; i < kReceives; ++i) receive();
}

static void serve(void) {
  need(rdma_listen(id, 1) == 0, "rdma_listen");
  struct rdma_cm_event *event = wait_for(RDMA_CM_EVENT_CONNECT_REQUEST);
  id = event->id;
  make_queue_pair();
  struct welcome w = {htobe32(kMagic), htobe32(mr->rkey), htobe64((uintptr_t)memory),
                      htobe64((uintptr_t)memory + 2 * kLargest)};
  struct rdma_conn_param param = {.private_data = &w, .private_data_len = sizeof w};
  param.responder_resources = event->param.conn.responder_resources;
  param.initiator_depth = event->param.conn.initiator_depth;
  param.rnr_retry_count = 7;
  need(rdma_accept(id, &param) == 0, "rdma_accept");
  rdma_ack_cm_event(event);
  rdma_ack_cm_event(wait_for(RDMA_CM_EVENT_ESTABLISHED));
  wait_for(RDMA_CM_EVENT_DISCONNECTED);  // as many receives are posted as the client sends messages
  rdma_disconnect(id);
  printf("served\n");
}

static void complete(struct ibv_send_wr *wr, uint32_t local, uint32_t length, uint64_t remote) {
  struct ibv_sge sge = {(uintptr_t)memory + local, length, mr->lkey};
  struct ibv_send_wr *bad;
  struct ibv_wc wc;
  int count;
  wr->sg_list = &sge;
  wr->num_sge = 1;
  wr->send_flags = IBV_SEND_SIGNALED;
  wr->wr_id = ++done;
  if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
    wr->wr.atomic.remote_addr = remote;
    wr->wr.atomic.rkey = be32toh(peer.rkey);
  } else {
    wr->wr.rdma.remote_addr = remote;
    wr->wr.rdma.rkey = be32toh(peer.rkey);
  }
  need(ibv_post_send(id->qp, wr, &bad) == 0, "ibv_post_send");
  while ((count = ibv_poll_cq(cq, 1, &wc)) == 0) continue;
  if (count != 1 || wc.status != IBV_WC_SUCCESS || wc.wr_id != done) {
    fprintf(stderr, "verbs_peer: opcode %d of %u bytes: %s\n", wr->opcode, length, ibv_wc_status_str(wc.status));
    exit(1);
  }
}

static void there_and_back(enum ibv_wr_opcode opcode, uint32_t size) {
  const uint64_t remote = be64toh(peer.address);
  for (uint32_t i = 0; i < size; ++i) memory[i] = (uint8_t)(rand() >> 8);
  memset(memory + kLargest, 0, kLargest);
  struct ibv_send_wr wr = {.opcode = opcode, .imm_data = htobe32(size)};
  complete(&wr, 0, size, remote);
  struct ibv_send_wr back = {.opcode = IBV_WR_RDMA_READ};
  complete(&back, kLargest, size, remote);
  need(memcmp(memory, memory + kLargest, size) == 0, "the data is not the same");
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

static void verify(struct sockaddr_in *to) {
  static const uint32_t sizes[] = {0,        1,        3,        kMtu - 1,     kMtu,     kMtu + 1,
                                   2 * kMtu, 2 * kMtu + 1, 5 * kMtu + 7, 33 * kMtu};
  static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
                                               IBV_WR_RDMA_WRITE_WITH_IMM};
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
  rdma_disconnect(id);
  wait_for(RDMA_CM_EVENT_DISCONNECTED);
  printf("verified %u messages\n", done);
}

int main(int argc, char **argv) {
  struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(kPort)}, to = own;
  need(argc >= 2 && inet_pton(AF_INET, argv[1], &own.sin_addr) == 1, "usage: verbs_peer ADDRESS [SERVER]");
  channel = rdma_create_event_channel();
  need(channel && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
  if (argc == 3) {
    need(inet_pton(AF_INET, argv[2], &to.sin_addr) == 1, "the server's address");
    verify(&to);
    return 0;
  }
  need(rdma_bind_addr(id, (struct sockaddr *)&own) == 0, "rdma_bind_addr");
  serve();
  return 0;
}
