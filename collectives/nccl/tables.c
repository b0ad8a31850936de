// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
/*
 * What NCCL looks for in the library: a table of each version for messages, and one for collectives.
 */
#include <string.h>

#include "collectives/nccl/plugin.h"

#define EXPORTED __attribute__((visibility("default")))

static nccl_result init(nccl_logger logger) {
  weft_nccl_set_logger(logger);
  return NCCL_OK;
}

static nccl_result init_v10(nccl_logger logger, nccl_profiler profiler) {
  (void)profiler;
  return init(logger);
}

/* Of a NIC, what every version has. */
#define PROPERTIES(NOW)                                                                                   \
  .name = (NOW).name, .pci_path = (NOW).pci_path, .guid = (NOW).guid, .memory = (NOW).memory,             \
  .speed_mbps = (NOW).speed_mbps, .port = (NOW).port, .latency_us = (NOW).latency_us,                     \
  .max_connections = (NOW).max_connections, .max_receives = (NOW).max_receives, .offload = (NOW).offload, \
  .offload_version = (NOW).offload_version

static nccl_result properties_v8(int device, nccl_properties_v8* to) {
  nccl_properties_v9 now;
  const nccl_result result = weft_nccl_properties(device, &now);
  if (result == NCCL_OK) *to = (nccl_properties_v8){PROPERTIES(now), .registered_for_all = now.registered_for_all};
  return result;
}

static nccl_result properties_v7(int device, nccl_properties_v7* to) {
  nccl_properties_v9 now;
  const nccl_result result = weft_nccl_properties(device, &now);
  if (result == NCCL_OK) *to = (nccl_properties_v7){PROPERTIES(now)};
  return result;
}

static nccl_result connect_v10(int device, nccl_connection_config_v10* config, void* handle, void** sender,
                               void** device_sender) {
  (void)config;
  return weft_nccl_connect(device, handle, sender, device_sender);
}

static nccl_result register_v7(void* connection, void* data, int bytes, int kind, void** memory) {
  return bytes < 0 ? NCCL_INVALID_ARGUMENT : weft_nccl_register(connection, data, (size_t)bytes, kind, memory);
}

static nccl_result isend_v7(void* sender, void* data, int bytes, int tag, void* memory, void** request) {
  return bytes < 0 ? NCCL_INVALID_ARGUMENT : weft_nccl_isend(sender, data, (size_t)bytes, tag, memory, request);
}

static nccl_result isend_v10(void* sender, void* data, size_t bytes, int tag, void* memory, void* event,
                             void** request) {
  (void)event;
  return weft_nccl_isend(sender, data, bytes, tag, memory, request);
}

static nccl_result irecv_v7(void* receiver, int count, void** data, int* bytes, int* tags, void** memory,
                            void** request) {
  (void)tags, (void)memory;
  if (count != 1 || bytes[0] < 0) return NCCL_INVALID_ARGUMENT;
  return weft_nccl_irecv(receiver, data[0], (size_t)bytes[0], request);
}

static nccl_result irecv_v9(void* receiver, int count, void** data, size_t* bytes, int* tags, void** memory,
                            void** request) {
  (void)tags, (void)memory;
  return count != 1 ? NCCL_INVALID_ARGUMENT : weft_nccl_irecv(receiver, data[0], bytes[0], request);
}

static nccl_result irecv_v10(void* receiver, int count, void** data, size_t* bytes, int* tags, void** memory,
                             void** events, void** request) {
  (void)events;
  return irecv_v9(receiver, count, data, bytes, tags, memory, request);
}

/* What has come is in the host's memory when its request is over: there is nothing to flush. */
static nccl_result iflush(void* receiver, int count, void** data, int* bytes, void** memory, void** request) {
  (void)receiver, (void)count, (void)data, (void)bytes, (void)memory;
  *request = NULL;
  return NCCL_OK;
}

static nccl_result iflush_collective(void* collective, void* data, int bytes, void* memory, void** request) {
  (void)collective, (void)data, (void)bytes, (void)memory;
  *request = NULL;
  return NCCL_OK;
}

static nccl_result close_collective(void* collective) {
  weft_nccl_connection_close(collective);
  return NCCL_OK;
}

static nccl_result iallreduce_v7(void* collective, void* send, void* receive, int count, int type, int op,
                                 void* send_memory, void* receive_memory, void** request) {
  if (count < 0) return NCCL_INVALID_ARGUMENT;
  return weft_nccl_iallreduce(collective, send, receive, (size_t)count, type, op, send_memory, receive_memory, request);
}

