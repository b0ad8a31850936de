// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
/*
 * An MPI program that knows nothing of weft: every rank writes the result of each collective to a file, so that those
 * of two runs can be compared.
 *
 *   mpi_results FILE few|all [GO]
 *
 * A record is a line, `NAME TYPE OP COUNT BYTES BOUNDS ORDERED`, and three blocks of so many bytes: the result; for
 * sums and products of floats the sum of |x| of each element as a double (of products: the product), and the result of
 * adding neighbours in pairs, ranks first, then pairs: what a tree of two ranks a leaf makes of them.
 *
 * With GO rank 0 prints "done" when all records are written, and all wait until this file is there.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 40000, MOST_RANKS = 4 };

static int rank, ranks;
static FILE* file;

static void record(const char* name, const char* type, const char* op, int count, const void* result, size_t bytes,
                   const void* bounds, size_t bound_bytes, const void* ordered, size_t ordered_bytes) {
  fprintf(file, "%s %s %s %d %zu %zu %zu\n", name, type, op, count, bytes, bound_bytes, ordered_bytes);
  fwrite(result, 1, bytes, file);
  if (bound_bytes > 0) fwrite(bounds, 1, bound_bytes, file);
  if (ordered_bytes > 0) fwrite(ordered, 1, ordered_bytes, file);
}

static uint32_t mixed(int of_rank, int element) {
  uint32_t h = (uint32_t)element * 2654435761u ^ (uint32_t)(of_rank + 1) * 40503u;
  h ^= h >> 15;
  return h * 2246822519u >> 8;
}

/* Floats with many digits, of both signs; products of a few of them stay in range. */
static double float_value(int of_rank, int element) {
  return ((int)(mixed(of_rank, element) % 20001) - 10000) / 7001.0;
}

static long int_value(int of_rank, int element) {
  return (long)(mixed(of_rank, element) % 201) - 100;
}

static double magnitude(double x) {
  return x < 0 ? -x : x;
}

/* Of FLOATS only: pairs of neighbours, pairs of those, and so on. */
#define FLOATS(T, MPI_T, NAME)                                                                              \
  static T in_pairs_##NAME(int is_sum, int element) {                                                       \
    T v[MOST_RANKS];                                                                                        \
    for (int r = 0; r < ranks; ++r) v[r] = (T)float_value(r, element);                                      \
    for (int n = ranks; n > 1; n = (n + 1) / 2) {                                                           \
      for (int i = 0; i < n / 2; ++i) v[i] = is_sum ? v[2 * i] + v[2 * i + 1] : v[2 * i] * v[2 * i + 1];    \
      if (n % 2 != 0) v[n / 2] = v[n - 1];                                                                  \
    }                                                                                                       \
    return v[0];                                                                                            \
  }                                                                                                         \
  static void write_##NAME(const char* what, const char* op, const T* result, int count, int first) {       \
    static double bounds[MOST];                                                                             \
    static T ordered[MOST];                                                                                 \
    const int is_sum = strcmp(op, "sum") == 0, rounds = is_sum || strcmp(op, "prod") == 0;                  \
    for (int i = 0; rounds && i < count; ++i) {                                                             \
      double all = is_sum ? 0 : 1;                                                                          \
      for (int r = 0; r < ranks; ++r) {                                                                     \
        const double x = magnitude((T)float_value(r, first + i));                                           \
        all = is_sum ? all + x : all * x;                                                                   \
      }                                                                                                     \
      bounds[i] = all;                                                                                      \
      ordered[i] = in_pairs_##NAME(is_sum, first + i);                                                      \
    }                                                                                                       \
    const size_t n = (size_t)count;                                                                         \
    record(what, #NAME, op, count, result, n * sizeof(T), bounds, rounds ? n * sizeof *bounds : 0, ordered, \
           rounds ? n * sizeof(T) : 0);                                                                     \
  }                                                                                                         \
  RUNS(T, MPI_T, NAME, float_value)

#define INTEGERS(T, MPI_T, NAME)                                                                      \
  static void write_##NAME(const char* what, const char* op, const T* result, int count, int first) { \
    (void)first;                                                                                      \
    record(what, #NAME, op, count, result, (size_t)count * sizeof(T), NULL, 0, NULL, 0);              \
  }                                                                                                   \
  RUNS(T, MPI_T, NAME, int_value)

