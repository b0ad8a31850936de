// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// Also to be had under GPL-2.0-only: helpers of the kernel ask for that.
//
// Sees queue pairs where the kernel changes them: those of programs, of NVMe-oF and NFS, and the end of those whose
// process died. The structs are the least of the kernel's that is needed; where their members are, the loader finds out
// from the BTF of the kernel that runs.
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "nic/agent/qp_event.h"
#include "nic/agent/watch_bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

// Members that are enumerations there must be so here: a number does not fit one for the loader.
enum ib_qp_state { IB_QPS_RESET___weft };
enum ib_mtu { IB_MTU_256___weft = 1 };
enum ib_qp_type { IB_QPT_SMI___weft };

union ib_gid {
  __u8 raw[16];
};
struct ib_global_route {
  union ib_gid dgid;
  __u8 sgid_index;
};
struct rdma_ah_attr {
  struct ib_global_route grh;
  __u32 port_num;
};
struct ib_qp_attr {
  enum ib_qp_state qp_state;
  enum ib_mtu path_mtu;
  __u32 rq_psn;
  __u32 sq_psn;
  __u32 dest_qp_num;
  struct rdma_ah_attr ah_attr;
};
struct ib_device {
  char name[64];
};
struct ib_qp {
  struct ib_device* device;
  __u32 qp_num;
  enum ib_qp_type qp_type;
};

#pragma clang attribute pop

static __always_inline void read_kernel_qp(struct weft_qp_event* e, struct ib_qp* qp) {
  e->kernel = 1;
  e->qpn = BPF_CORE_READ(qp, qp_num);
  e->type = BPF_CORE_READ(qp, qp_type);
  struct ib_device* device = BPF_CORE_READ(qp, device);
  e->unread |= bpf_core_read_str(e->device, sizeof e->device, &device->name) < 0;
}

static __always_inline int modified(struct ib_qp* qp, struct ib_qp_attr* attr, __u32 mask) {
  const __u32 state = BPF_CORE_READ(attr, qp_state);
  if (!matters(mask, state)) return 0;
  struct weft_qp_event* e = begin_event(WEFT_QP_MODIFY, mask);
  if (!e) return 0;
  e->state = state;
  read_kernel_qp(e, qp);
  e->path_mtu = BPF_CORE_READ(attr, path_mtu);
  e->rq_psn = BPF_CORE_READ(attr, rq_psn);
  e->sq_psn = BPF_CORE_READ(attr, sq_psn);
  e->dest_qpn = BPF_CORE_READ(attr, dest_qp_num);
  e->unread |= bpf_core_read(e->dgid, sizeof e->dgid, &attr->ah_attr.grh.dgid.raw) != 0;
  e->sgid_index = BPF_CORE_READ(attr, ah_attr.grh.sgid_index);
  // From the outermost struct on: what the loader finds out is the offset from there. A byte in older kernels.
  e->port = BPF_CORE_READ_BITFIELD_PROBED(attr, ah_attr.port_num);
  bpf_ringbuf_submit(e, 0);
  return 0;
}

SEC("fentry/ib_modify_qp_with_udata")
int BPF_PROG(kernel_modify_qp_of_program, struct ib_qp* qp, struct ib_qp_attr* attr, int mask) {
  return modified(qp, attr, mask);
}

SEC("fentry/ib_modify_qp")
int BPF_PROG(kernel_modify_qp, struct ib_qp* qp, struct ib_qp_attr* attr, int mask) {
  return modified(qp, attr, mask);
}

SEC("fentry/ib_destroy_qp_user")
int BPF_PROG(kernel_destroy_qp, struct ib_qp* qp) {
  struct weft_qp_event* e = begin_event(WEFT_QP_DESTROY, 0);
  if (!e) return 0;
  read_kernel_qp(e, qp);
  bpf_ringbuf_submit(e, 0);
  return 0;
}
