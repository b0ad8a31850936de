// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
/*
 * What NCCL does with a plugin for its networks: it looks for the library and for the newest tables that it knows, and
 * its proxy makes connections, posts and tests. Where CollNet's connect fails it goes on with messages alone.
 *
 *   nccl_proxy FOLDER RANK RANKS NEWEST
 *
 * Ranks find each other's handles in the folder. NEWEST is the newest version of tables that this NCCL knows. Prints
 * what it has used; the exit status is 1 when something is wrong.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "collectives/nccl/abi.h"

enum { PATIENCE_S = 40, OLDEST = 6, NEWEST = 12, MOST_RANKS = 8 };

static const char* folder;
static int rank, ranks;

#define EXPECT(CONDITION)                                                                  \
  do {                                                                                     \
    if (!(CONDITION)) {                                                                    \
      fprintf(stderr, "rank %d: line %d: %s does not hold\n", rank, __LINE__, #CONDITION); \
      exit(1);                                                                             \
    }                                                                                      \
  } while (0)

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void logger(int level, unsigned long about, const char* function, int line, const char* format, ...) {
  va_list arguments;
  (void)about, (void)function, (void)line;
  va_start(arguments, format);
  fprintf(stderr, "rank %d: %s", rank, level == NCCL_LOG_WARN ? "WARN " : "");
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
}

/* --- the plugin, of one version or another ----------------------------------------------------------------------- */

static int net_version, collectives_version;
static union {
  const nccl_net_v7* v7;
  const nccl_net_v8* v8;
  const nccl_net_v9* v9;
  const nccl_net_v10* v10;
  const void* any;
} net;
static union {
  const nccl_collectives_v7* v7;
  const nccl_collectives_v8* v8;
  const nccl_collectives_v9* v9;
  const void* any;
} collectives;

static const void* find(void* library, const char* kind, int newest, int* version) {
  char name[64];
  for (*version = newest; *version >= OLDEST; --*version) {
    snprintf(name, sizeof name, "nccl%sPlugin_v%d", kind, *version);
    const void* table = dlsym(library, name);
    if (table != NULL) return table;
  }
  return NULL;
}

