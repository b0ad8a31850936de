// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the BPF programs of weft-qp-agent share: the ring of events, and the beginning of an event. Also to be had under
// GPL-2.0-only.
#pragma once

/* The helpers that read memory ask for it: of the two licenses of these programs, the kernel takes this one. */
char LICENSE[] SEC("license") = "GPL";

/* Events wait here while the agent sleeps: a burst of 4096 connections. */
struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 1 << 20);
} events SEC(".maps");

/* Events that found no room: the agent maps it, and says how many. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u64);
} lost SEC(".maps");

/* The agent's PID namespace. Zeros: the first one, in which all processes have numbers. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct weft_pid_namespace);
} own_namespace SEC(".maps");

/* The thread group of who calls, by a number that the agent's /proc has; 0 when it has none. */
static __always_inline __u32 caller(void) {
  __u32 first = 0;
  struct weft_pid_namespace* own = bpf_map_lookup_elem(&own_namespace, &first);
  if (!own || own->inode == 0) return bpf_get_current_pid_tgid() >> 32;
  struct bpf_pidns_info found = {};
  if (bpf_get_ns_current_pid_tgid(own->device, own->inode, &found, sizeof found) != 0) return 0;
  return found.tgid;
}

/* Whether a call of modify begins a connection, completes it or ends it. Others do not wake the agent. */
static __always_inline int matters(__u32 mask, __u32 state) {
  if (!(mask & WEFT_MASK_STATE)) return 0;
  return state == WEFT_STATE_RESET || state == WEFT_STATE_RTR || state == WEFT_STATE_RTS;
}

/* Zeroed but for kind, mask and who calls; 0 when there is no room. */
static __always_inline struct weft_qp_event* begin_event(__u32 kind, __u32 mask) {
  struct weft_qp_event* e = bpf_ringbuf_reserve(&events, sizeof *e, 0);
  if (!e) {
    __u32 first = 0;
    __u64* count = bpf_map_lookup_elem(&lost, &first);
    if (count) __sync_fetch_and_add(count, 1);
    return 0;
  }
  __builtin_memset(e, 0, sizeof *e);
  e->kind = kind;
  e->mask = mask;
  e->pid = caller();
  bpf_get_current_comm(e->process, sizeof e->process);
  return e;
}
