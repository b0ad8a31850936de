// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/nccl/plugin.h"

enum { DEFAULT_SPEED_MBPS = 100000, MOST_CONNECTIONS = 4096 };
static const size_t kMostMessageBytes = (size_t)1 << 30, kMostCollectiveBytes = (size_t)512 << 20;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static nccl_logger logger;
static weft_inc_context* context;
static int opened;
static char address[64];

void weft_nccl_set_logger(nccl_logger to) {
  pthread_mutex_lock(&lock);
  logger = to;
  pthread_mutex_unlock(&lock);
}

void weft_nccl_log(int level, const char* function, int line, const char* format, ...) {
  if (logger == NULL) return;
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  logger(level, NCCL_LOG_INIT | NCCL_LOG_NET, function, line, "NET/weftinc: %s", text);
}

/* Of a setting that is a number; the default where it is none. */
static unsigned long number_of(const char* name, unsigned long otherwise) {
  const char* text = getenv(name);
  char* end = NULL;
  if (text == NULL || *text == '\0') return otherwise;
  const unsigned long value = strtoul(text, &end, 10);
  if (*end == '\0' && value > 0 && value <= INT32_MAX) return value;
  WARN("%s is '%s', and should be a number above 0: %lu is taken", name, text, otherwise);
  return otherwise;
}

/* The library tells a group's address only, so that a group of one rank is asked. */
static void find_address(void) {
  weft_inc_handle handle;
  weft_inc_group* group = NULL;
  weft_inc_member member;
  const weft_inc_group_options options = weft_nccl_group_options();
  if (weft_inc_group_create(context, &options, 0, 1, &handle, &group) == WEFT_INC_OK &&
      weft_inc_group_member(group, &member) == WEFT_INC_OK) {
    snprintf(address, sizeof address, "%s", member.address);
  } else {
    WARN("%s", weft_inc_last_error());
  }
  weft_inc_group_destroy(group);
}

weft_inc_context* weft_nccl_context(void) {
  pthread_mutex_lock(&lock);
  if (!opened) {
    weft_inc_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.address = getenv("NCCL_WEFTINC_ADDRESS");
    options.interface = getenv("NCCL_WEFTINC_INTERFACE");
    options.device = getenv("NCCL_WEFTINC_DEVICE");
    opened = 1;
    if (weft_inc_open(&options, &context) != WEFT_INC_OK) {
      context = NULL;
      SAY("no RNIC: %s", weft_inc_last_error());
    } else {
      find_address();
      if (address[0] == '\0') {
        weft_inc_close(context);
        context = NULL;
      }
    }
  }
  pthread_mutex_unlock(&lock);
  return context;
}

const char* weft_nccl_address(void) {
  return weft_nccl_context() == NULL ? "" : address;
}

weft_inc_group_options weft_nccl_group_options(void) {
  weft_inc_group_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.mtu = (uint32_t)number_of("NCCL_WEFTINC_MTU", 1024);
  return options;
}

nccl_result weft_nccl_devices(int* count) {
  *count = weft_nccl_context() == NULL ? 0 : 1;
  return NCCL_OK;
}

/* The same for an RNIC at all times, another for another. */
static uint64_t guid(void) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char* c = weft_nccl_address(); *c != '\0'; ++c) hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
  return hash;
}

nccl_result weft_nccl_properties(int device, nccl_properties_v9* to) {
  static char name[] = "weftinc";
  if (device != 0 || to == NULL) return NCCL_INVALID_ARGUMENT;
  memset(to, 0, sizeof *to);
  to->name = name;
  to->guid = guid();
  to->memory = NCCL_MEMORY_HOST;
  to->registered_for_all = 1;
  to->speed_mbps = (int)number_of("NCCL_WEFTINC_SPEED_MBPS", DEFAULT_SPEED_MBPS);
  to->max_connections = MOST_CONNECTIONS;
  to->max_receives = 1;
  to->virtual_nic.count = 1;
  to->max_message_bytes = kMostMessageBytes;
  to->max_collective_bytes = kMostCollectiveBytes;
  return NCCL_OK;
}

nccl_result weft_nccl_register(void* connection, void* data, size_t bytes, int kind, void** memory) {
  (void)connection;
  if (kind != NCCL_MEMORY_HOST) {
    WARN("only memory of the host can be registered");
    return NCCL_INVALID_USAGE;
  }
  if (weft_inc_memory_register(weft_nccl_context(), data, bytes, (weft_inc_memory**)memory) == WEFT_INC_OK) {
    return NCCL_OK;
  }
  WARN("%s", weft_inc_last_error());
  return NCCL_SYSTEM_ERROR;
}

nccl_result weft_nccl_register_dmabuf(void* connection, void* data, size_t bytes, int kind, uint64_t offset, int file,
                                      void** memory) {
  (void)connection, (void)data, (void)bytes, (void)kind, (void)offset, (void)file, (void)memory;
  WARN("only memory of the host can be registered");
  return NCCL_INVALID_USAGE;
}

nccl_result weft_nccl_deregister(void* connection, void* memory) {
  (void)connection;
  weft_inc_memory_deregister(memory);
  return NCCL_OK;
}
