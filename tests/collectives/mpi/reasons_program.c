// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
/*
 * An MPI program with three collectives of a user's operation, five of MPI's own and a barrier; and with an argument,
 * so many duplicates of the communicator with one collective each, or with "large" one of more than 2 GiB.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static void add(void* in, void* out, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; ++i) ((int*)out)[i] += ((int*)in)[i];
}

/* So many elements share the memory of one. */
static int bcast_of_more_than_2_gib(int rank) {
  enum { BYTES = 1 << 20, TIMES = 2049 };
  static char memory[BYTES];
  int right = 1;
  MPI_Datatype element, over_each_other;
  MPI_Type_contiguous(BYTES, MPI_CHAR, &element);
  MPI_Type_create_resized(element, 0, 0, &over_each_other);
  MPI_Type_commit(&over_each_other);
  memset(memory, rank == 0 ? 7 : 1, BYTES);
  MPI_Bcast(memory, TIMES, over_each_other, 0, MPI_COMM_WORLD);
  for (int i = 0; i < BYTES; ++i) right &= memory[i] == 7;
  MPI_Type_free(&over_each_other);
  MPI_Type_free(&element);
  return right;
}

int main(int argc, char** argv) {
  enum { COUNT = 1000 };
  static int in[COUNT], out[COUNT];
  int rank = 0, ranks = 0, right = 1;
  MPI_Op op;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 0; i < COUNT; ++i) in[i] = rank + i;
  MPI_Op_create(add, 1, &op);
  for (int i = 0; i < 3; ++i) MPI_Allreduce(in, out, 1, MPI_INT, op, MPI_COMM_WORLD);
  for (int i = 0; i < 5; ++i) MPI_Allreduce(in, out, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < COUNT; ++i) right &= out[i] == ranks * (ranks - 1) / 2 + ranks * i;
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = argc > 1 ? atoi(argv[1]) : 0; i > 0; --i) {
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Barrier(copy);
    MPI_Comm_free(&copy);
  }
  if (argc > 1 && strcmp(argv[1], "large") == 0) right &= bcast_of_more_than_2_gib(rank);
  MPI_Op_free(&op);
  MPI_Finalize();
  return !right;
}
