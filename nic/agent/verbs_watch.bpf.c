// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Also to be had under GPL-2.0-only: helpers of the kernel ask for that.
//
// Sees ibv_modify_qp() and ibv_destroy_qp() of libibverbs, when they are entered. An uprobe is of a file, so it sees
// all processes that have it open.
#include <linux/bpf.h>
#include <linux/ptrace.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "nic/agent/qp_event.h"
#include "nic/agent/watch_bpf.h"

static __always_inline int read_user(void* to, __u32 bytes, const void* struct_at, __u32 offset) {
  return bpf_probe_read_user(to, bytes, (const char*)struct_at + offset);
}

// What is said of a queue pair besides its attributes.
static __always_inline void read_qp(struct weft_qp_event* e, const void* qp) {
  const void* context = 0;
  const void* device = 0;
  long failed = read_user(&e->qpn, sizeof e->qpn, qp, WEFT_QP_NUM);
  failed |= read_user(&e->type, sizeof e->type, qp, WEFT_QP_TYPE);
  failed |= read_user(&context, sizeof context, qp, WEFT_QP_CONTEXT);
  failed |= read_user(&device, sizeof device, context, WEFT_CONTEXT_DEVICE);
  failed |= bpf_probe_read_user_str(e->device, sizeof e->device, (const char*)device + WEFT_DEVICE_NAME_AT) < 0;
  e->unread |= failed != 0;
}

SEC("uprobe")
int verbs_modify_qp(struct pt_regs* regs) {
  const void* qp = (const void*)PT_REGS_PARM1(regs);
  const void* attr = (const void*)PT_REGS_PARM2(regs);
  const __u32 mask = (__u32)PT_REGS_PARM3(regs);
  __u32 state = 0;
  long failed = read_user(&state, sizeof state, attr, WEFT_ATTR_STATE);
  if (!failed && !matters(mask, state)) return 0;
  struct weft_qp_event* e = begin_event(WEFT_QP_MODIFY, mask);
  if (!e) return 0;
  e->state = state;
  read_qp(e, qp);
  failed |= read_user(&e->path_mtu, sizeof e->path_mtu, attr, WEFT_ATTR_PATH_MTU);
  failed |= read_user(&e->rq_psn, sizeof e->rq_psn, attr, WEFT_ATTR_RQ_PSN);
  failed |= read_user(&e->sq_psn, sizeof e->sq_psn, attr, WEFT_ATTR_SQ_PSN);
  failed |= read_user(&e->dest_qpn, sizeof e->dest_qpn, attr, WEFT_ATTR_DEST_QPN);
  failed |= read_user(e->dgid, sizeof e->dgid, attr, WEFT_ATTR_DGID);
  failed |= read_user(&e->sgid_index, sizeof e->sgid_index, attr, WEFT_ATTR_SGID_INDEX);
  failed |= read_user(&e->port, sizeof e->port, attr, WEFT_ATTR_AH_PORT);
  e->unread |= failed != 0;
  bpf_ringbuf_submit(e, 0);
  return 0;
}

SEC("uprobe")
int verbs_destroy_qp(struct pt_regs* regs) {
  struct weft_qp_event* e = begin_event(WEFT_QP_DESTROY, 0);
  if (!e) return 0;
  read_qp(e, (const void*)PT_REGS_PARM1(regs));
  bpf_ringbuf_submit(e, 0);
  return 0;
}