static nccl_result iallgather_v9(void* collective, void* send, int parts, nccl_part_v9* receive, size_t block,
                                 size_t offset, size_t bytes, void* send_memory, void** request) {
  (void)send_memory;
  if (parts != 1 || receive->bytes < bytes) return NCCL_INVALID_ARGUMENT;
  return weft_nccl_iallgather(collective, send, receive->data, block, offset, bytes, request);
}

static nccl_result ireduce_scatter_v9(void* collective, int parts, nccl_part_v9* send, void* receive, size_t block,
                                      size_t offset, size_t bytes, int type, int op, void* receive_memory,
                                      void** request) {
  (void)receive_memory;
  if (parts != 1 || send->bytes < bytes) return NCCL_INVALID_ARGUMENT;
  return weft_nccl_ireduce_scatter(collective, send->data, receive, block, offset, bytes, type, op, request);
}

/* A part of version 8 as version 9 has it. Several are refused there. */
static nccl_part_v9 widened(int parts, const nccl_part_v8* part) {
  return parts == 1 ? (nccl_part_v9){part->memory, part->data, part->bytes} : (nccl_part_v9){0};
}

static nccl_result iallgather_v8(void* collective, void* send, int parts, nccl_part_v8* receive, size_t block,
                                 size_t offset, size_t bytes, void* send_memory, void** request) {
  nccl_part_v9 part = widened(parts, receive);
  return iallgather_v9(collective, send, parts, &part, block, offset, bytes, send_memory, request);
}

static nccl_result ireduce_scatter_v8(void* collective, int parts, nccl_part_v8* send, void* receive, size_t block,
                                      size_t offset, size_t bytes, int type, int op, void* receive_memory,
                                      void** request) {
  nccl_part_v9 part = widened(parts, send);
  return ireduce_scatter_v9(collective, parts, &part, receive, block, offset, bytes, type, op, receive_memory, request);
}

#define NAME "weftinc"
#define COMMON(INIT, PROPERTIES, REGISTER)                                                                            \
  .name = NAME, .init = INIT, .devices = weft_nccl_devices, .get_properties = PROPERTIES, .listen = weft_nccl_listen, \
  .register_memory = REGISTER, .register_dmabuf = weft_nccl_register_dmabuf,                                          \
  .deregister_memory = weft_nccl_deregister, .test = weft_nccl_test, .close_listener = weft_nccl_close_listener
#define NET(CONNECT, ISEND, IRECV)                                                                  \
  .connect = CONNECT, .accept = weft_nccl_accept, .isend = ISEND, .irecv = IRECV, .iflush = iflush, \
  .close_sender = weft_nccl_close, .close_receiver = weft_nccl_close
#define COLLECTIVES(IALLREDUCE)                                                            \
  .connect = weft_nccl_join, .can_reduce = weft_nccl_can_reduce, .iallreduce = IALLREDUCE, \
  .iflush = iflush_collective, .close_collective = close_collective

EXPORTED const nccl_net_v7 ncclNetPlugin_v7 = {COMMON(init, properties_v7, register_v7),
                                               NET(weft_nccl_connect, isend_v7, irecv_v7)};
EXPORTED const nccl_net_v8 ncclNetPlugin_v8 = {COMMON(init, properties_v8, weft_nccl_register),
                                               NET(weft_nccl_connect, isend_v7, irecv_v7)};
EXPORTED const nccl_net_v9 ncclNetPlugin_v9 = {COMMON(init, weft_nccl_properties, weft_nccl_register),
                                               NET(weft_nccl_connect, weft_nccl_isend, irecv_v9)};
EXPORTED const nccl_net_v10 ncclNetPlugin_v10 = {COMMON(init_v10, weft_nccl_properties, weft_nccl_register),
                                                 NET(connect_v10, isend_v10, irecv_v10)};

EXPORTED const nccl_collectives_v7 ncclCollNetPlugin_v7 = {COMMON(init, properties_v7, register_v7),
                                                           COLLECTIVES(iallreduce_v7)};
EXPORTED const nccl_collectives_v8 ncclCollNetPlugin_v8 = {COMMON(init, properties_v8, weft_nccl_register),
                                                           COLLECTIVES(iallreduce_v7), .iallgather = iallgather_v8,
                                                           .ireduce_scatter = ireduce_scatter_v8};
#define V9                                                                                   \
  COMMON(init, weft_nccl_properties, weft_nccl_register), COLLECTIVES(weft_nccl_iallreduce), \
      .iallgather = iallgather_v9, .ireduce_scatter = ireduce_scatter_v9
EXPORTED const nccl_collectives_v9 ncclCollNetPlugin_v9 = {V9};
EXPORTED const nccl_collectives_v9 ncclCollNetPlugin_v10 = {V9};
