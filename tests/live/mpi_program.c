// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
/*
 * An MPI program that knows nothing of weft: every collective that switches run, and some that they do not, over many
 * sizes, or the first few of them (its argument), with results that every rank can compute. Prints "all right" from
 * rank 0; its exit status is 1 otherwise. With the argument "hang" it says so and never ends.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, ranks, mistakes;

static void expect(int right, const char* what, int count) {
  if (right) return;
  ++mistakes;
  fprintf(stderr, "rank %d: %s of %d is wrong\n", rank, what, count);
}

/* Small numbers, whose sums are exact in every type. */
static double value(int of_rank, int element) {
  return 1 + (element + of_rank) % 3;
}

static double combined(MPI_Op op, int element) {
  double all = value(0, element);
  for (int r = 1; r < ranks; ++r) {
    const double v = value(r, element);
    if (op == MPI_SUM) all += v;
    if (op == MPI_PROD) all *= v;
    if (op == MPI_MAX && v > all) all = v;
    if (op == MPI_MIN && v < all) all = v;
  }
  return all;
}

#define REDUCTIONS(T, MPI_T, NAME)                                                                           \
  static void NAME(MPI_Comm comm, MPI_Op op, int count) {                                                    \
    T *in = malloc(sizeof(T) * (size_t)(count * ranks)), *out = malloc(sizeof(T) * (size_t)(count * ranks)); \
    int right = 1;                                                                                           \
    for (int i = 0; i < count * ranks; ++i) in[i] = (T)value(rank, i);                                       \
    MPI_Allreduce(in, out, count, MPI_T, op, comm);                                                          \
    for (int i = 0; i < count; ++i) right &= out[i] == (T)combined(op, i);                                   \
    expect(right, "allreduce", count);                                                                       \
    memcpy(out, in, sizeof(T) * (size_t)count);                                                              \
    MPI_Allreduce(MPI_IN_PLACE, out, count, MPI_T, op, comm);                                                \
    for (int i = 0; i < count; ++i) right &= out[i] == (T)combined(op, i);                                   \
    expect(right, "allreduce in place", count);                                                              \
    for (int root = 0; root < ranks; ++root) {                                                               \
      MPI_Reduce(in, out, count, MPI_T, op, root, comm);                                                     \
      for (int i = 0; i < count && rank == root; ++i) right &= out[i] == (T)combined(op, i);                 \
    }                                                                                                        \
    expect(right, "reduce", count);                                                                          \
    MPI_Reduce_scatter_block(in, out, count, MPI_T, op, comm);                                               \
    for (int i = 0; i < count; ++i) right &= out[i] == (T)combined(op, rank * count + i);                    \
    expect(right, "reduce_scatter_block", count);                                                            \
    memcpy(out, in, sizeof(T) * (size_t)(count * ranks));                                                    \
    MPI_Reduce_scatter_block(MPI_IN_PLACE, out, count, MPI_T, op, comm);                                     \
    for (int i = 0; i < count; ++i) right &= out[i] == (T)combined(op, rank * count + i);                    \
    expect(right, "reduce_scatter_block in place", count);                                                   \
    free(in);                                                                                                \
    free(out);                                                                                               \
  }

REDUCTIONS(int, MPI_INT, reductions_int)
REDUCTIONS(double, MPI_DOUBLE, reductions_double)
REDUCTIONS(unsigned char, MPI_UNSIGNED_CHAR, reductions_bytes)

static void moves(MPI_Comm comm, int count) {
  int *all = malloc(sizeof(int) * (size_t)(count * ranks)), *own = malloc(sizeof(int) * (size_t)count), right = 1;
  for (int root = 0; root < ranks; ++root) {
    for (int i = 0; i < count; ++i) own[i] = rank == root ? root + i : -1;
    MPI_Bcast(own, count, MPI_INT, root, comm);
    for (int i = 0; i < count; ++i) right &= own[i] == root + i;
  }
  expect(right, "bcast", count);
  for (int i = 0; i < count; ++i) own[i] = rank * 1000 + i;
  MPI_Allgather(own, count, MPI_INT, all, count, MPI_INT, comm);
  for (int i = 0; i < count * ranks; ++i) right &= all[i] == i / count * 1000 + i % count;
  for (int i = 0; i < count * ranks; ++i) all[i] = i / count == rank ? rank * 1000 + i % count : -1;
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, count, MPI_INT, comm);
  for (int i = 0; i < count * ranks; ++i) right &= all[i] == i / count * 1000 + i % count;
  expect(right, "allgather", count);
  free(all);
  free(own);
}