static void load(const char* name, int newest) {
  char longer[256];
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    snprintf(longer, sizeof longer, "libnccl-net-%s.so", name);
    library = dlopen(longer, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  EXPECT(library != NULL);
  net.any = find(library, "Net", newest, &net_version);
  collectives.any = find(library, "CollNet", newest, &collectives_version);
  EXPECT(net.any != NULL && collectives.any != NULL);
}

/* Entries that are the same in all versions: by the table that has the least. */
#define OF_NET(CALL) \
  (net_version == 7 ? net.v7->CALL : net_version == 8 ? net.v8->CALL : net_version == 9 ? net.v9->CALL : net.v10->CALL)
#define OF_COLLECTIVES(CALL)                         \
  (collectives_version == 7   ? collectives.v7->CALL \
   : collectives_version == 8 ? collectives.v8->CALL \
                              : collectives.v9->CALL)

static void check_properties(void) {
  nccl_properties_v7 v7;
  nccl_properties_v8 v8;
  nccl_properties_v9 v9;
  nccl_result result;
  int memory, receives;
  if (net_version == 7) {
    result = net.v7->get_properties(0, &v7);
    memory = v7.memory, receives = v7.max_receives;
  } else if (net_version == 8) {
    result = net.v8->get_properties(0, &v8);
    memory = v8.memory, receives = v8.max_receives;
  } else {
    result = net_version == 9 ? net.v9->get_properties(0, &v9) : net.v10->get_properties(0, &v9);
    memory = v9.memory, receives = v9.max_receives;
    EXPECT(v9.max_message_bytes > 0 && v9.max_collective_bytes > 0 && v9.virtual_nic.count == 1);
  }
  EXPECT(result == NCCL_OK && memory == NCCL_MEMORY_HOST && receives == 1);
}

static nccl_result init_net(void) {
  if (net_version == 10) return net.v10->init(logger, NULL);
  return net_version == 9 ? net.v9->init(logger) : net_version == 8 ? net.v8->init(logger) : net.v7->init(logger);
}

static void begin(void) {
  int count = 0;
  EXPECT(init_net() == NCCL_OK);
  EXPECT(OF_NET(devices(&count)) == NCCL_OK && count == 1);
  check_properties();
  EXPECT(OF_COLLECTIVES(init(logger)) == NCCL_OK);
  EXPECT(OF_COLLECTIVES(devices(&count)) == NCCL_OK && count == 1);
}

static nccl_result connect_to(void* handle, void** sender) {
  nccl_connection_config_v10 config = {-1};
  if (net_version == 10) return net.v10->connect(0, &config, handle, sender, NULL);
  return net_version == 9   ? net.v9->connect(0, handle, sender, NULL)
         : net_version == 8 ? net.v8->connect(0, handle, sender, NULL)
                            : net.v7->connect(0, handle, sender, NULL);
}

static void* registered(void* connection, void* data, size_t bytes) {
  void* memory = NULL;
  const nccl_result result =
      net_version == 7   ? net.v7->register_memory(connection, data, (int)bytes, NCCL_MEMORY_HOST, &memory)
      : net_version == 8 ? net.v8->register_memory(connection, data, bytes, NCCL_MEMORY_HOST, &memory)
      : net_version == 9 ? net.v9->register_memory(connection, data, bytes, NCCL_MEMORY_HOST, &memory)
                         : net.v10->register_memory(connection, data, bytes, NCCL_MEMORY_HOST, &memory);
  EXPECT(result == NCCL_OK);
  return memory;
}

static nccl_result isend(void* sender, void* data, size_t bytes, void* memory, void** request) {
  if (net_version == 7) return net.v7->isend(sender, data, (int)bytes, 1, memory, request);
  if (net_version == 8) return net.v8->isend(sender, data, (int)bytes, 1, memory, request);
  if (net_version == 9) return net.v9->isend(sender, data, bytes, 1, memory, request);
  return net.v10->isend(sender, data, bytes, 1, memory, NULL, request);
}

static nccl_result irecv(void* receiver, void* data, size_t bytes, void* memory, void** request) {
  int tag = 1, size = (int)bytes;
  void* event = NULL;
  if (net_version == 7) return net.v7->irecv(receiver, 1, &data, &size, &tag, &memory, request);
  if (net_version == 8) return net.v8->irecv(receiver, 1, &data, &size, &tag, &memory, request);
  if (net_version == 9) return net.v9->irecv(receiver, 1, &data, &bytes, &tag, &memory, request);
  return net.v10->irecv(receiver, 1, &data, &bytes, &tag, &memory, &event, request);
}

/* --- ranks ------------------------------------------------------------------------------------------------------- */

typedef struct {
  char bytes[NCCL_HANDLE_BYTES];
} handle_t;

/* All ranks' handles, as NCCL's bootstrap carries them. */
static void share(const char* what, const handle_t* own, handle_t* all) {
  char path[512], whole[512];
  snprintf(path, sizeof path, "%s/%s.%d.new", folder, what, rank);
  snprintf(whole, sizeof whole, "%s/%s.%d", folder, what, rank);
  FILE* file = fopen(path, "wb");
  EXPECT(file != NULL && fwrite(own, sizeof *own, 1, file) == 1 && fclose(file) == 0 && rename(path, whole) == 0);
  const double begun = now_s();
  for (int r = 0; r < ranks; ++r) {
    snprintf(path, sizeof path, "%s/%s.%d", folder, what, r);
    while ((file = fopen(path, "rb")) == NULL) {
      EXPECT(now_s() - begun < PATIENCE_S);
      usleep(2000);
    }
    EXPECT(fread(&all[r], sizeof all[r], 1, file) == 1 && fclose(file) == 0);
  }
}

static int finished(nccl_result (*test)(void*, int*, int*), void** request, int* bytes) {
  int done = 0;
  if (*request == NULL) return 1;
  EXPECT(test(*request, &done, bytes) == NCCL_OK);
  if (done) *request = NULL;
  return done;
}

static unsigned char byte_of(int of_rank, int message, size_t at) {
  return (unsigned char)(of_rank * 31 + message * 7 + (int)(at % 251));
}

/* --- messages ---------------------------------------------------------------------------------------------------- */

static void *to_next, *from_last;

static void make_ring(void) {
  handle_t own, all[MOST_RANKS];
  void* listener = NULL;
  EXPECT(OF_NET(listen(0, &own, &listener)) == NCCL_OK);
  share("net", &own, all);
  handle_t next = all[(rank + 1) % ranks];
  const double begun = now_s();
  while (to_next == NULL || from_last == NULL) {
    if (to_next == NULL) EXPECT(connect_to(&next, &to_next) == NCCL_OK);
    if (from_last == NULL) EXPECT(OF_NET(accept(listener, &from_last, NULL)) == NCCL_OK);
    EXPECT(now_s() - begun < PATIENCE_S);
    usleep(200);
  }
  EXPECT(OF_NET(close_listener(listener)) == NCCL_OK);
}

/* More messages than NCCL may have under way, with room for more than comes. */
static void pass_messages(void) {
  static const size_t sizes[] = {1000, 0, 1, 300000, 4096};
  enum { MESSAGES = 60, WINDOW = 24, ROOM = 300100 };
  static unsigned char out[WINDOW][ROOM], in[WINDOW][ROOM];
  void *sends[WINDOW] = {NULL}, *receives[WINDOW] = {NULL};
  void *out_memory = registered(to_next, out, sizeof out), *in_memory = registered(from_last, in, sizeof in);
  int sent = 0, posted = 0, received = 0, acknowledged = 0;
  const double begun = now_s();
  while (received < MESSAGES || acknowledged < MESSAGES) {
    EXPECT(now_s() - begun < PATIENCE_S);
    if (posted < MESSAGES && posted < received + WINDOW) {
      EXPECT(irecv(from_last, in[posted % WINDOW], ROOM, in_memory, &receives[posted % WINDOW]) == NCCL_OK);
      posted += receives[posted % WINDOW] != NULL;
    }
    if (sent < MESSAGES && sent < acknowledged + WINDOW) {
      const size_t bytes = sizes[sent % 5];
      for (size_t i = 0; i < bytes; ++i) out[sent % WINDOW][i] = byte_of(rank, sent, i);
      EXPECT(isend(to_next, out[sent % WINDOW], bytes, out_memory, &sends[sent % WINDOW]) == NCCL_OK);
      sent += sends[sent % WINDOW] != NULL;
    }
    if (acknowledged < sent) acknowledged += finished(OF_NET(test), &sends[acknowledged % WINDOW], NULL);
    int bytes = -1;
    if (received < posted && finished(OF_NET(test), &receives[received % WINDOW], &bytes)) {
      EXPECT((size_t)bytes == sizes[received % 5]);
      for (int i = 0; i < bytes; ++i) {
        EXPECT(in[received % WINDOW][i] == byte_of((rank + ranks - 1) % ranks, received, (size_t)i));
      }
      ++received;
    }
  }
  EXPECT(OF_NET(deregister_memory(to_next, out_memory)) == NCCL_OK);
  EXPECT(OF_NET(deregister_memory(from_last, in_memory)) == NCCL_OK);
}

/* What NCCL does without CollNet: all vectors go around. */
static void reduce_by_messages(void) {
  enum { COUNT = 5000 };
  static int own[COUNT], other[COUNT], sum[COUNT];
  for (int i = 0; i < COUNT; ++i) own[i] = sum[i] = rank * 1000 + i;
  for (int step = 1; step < ranks; ++step) {
    void *send = NULL, *receive = NULL;
    const double begun = now_s();
    while (receive == NULL) EXPECT(irecv(from_last, other, sizeof other, NULL, &receive) == NCCL_OK);
    while (send == NULL) EXPECT(isend(to_next, own, sizeof own, NULL, &send) == NCCL_OK);
    while (send != NULL || receive != NULL) {
      finished(OF_NET(test), &send, NULL);
      finished(OF_NET(test), &receive, NULL);
      EXPECT(now_s() - begun < PATIENCE_S);
    }
    memcpy(own, other, sizeof own);
    for (int i = 0; i < COUNT; ++i) sum[i] += own[i];
  }
  for (int i = 0; i < COUNT; ++i) EXPECT(sum[i] == ranks * (ranks - 1) / 2 * 1000 + ranks * i);
}

/* A message that does not fit is an error at the receiver. Nobody waits for who goes first. */
static void end_ring(void) {
  static char data[1000];
  void *send = NULL, *receive = NULL;
  int done = 0;
  EXPECT(irecv(from_last, data, 10, NULL, &receive) == NCCL_OK && receive != NULL);
  EXPECT(isend(to_next, data, sizeof data, NULL, &send) == NCCL_OK && send != NULL);
  const double begun = now_s();
  while (OF_NET(test(receive, &done, NULL)) == NCCL_OK) EXPECT(!done && now_s() - begun < PATIENCE_S);
  const double closing = now_s();
  EXPECT(OF_NET(close_sender(to_next)) == NCCL_OK);
  EXPECT(OF_NET(close_receiver(from_last)) == NCCL_OK);
  EXPECT(now_s() - closing < 1);
}

/* --- collectives ------------------------------------------------------------------------------------------------- */

static void* collective;

static int join(void) {
  handle_t own, all[MOST_RANKS];
  void *handles[MOST_RANKS], *listener = NULL;
  EXPECT(OF_COLLECTIVES(listen(0, &own, &listener)) == NCCL_OK);
  share("coll", &own, all);
  for (int r = 0; r < ranks; ++r) handles[r] = &all[r];
  const nccl_result result = OF_COLLECTIVES(connect(handles, ranks, rank, listener, &collective));
  if (result != NCCL_OK) {
    EXPECT(collective == NULL);
    return 0;
  }
  EXPECT(OF_COLLECTIVES(close_listener(listener)) == NCCL_OK);
  return 1;
}

static void wait_for(void** request) {
  const double begun = now_s();
  while (!finished(OF_COLLECTIVES(test), request, NULL)) EXPECT(now_s() - begun < PATIENCE_S);
}

static void iallreduce(void* send, void* receive, size_t count, int type, int op, void* memory, void** request) {
  const double begun = now_s();
  for (*request = NULL; *request == NULL;) {
    const nccl_result result =
        collectives_version == 7
            ? collectives.v7->iallreduce(collective, send, receive, (int)count, type, op, memory, memory, request)
        : collectives_version == 8
            ? collectives.v8->iallreduce(collective, send, receive, (int)count, type, op, memory, memory, request)
            : collectives.v9->iallreduce(collective, send, receive, count, type, op, memory, memory, request);
    EXPECT(result == NCCL_OK && now_s() - begun < PATIENCE_S);
  }
}

static void check_support(void) {
  int can = -1;
  EXPECT(OF_COLLECTIVES(can_reduce(NCCL_FLOAT32, NCCL_SUM, &can)) == NCCL_OK && can == 1);
  EXPECT(OF_COLLECTIVES(can_reduce(NCCL_BFLOAT16, NCCL_MAX, &can)) == NCCL_OK && can == 1);
  EXPECT(OF_COLLECTIVES(can_reduce(NCCL_FLOAT32, NCCL_AVG, &can)) == NCCL_OK && can == 0);
  EXPECT(OF_COLLECTIVES(can_reduce(NCCL_BFLOAT16 + 1, NCCL_SUM, &can)) == NCCL_OK && can == 0);
}

/* As the proxy does: several steps are under way. */
static void reduce_by_switches(void) {
  enum { STEPS = 8, COUNT = 4096 };
  static int in[STEPS][COUNT], out[STEPS][COUNT];
  static double floats[COUNT], most[COUNT];
  void *requests[STEPS], *last = NULL;
  for (int s = 0; s < STEPS; ++s) {
    for (int i = 0; i < COUNT; ++i) in[s][i] = rank * 100000 + s * 10000 + i;
    iallreduce(in[s], out[s], COUNT, NCCL_INT32, NCCL_SUM, NULL, &requests[s]);
  }
  for (int s = 0; s < STEPS; ++s) {
    wait_for(&requests[s]);
    for (int i = 0; i < COUNT; ++i) {
      EXPECT(out[s][i] == ranks * (ranks - 1) / 2 * 100000 + ranks * (s * 10000 + i));
    }
  }
  for (int i = 0; i < COUNT; ++i) floats[i] = (rank + i) % ranks + i;
  iallreduce(floats, most, COUNT, NCCL_FLOAT64, NCCL_MAX, NULL, &last);
  wait_for(&last);
  for (int i = 0; i < COUNT; ++i) EXPECT(most[i] == ranks - 1 + i);
}

/* Windows of all blocks, which fit no block; a rank gives, or gets, what of its block is in the window. */
enum { BLOCK = 3000, WINDOW_BYTES = 1712 };

static size_t own_part(size_t window) {
  const size_t first = (size_t)rank * BLOCK;
  return window > first && window < first + BLOCK ? window - first : 0;
}

static nccl_result iallgather(char* send, char* receive, size_t at, size_t bytes, void** request) {
  nccl_part_v8 v8 = {NULL, receive, (uint32_t)bytes};
  nccl_part_v9 v9 = {NULL, receive, bytes};
  if (collectives_version == 8) {
    return collectives.v8->iallgather(collective, send, 1, &v8, BLOCK, at, bytes, NULL, request);
  }
  return collectives.v9->iallgather(collective, send, 1, &v9, BLOCK, at, bytes, NULL, request);
}

static nccl_result ireduce_scatter(char* send, char* receive, size_t at, size_t bytes, void** request) {
  nccl_part_v8 v8 = {NULL, send, (uint32_t)bytes};
  nccl_part_v9 v9 = {NULL, send, bytes};
  if (collectives_version == 8) {
    return collectives.v8->ireduce_scatter(collective, 1, &v8, receive, BLOCK, at, bytes, NCCL_INT32, NCCL_SUM, NULL,
                                           request);
  }
  return collectives.v9->ireduce_scatter(collective, 1, &v9, receive, BLOCK, at, bytes, NCCL_INT32, NCCL_SUM, NULL,
                                         request);
}

static void move_blocks(void) {
  static char own[BLOCK], all[MOST_RANKS * BLOCK];
  static int given[MOST_RANKS * BLOCK / 4], got[BLOCK / 4];
  const size_t whole = (size_t)ranks * BLOCK;
  for (size_t i = 0; i < BLOCK; ++i) own[i] = (char)byte_of(rank, 3, i);
  for (size_t i = 0; i < whole / 4; ++i) given[i] = rank * 7 + (int)i;
  for (size_t at = 0; at < whole; at += WINDOW_BYTES) {
    const size_t bytes = at + WINDOW_BYTES < whole ? WINDOW_BYTES : whole - at;
    void *gather = NULL, *scatter = NULL;
    EXPECT(iallgather(own + own_part(at), all + at, at, bytes, &gather) == NCCL_OK && gather != NULL);
    EXPECT(ireduce_scatter((char*)given + at, (char*)got + own_part(at), at, bytes, &scatter) == NCCL_OK);
    EXPECT(scatter != NULL);
    wait_for(&gather);
    wait_for(&scatter);
  }
  for (size_t i = 0; i < whole; ++i) EXPECT(all[i] == (char)byte_of((int)(i / BLOCK), 3, i % BLOCK));
  for (int i = 0; i < BLOCK / 4; ++i) {
    EXPECT(got[i] == ranks * (ranks - 1) / 2 * 7 + ranks * (rank * (BLOCK / 4) + i));
  }
  void* none = NULL;
  EXPECT(iallgather(own, all, whole - 4, 8, &none) == NCCL_INVALID_ARGUMENT);
}

int main(int argc, char** argv) {
  const char* name = getenv("NCCL_NET_PLUGIN");
  if (argc != 5 || name == NULL) return 2;
  folder = argv[1];
  rank = atoi(argv[2]);
  ranks = atoi(argv[3]);
  if (ranks > MOST_RANKS) return 2;
  load(name, atoi(argv[4]));
  begin();
  make_ring();
  pass_messages();
  const int switches = join();
  if (switches) {
    check_support();
    /* What switches do not have goes by messages beside them. */
    reduce_by_messages();
    reduce_by_switches();
    if (collectives_version >= 8) move_blocks();
    EXPECT(OF_COLLECTIVES(close_collective(collective)) == NCCL_OK);
  } else {
    reduce_by_messages();
  }
  end_ring();
  printf("net v%d, collectives v%d %s\n", net_version, collectives_version, switches ? "by switches" : "by messages");
  return 0;
}
