// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
/*
 * What NCCL and a plugin for its networks know of each other: tables of functions, found by name in the library, of
 * versions 7 to 10; an NCCL takes the newest that it knows. The layouts are NCCL's; the declarations are our own. Sizes
 * of structures are checked below.
 */
#ifndef WEFT_NCCL_ABI_H
#define WEFT_NCCL_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
  NCCL_OK = 0,
  NCCL_SYSTEM_ERROR = 2,
  NCCL_INTERNAL_ERROR = 3,
  NCCL_INVALID_ARGUMENT = 4,
  NCCL_INVALID_USAGE = 5,
  NCCL_REMOTE_ERROR = 6
} nccl_result;

enum nccl_type {
  NCCL_INT8 = 0,
  NCCL_UINT8 = 1,
  NCCL_INT32 = 2,
  NCCL_UINT32 = 3,
  NCCL_INT64 = 4,
  NCCL_UINT64 = 5,
  NCCL_FLOAT16 = 6,
  NCCL_FLOAT32 = 7,
  NCCL_FLOAT64 = 8,
  NCCL_BFLOAT16 = 9
};

/* AVG and what a program defines follow. */
enum nccl_op { NCCL_SUM = 0, NCCL_PROD = 1, NCCL_MAX = 2, NCCL_MIN = 3, NCCL_AVG = 4 };

enum {
  NCCL_HANDLE_BYTES = 128, /* of what listen() writes */
  NCCL_REQUESTS = 32,      /* under way on one connection, at most */
  NCCL_NIC_DEVICES = 4,    /* that one virtual NIC has, at most */
  NCCL_MEMORY_HOST = 1     /* a bit; GPUs have others */
};

enum nccl_log_level { NCCL_LOG_WARN = 2, NCCL_LOG_INFO = 3 };
enum { NCCL_LOG_INIT = 1, NCCL_LOG_NET = 16 }; /* what a message is about, bits */
typedef void (*nccl_logger)(int level, unsigned long about, const char* function, int line, const char* format, ...);
typedef nccl_result (*nccl_profiler)(void** event, int type, void* parent, int64_t plugin, void* data);

typedef struct {
  char* name;
  char* pci_path; /* under /sys; NULL: it has none */
  uint64_t guid;
  int memory; /* NCCL_MEMORY_... that buffers may be in */
  int speed_mbps;
  int port;
  float latency_us;
  int max_connections;
  int max_receives; /* that irecv() takes at once */
  int offload;      /* to a GPU; 0: none */
  int offload_version;
} nccl_properties_v7;

typedef struct {
  char* name;
  char* pci_path;
  uint64_t guid;
  int memory;
  int registered_for_all; /* memory is registered for all connections at once */
  int speed_mbps;
  int port;
  float latency_us;
  int max_connections;
  int max_receives;
  int offload;
  int offload_version;
} nccl_properties_v8;

typedef struct {
  int count;
  int devices[NCCL_NIC_DEVICES];
} nccl_virtual_nic;

/* Of version 10 too. */
typedef struct {
  char* name;
  char* pci_path;
  uint64_t guid;
  int memory;
  int registered_for_all;
  int force_flush;
  int speed_mbps;
  int port;
  float latency_us;
  int max_connections;
  int max_receives;
  int offload;
  int offload_version;
  nccl_virtual_nic virtual_nic;
  size_t max_message_bytes;
  size_t max_collective_bytes;
} nccl_properties_v9;

typedef struct {
  int traffic_class;
} nccl_connection_config_v10;

/* A table's entries. Those that take several versions of a structure or count are macros' parameters. */
#define NCCL_TABLE_BEGIN(PROPERTIES)                      \
  nccl_result (*devices)(int* count);                     \
  nccl_result (*get_properties)(int device, PROPERTIES*); \
  nccl_result (*listen)(int device, void* handle, void** listener);

#define NCCL_TABLE_MEMORY(SIZE)                                                                                       \
  nccl_result (*register_memory)(void* connection, void* data, SIZE bytes, int kind, void** memory);                  \
  nccl_result (*register_dmabuf)(void* connection, void* data, size_t bytes, int kind, uint64_t, int, void** memory); \
  nccl_result (*deregister_memory)(void* connection, void* memory);

#define NCCL_NET_ACCEPT nccl_result (*accept)(void* listener, void** receiver, void** device_receiver);

#define NCCL_NET_END                                                                                        \
  nccl_result (*iflush)(void* receiver, int count, void** data, int* bytes, void** memory, void** request); \
  nccl_result (*test)(void* request, int* done, int* bytes);                                                \
  nccl_result (*close_sender)(void* sender);                                                                \
  nccl_result (*close_receiver)(void* receiver);                                                            \
  nccl_result (*close_listener)(void* listener);                                                            \
  nccl_result (*device_memory)(void* connection, void* memory, void** of_device);                           \
  nccl_result (*consumed)(void* receiver, int count, void* request);

#define NCCL_NET_V7_V8(NAME, PROPERTIES, SIZE)                                                         \
  typedef struct {                                                                                     \
    const char* name;                                                                                  \
    nccl_result (*init)(nccl_logger);                                                                  \
    NCCL_TABLE_BEGIN(PROPERTIES)                                                                       \
    nccl_result (*connect)(int device, void* handle, void** sender, void** device_sender);             \
    NCCL_NET_ACCEPT                                                                                    \
    NCCL_TABLE_MEMORY(SIZE)                                                                            \
    nccl_result (*isend)(void* sender, void* data, int bytes, int tag, void* memory, void** request);  \
    nccl_result (*irecv)(void* receiver, int count, void** data, int* bytes, int* tags, void** memory, \
                         void** request);                                                              \
    NCCL_NET_END                                                                                       \
  } NAME;