/* Every second element, at one rank alone. */
static void bcast_of_a_vector(MPI_Comm comm, MPI_Datatype second) {
  int spread[40], right = 1;
  for (int i = 0; i < 40; ++i) spread[i] = rank == 0 ? i : -1;
  if (rank == 0) {
    MPI_Bcast(spread, 1, second, 0, comm);
  } else {
    MPI_Bcast(spread, 20, MPI_INT, 0, comm);
    for (int i = 0; i < 20; ++i) right &= spread[i] == 2 * i;
  }
  expect(right, "bcast of a vector", 20);
}

/* Every second element at all ranks, given, got, or both. What is between them stays. */
static void allgather_of_vectors(MPI_Comm comm, MPI_Datatype second) {
  int own[40], *all = malloc(sizeof(int) * 40 * (size_t)ranks), right = 1;
  for (int i = 0; i < 40; ++i) own[i] = i % 2 == 0 ? 100 * rank + i / 2 : -1;
  MPI_Allgather(own, 1, second, all, 20, MPI_INT, comm);
  for (int i = 0; i < 20 * ranks; ++i) right &= all[i] == 100 * (i / 20) + i % 20;
  expect(right, "allgather from a vector", 20);
  for (int in_place = 0; in_place < 2; ++in_place) {
    for (int i = 0; i < 40 * ranks; ++i) all[i] = -7;
    /* The last element of the type has none behind it: blocks are 39 elements apart. */
    for (int i = 0; i < 20 && in_place; ++i) all[39 * rank + 2 * i] = 100 * rank + i;
    MPI_Allgather(in_place ? MPI_IN_PLACE : own, 1, second, all, 1, second, comm);
    for (int r = 0; r < ranks; ++r) {
      for (int i = 0; i < 39; ++i) right &= all[39 * r + i] == (i % 2 == 0 ? 100 * r + i / 2 : -7);
    }
  }
  expect(right, "allgather of vectors", 20);
  free(all);
}

/* Pairs, which no switch has, with an operation of the program's. */
static void larger_pairs(void* in, void* out, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < 2 * *count; ++i) {
    if (((int*)in)[i] > ((int*)out)[i]) ((int*)out)[i] = ((int*)in)[i];
  }
}

static void reduce_of_pairs(MPI_Comm comm) {
  int in[20], out[20], right = 1;
  MPI_Datatype pair;
  MPI_Op op;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  MPI_Op_create(larger_pairs, 1, &op);
  for (int i = 0; i < 20; ++i) in[i] = (rank + i) % ranks;
  MPI_Reduce(in, out, 10, pair, op, ranks - 1, comm);
  for (int i = 0; i < 20 && rank == ranks - 1; ++i) right &= out[i] == ranks - 1;
  MPI_Allreduce(in, out, 10, pair, op, comm);
  for (int i = 0; i < 20; ++i) right &= out[i] == ranks - 1;
  expect(right, "reduce of pairs", 10);
  MPI_Op_free(&op);
  MPI_Type_free(&pair);
}

static void derived_types(MPI_Comm comm) {
  MPI_Datatype second;
  MPI_Type_vector(20, 1, 2, MPI_INT, &second);
  MPI_Type_commit(&second);
  bcast_of_a_vector(comm, second);
  allgather_of_vectors(comm, second);
  reduce_of_pairs(comm);
  MPI_Type_free(&second);
}

/* Even and odd ranks. What a side gets is the sum of the other. */
static void intercommunicator(void) {
  MPI_Comm half, both;
  int sum = -1, right = 0, first = rank % 2 == 0 ? 70 : -1;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 == 0 ? 1 : 0, 5, &both);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, both);
  for (int r = 1 - rank % 2; r < ranks; r += 2) right += r;
  expect(sum == right, "allreduce of an intercommunicator", 1);
  MPI_Bcast(&first, 1, MPI_INT, rank % 2 != 0 ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL, both);
  expect(first == 70, "bcast of an intercommunicator", 1);
  MPI_Barrier(both);
  MPI_Comm_free(&both);
  MPI_Comm_free(&half);
}

