// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
/*
 * An MPI program that knows nothing of weft: what a collective takes, by bytes of its vector.
 *
 *   mpi_times COLLECTIVE TIMES BYTES...
 *
 * Rank 0 prints a line `BYTES MICROSECONDS` for each size: the mean of TIMES, of the slowest rank. Bytes are those of
 * the whole vector, as nccl-tests counts them: of reduce_scatter what a rank gives, of allgather what it gets.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int ranks;

static void once(const char* name, const float* in, float* out, int count) {
  if (strcmp(name, "allreduce") == 0) {
    MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  } else if (strcmp(name, "reduce") == 0) {
    MPI_Reduce(in, out, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
  } else if (strcmp(name, "reduce_scatter") == 0) {
    MPI_Reduce_scatter_block(in, out, count / ranks, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  } else if (strcmp(name, "broadcast") == 0) {
    MPI_Bcast(out, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
  } else if (strcmp(name, "allgather") == 0) {
    MPI_Allgather(in, count / ranks, MPI_FLOAT, out, count / ranks, MPI_FLOAT, MPI_COMM_WORLD);
  } else if (strcmp(name, "barrier") == 0) {
    MPI_Barrier(MPI_COMM_WORLD);
  } else {
    fprintf(stderr, "no collective '%s'\n", name);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int times = argc > 3 ? atoi(argv[2]) : 0;
  if (times < 1) {
    fputs("usage: mpi_times COLLECTIVE TIMES BYTES...\n", stderr);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  for (int i = 3; i < argc; ++i) {
    const long bytes = atol(argv[i]);
    const int count = (int)(bytes / (long)sizeof(float));
    float *in = calloc((size_t)count + 1, sizeof *in), *out = calloc((size_t)count + 1, sizeof *out);
    if (in == NULL || out == NULL) MPI_Abort(MPI_COMM_WORLD, 3);
    once(argv[1], in, out, count);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (int t = 0; t < times; ++t) once(argv[1], in, out, count);
    double mine = (MPI_Wtime() - begin) / times * 1e6, slowest;
    MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%ld %.3f\n", bytes, slowest);
    free(in);
    free(out);
  }
  MPI_Finalize();
  return 0;
}