#define RUNS(T, MPI_T, NAME, VALUE)                                                                            \
  static T in_##NAME[MOST], out_##NAME[MOST];                                                                  \
  static void reduce_##NAME(const char* op_name, MPI_Op op, int count, int all) {                              \
    for (int i = 0; i < count * ranks; ++i) in_##NAME[i] = (T)VALUE(rank, i);                                  \
    MPI_Allreduce(in_##NAME, out_##NAME, count, MPI_T, op, MPI_COMM_WORLD);                                    \
    write_##NAME("allreduce", op_name, out_##NAME, count, 0);                                                  \
    const int root = count % ranks;                                                                            \
    MPI_Reduce(in_##NAME, out_##NAME, count, MPI_T, op, root, MPI_COMM_WORLD);                                 \
    if (rank == root) write_##NAME("reduce", op_name, out_##NAME, count, 0);                                   \
    if (!all) return;                                                                                          \
    MPI_Reduce_scatter_block(in_##NAME, out_##NAME, count, MPI_T, op, MPI_COMM_WORLD);                         \
    write_##NAME("reduce_scatter_block", op_name, out_##NAME, count, rank* count);                             \
  }                                                                                                            \
  static void move_##NAME(int count, int all) {                                                                \
    const int root = count % ranks;                                                                            \
    for (int i = 0; i < count; ++i) in_##NAME[i] = (T)VALUE(rank, i);                                          \
    MPI_Bcast(in_##NAME, count, MPI_T, root, MPI_COMM_WORLD);                                                  \
    write_##NAME("bcast", "-", in_##NAME, count, 0);                                                           \
    if (!all) return;                                                                                          \
    for (int i = 0; i < count; ++i) in_##NAME[i] = (T)VALUE(rank, i);                                          \
    MPI_Allgather(in_##NAME, count, MPI_T, out_##NAME, count, MPI_T, MPI_COMM_WORLD);                          \
    record("allgather", #NAME, "-", count, out_##NAME, (size_t)(count * ranks) * sizeof(T), NULL, 0, NULL, 0); \
  }

FLOATS(float, MPI_FLOAT, float)
FLOATS(double, MPI_DOUBLE, double)
INTEGERS(int, MPI_INT, int)
INTEGERS(uint64_t, MPI_UINT64_T, uint64)
INTEGERS(signed char, MPI_SIGNED_CHAR, schar)
INTEGERS(unsigned char, MPI_UNSIGNED_CHAR, uchar)
INTEGERS(short, MPI_SHORT, short)
INTEGERS(unsigned short, MPI_UNSIGNED_SHORT, ushort)
INTEGERS(unsigned, MPI_UNSIGNED, uint)
INTEGERS(long, MPI_LONG, long)

struct type {
  void (*reduce)(const char* op_name, MPI_Op op, int count, int all);
  void (*move)(int count, int all);
  int is_float;
};

static const struct type types[] = {
    {reduce_int, move_int, 0},       {reduce_uint64, move_uint64, 0}, {reduce_double, move_double, 1},
    {reduce_float, move_float, 1},   {reduce_schar, move_schar, 0},   {reduce_uchar, move_uchar, 0},
    {reduce_short, move_short, 0},   {reduce_uint, move_uint, 0},     {reduce_long, move_long, 0},
    {reduce_ushort, move_ushort, 0},
};

static void run(int all) {
  const struct {
    const char* name;
    MPI_Op op;
    int integers_only;
  } ops[] = {{"sum", MPI_SUM, 0},   {"max", MPI_MAX, 0},  {"min", MPI_MIN, 0},   {"prod", MPI_PROD, 0},
             {"band", MPI_BAND, 1}, {"bor", MPI_BOR, 1},  {"bxor", MPI_BXOR, 1}, {"land", MPI_LAND, 1},
             {"lor", MPI_LOR, 1},   {"lxor", MPI_LXOR, 1}};
  const int counts[] = {1, 1000, 7, 9999};
  const int n_types = all ? (int)(sizeof types / sizeof *types) : 3;
  const int n_ops = all ? (int)(sizeof ops / sizeof *ops) : 2, n_counts = all ? 4 : 2;
  for (int t = 0; t < n_types; ++t) {
    for (int c = 0; c < n_counts; ++c) {
      for (int o = 0; o < n_ops; ++o) {
        if (!(types[t].is_float && ops[o].integers_only)) types[t].reduce(ops[o].name, ops[o].op, counts[c], all);
      }
      types[t].move(counts[c], all);
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
}

/* Keeps the group alive for those who want to look at it. */
static void wait_for(const char* path) {
  int go = 0;
  if (rank == 0) {
    puts("done");
    fflush(stdout);
  }
  while (!go) {
    if (rank == 0) {
      usleep(50000);
      go = access(path, F_OK) == 0;
    }
    MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  file = argc > 2 ? fopen(argv[1], "wb") : NULL;
  if (file == NULL || ranks > MOST_RANKS) MPI_Abort(MPI_COMM_WORLD, 2);
  run(strcmp(argv[2], "all") == 0);
  const int written = fclose(file) == 0;
  if (argc > 3) wait_for(argv[3]);
  MPI_Finalize();
  return written ? 0 : 1;
}