NCCL_NET_V7_V8(nccl_net_v7, nccl_properties_v7, int)
NCCL_NET_V7_V8(nccl_net_v8, nccl_properties_v8, size_t)

typedef struct {
  const char* name;
  nccl_result (*init)(nccl_logger);
  NCCL_TABLE_BEGIN(nccl_properties_v9)
  nccl_result (*connect)(int device, void* handle, void** sender, void** device_sender);
  NCCL_NET_ACCEPT
  NCCL_TABLE_MEMORY(size_t)
  nccl_result (*isend)(void* sender, void* data, size_t bytes, int tag, void* memory, void** request);
  nccl_result (*irecv)(void* receiver, int count, void** data, size_t* bytes, int* tags, void** memory, void** request);
  NCCL_NET_END
  nccl_result (*make_virtual)(int* device, nccl_virtual_nic*);
} nccl_net_v9;

typedef struct {
  const char* name;
  nccl_result (*init)(nccl_logger, nccl_profiler);
  NCCL_TABLE_BEGIN(nccl_properties_v9)
  nccl_result (*connect)(int device, nccl_connection_config_v10*, void* handle, void** sender, void** device_sender);
  NCCL_NET_ACCEPT
  NCCL_TABLE_MEMORY(size_t)
  nccl_result (*isend)(void* sender, void* data, size_t bytes, int tag, void* memory, void* event, void** request);
  nccl_result (*irecv)(void* receiver, int count, void** data, size_t* bytes, int* tags, void** memory, void** events,
                       void** request);
  NCCL_NET_END
  nccl_result (*make_virtual)(int* device, nccl_virtual_nic*);
} nccl_net_v10;

/* A part of a buffer. */
typedef struct {
  void* memory;
  void* data;
  uint32_t bytes;
} nccl_part_v8;

typedef struct {
  void* memory;
  void* data;
  size_t bytes;
} nccl_part_v9;

#define NCCL_COLLECTIVES_BEGIN(PROPERTIES, SIZE)                                                  \
  const char* name;                                                                               \
  nccl_result (*init)(nccl_logger);                                                               \
  NCCL_TABLE_BEGIN(PROPERTIES)                                                                    \
  nccl_result (*connect)(void** handles, int ranks, int rank, void* listener, void** collective); \
  nccl_result (*can_reduce)(int type, int op, int* can);                                          \
  NCCL_TABLE_MEMORY(SIZE)

#define NCCL_IALLREDUCE(COUNT)                                                                          \
  nccl_result (*iallreduce)(void* collective, void* send, void* receive, COUNT count, int type, int op, \
                            void* send_memory, void* receive_memory, void** request);

/* The window is a range of all ranks' blocks, one after the other: so much of the result the call is about. What a rank
 * gives, or gets, is the part of its block in there. */
#define NCCL_BLOCKS(PART)                                                                                           \
  nccl_result (*iallgather)(void* collective, void* send, int parts, PART* receive, size_t block_bytes,             \
                            size_t window_offset, size_t window_bytes, void* send_memory, void** request);          \
  nccl_result (*ireduce_scatter)(void* collective, int parts, PART* send, void* receive, size_t block_bytes,        \
                                 size_t window_offset, size_t window_bytes, int type, int op, void* receive_memory, \
                                 void** request);

#define NCCL_COLLECTIVES_END                                                                    \
  nccl_result (*iflush)(void* collective, void* data, int bytes, void* memory, void** request); \
  nccl_result (*test)(void* request, int* done, int* bytes);                                    \
  nccl_result (*close_collective)(void* collective);                                            \
  nccl_result (*close_listener)(void* listener);

typedef struct {
  NCCL_COLLECTIVES_BEGIN(nccl_properties_v7, int)
  NCCL_IALLREDUCE(int)
  NCCL_COLLECTIVES_END
} nccl_collectives_v7;

typedef struct {
  NCCL_COLLECTIVES_BEGIN(nccl_properties_v8, size_t)
  NCCL_IALLREDUCE(int)
  NCCL_BLOCKS(nccl_part_v8)
  NCCL_COLLECTIVES_END
} nccl_collectives_v8;

/* Of version 10 too. */
typedef struct {
  NCCL_COLLECTIVES_BEGIN(nccl_properties_v9, size_t)
  NCCL_IALLREDUCE(size_t)
  NCCL_BLOCKS(nccl_part_v9)
  NCCL_COLLECTIVES_END
  nccl_result (*make_virtual)(int* device, nccl_virtual_nic*);
} nccl_collectives_v9;

_Static_assert(sizeof(nccl_properties_v7) == 56 && sizeof(nccl_properties_v8) == 64, "as NCCL lays them out");
_Static_assert(sizeof(nccl_properties_v9) == 104 && offsetof(nccl_properties_v9, max_message_bytes) == 88, "likewise");
_Static_assert(sizeof(nccl_net_v7) == 19 * 8 && sizeof(nccl_net_v8) == 19 * 8, "a name and 18 functions");
_Static_assert(sizeof(nccl_net_v9) == 20 * 8 && sizeof(nccl_net_v10) == 20 * 8, "a name and 19 functions");
_Static_assert(sizeof(nccl_collectives_v7) == 15 * 8 && sizeof(nccl_collectives_v8) == 17 * 8, "and of collectives");
_Static_assert(sizeof(nccl_collectives_v9) == 18 * 8, "the same, and make_virtual");

#endif
