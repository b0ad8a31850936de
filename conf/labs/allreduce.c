// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
/*
 * An MPI program that knows nothing of weft: AllReduce of doubles by size, each compared with what it must be. Prints
 * bytes and microseconds, as the OSU benchmarks do.
 *
 *   allreduce [MAX_BYTES [TIMES]]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, ranks;

/* Exact in a double, whatever the order of the additions. */
static double value(int of_rank, int element) {
  return (element + of_rank) % 7;
}

static int is_right(const double* sum, int count) {
  for (int i = 0; i < count; ++i) {
    double right = 0;
    for (int r = 0; r < ranks; ++r) right += value(r, i);
    if (sum[i] != right) return 0;
  }
  return 1;
}

int main(int argc, char** argv) {
  int right = 1, all_right = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const long most = argc > 1 ? atol(argv[1]) : 1 << 20;
  const int times = argc > 2 ? atoi(argv[2]) : 50;
  const int longest = (int)(most / (long)sizeof(double));
  double *in = malloc(sizeof(double) * (size_t)longest), *out = malloc(sizeof(double) * (size_t)longest);
  if (in == NULL || out == NULL || times < 1 || longest < 1) MPI_Abort(MPI_COMM_WORLD, 1);
  for (int i = 0; i < longest; ++i) in[i] = value(rank, i);
  if (rank == 0) printf("# MPI_Allreduce, sum of doubles, %d ranks\n# bytes  microseconds\n", ranks);
  for (int count = 1; count <= longest; count *= 8) {
    MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    right &= is_right(out, count);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begun = MPI_Wtime();
    for (int n = 0; n < times; ++n) MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    double took = (MPI_Wtime() - begun) / times, longest_took = 0;
    right &= is_right(out, count);
    MPI_Reduce(&took, &longest_took, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%zu %.2f\n", sizeof(double) * (size_t)count, longest_took * 1e6);
    fflush(stdout);
  }
  MPI_Allreduce(&right, &all_right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (rank == 0 && !all_right) fprintf(stderr, "a result is wrong\n");
  free(in);
  free(out);
  MPI_Finalize();
  return all_right ? 0 : 1;
}