static void larger(void* in, void* out, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; ++i) {
    if (((int*)in)[i] > ((int*)out)[i]) ((int*)out)[i] = ((int*)in)[i];
  }
}

static void what_switches_do_not_have(MPI_Comm comm) {
  int mine = rank, most = -1, nothing = 7;
  MPI_Op op;
  MPI_Op_create(larger, 1, &op);
  MPI_Allreduce(&mine, &most, 1, MPI_INT, op, comm);
  expect(most == ranks - 1, "a user's operation", 1);
  MPI_Op_free(&op);
  struct {
    double v;
    int at;
  } in = {rank, rank}, out;
  MPI_Allreduce(&in, &out, 1, MPI_DOUBLE_INT, MPI_MAXLOC, comm);
  expect(out.at == ranks - 1, "maxloc", 1);
  MPI_Allreduce(&mine, &nothing, 0, MPI_INT, MPI_SUM, comm);
  expect(nothing == 7, "allreduce", 0);
}

static void communicators(void) {
  MPI_Comm all[16], half;
  for (int i = 0; i < 16; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &all[i]);
  for (int i = 15; i >= 0; --i) {
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all[i]);
    expect(sum == ranks * (ranks - 1) / 2, "allreduce of a duplicate", 1);
  }
  /* All have their groups; non-blocking collectives of all are under way while those of switches run. */
  int begun[16], ended[16];
  MPI_Request requests[16];
  for (int i = 0; i < 16; ++i) {
    begun[i] = rank + i;
    MPI_Iallreduce(&begun[i], &ended[i], 1, MPI_INT, MPI_SUM, all[i], &requests[i]);
  }
  for (int i = 0; i < 16; ++i) {
    int sum = 0;
    MPI_Allreduce(&begun[i], &sum, 1, MPI_INT, MPI_SUM, all[i]);
    expect(sum == ranks * (ranks - 1) / 2 + ranks * i, "allreduce beside others", 1);
  }
  MPI_Waitall(16, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < 16; ++i) {
    expect(ended[i] == ranks * (ranks - 1) / 2 + ranks * i, "iallreduce beside others", 1);
    MPI_Comm_free(&all[i]);
  }
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  int sum = 0, right = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, half);
  for (int r = rank % 2; r < ranks; r += 2) right += r;
  expect(sum == right, "allreduce of a half", 1);
  MPI_Comm_free(&half);
}

/* A duplicate that nobody frees: MPI_Finalize finds it with its group. What the component makes for it comes to have a
 * lower number, which another one had before. */
static void left_to_finalize(void) {
  MPI_Comm before, left;
  int sum = 0;
  MPI_Comm_dup(MPI_COMM_WORLD, &before);
  MPI_Comm_dup(MPI_COMM_WORLD, &left);
  MPI_Comm_set_name(left, "left");
  MPI_Comm_free(&before);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, left);
  expect(sum == ranks * (ranks - 1) / 2, "allreduce of what is left", 1);
}

int main(int argc, char** argv) {
  const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_PROD};
  const int counts[] = {1, 3, 257, 20000};
  const int sizes = argc > 1 ? atoi(argv[1]) : 4;
  int all = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc > 1 && strcmp(argv[1], "hang") == 0) {
    printf("rank %d waits\n", rank);
    fflush(stdout);
    for (;;) pause();
  }
  for (int c = 0; c < sizes; ++c) {
    reductions_int(MPI_COMM_WORLD, ops[c], counts[c]);
    reductions_double(MPI_COMM_WORLD, ops[c % 2], counts[c]);
    reductions_bytes(MPI_COMM_WORLD, ops[c], counts[c]);
    moves(MPI_COMM_WORLD, counts[c]);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  derived_types(MPI_COMM_WORLD);
  what_switches_do_not_have(MPI_COMM_WORLD);
  communicators();
  intercommunicator();
  left_to_finalize();
  MPI_Reduce(&mistakes, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0 && all == 0) printf("all right\n");
  MPI_Finalize();
  return mistakes != 0;
}
