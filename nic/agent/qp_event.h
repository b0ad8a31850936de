// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the BPF programs hand to weft-qp-agent, and where they find it: plain C, because both sides read it.
#pragma once

#ifdef __cplusplus
#include <cstddef>
#include <cstdint>
#else
typedef __u8 uint8_t;
typedef __u16 uint16_t;
typedef __u32 uint32_t;
typedef __u64 uint64_t;
#endif

enum { WEFT_QP_MODIFY = 1, WEFT_QP_DESTROY = 2 };

enum { WEFT_DEVICE_NAME = 64, WEFT_PROCESS_NAME = 16 };

/** A call that changes a queue pair. Attributes count when `mask` has their bit. */
struct weft_qp_event {
  uint32_t kind;  /**< WEFT_QP_MODIFY, WEFT_QP_DESTROY */
  uint32_t pid;   /**< thread group of the caller, as the agent's PID namespace numbers it; 0: it is in another one */
  uint32_t qpn;   /**< of the queue pair itself */
  uint32_t type;  /**< ibv_qp_type: 2 RC, 3 UC */
  uint32_t mask;  /**< ibv_qp_attr_mask */
  uint32_t state; /**< the state that it goes to (ibv_qp_state) */
  uint32_t path_mtu; /**< ibv_mtu: 1 to 5 for 256 to 4096 bytes */
  uint32_t dest_qpn;
  uint32_t rq_psn; /**< PSN of the first request that it expects */
  uint32_t sq_psn; /**< PSN of the first request that it sends */
  uint8_t dgid[16];
  uint8_t sgid_index;
  uint8_t port;   /**< of the device, from 1 on */
  uint8_t kernel; /**< the caller is the kernel, or was seen there */
  uint8_t unread; /**< something could not be read: the event says less than it should */
  char device[WEFT_DEVICE_NAME];
  char process[WEFT_PROCESS_NAME];
};

/** A PID namespace as the kernel names it: the device and the inode of its file in /proc/PID/ns. */
struct weft_pid_namespace {
  uint64_t device, inode;
};

/* Bits of ibv_qp_attr_mask. */
enum {
  WEFT_MASK_STATE = 1 << 0,
  WEFT_MASK_AV = 1 << 7,
  WEFT_MASK_PATH_MTU = 1 << 8,
  WEFT_MASK_RQ_PSN = 1 << 12,
  WEFT_MASK_SQ_PSN = 1 << 16,
  WEFT_MASK_DEST_QPN = 1 << 20,
};

/* ibv_qp_state. */
enum { WEFT_STATE_RESET = 0, WEFT_STATE_RTR = 2, WEFT_STATE_RTS = 3, WEFT_STATE_ERROR = 6 };

/*
 * Offsets in the structs of libibverbs, which has neither BTF nor debug information. They are its ABI: fields are only
 * ever added at the end. verbs_source.cc compares them with <infiniband/verbs.h>.
 */
enum {
  WEFT_QP_CONTEXT = 0,
  WEFT_QP_NUM = 52,
  WEFT_QP_TYPE = 60,
  WEFT_CONTEXT_DEVICE = 0,
  WEFT_DEVICE_NAME_AT = 24,
  WEFT_ATTR_STATE = 0,
  WEFT_ATTR_PATH_MTU = 8,
  WEFT_ATTR_RQ_PSN = 20,
  WEFT_ATTR_SQ_PSN = 24,
  WEFT_ATTR_DEST_QPN = 28,
  WEFT_ATTR_DGID = 56,
  WEFT_ATTR_SGID_INDEX = 76,
  WEFT_ATTR_AH_PORT = 86,
};
