// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
/*
 * An MPI program with sixteen threads, each with a communicator of its own, that all run collectives at the same time.
 * Prints "all right" from rank 0; its exit status is 1 otherwise, and 2 where MPI has no threads.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 16, TURNS = 10, COUNT = 3000 };

struct thread {
  MPI_Comm comm;
  int number, mistakes;
};

static int rank, ranks;

static void* run(void* argument) {
  struct thread* t = argument;
  int in[COUNT], out[COUNT];
  for (int turn = 0; turn < TURNS; ++turn) {
    const int root = (t->number + turn) % ranks, count = 1 + (turn * 997 + t->number) % COUNT;
    for (int i = 0; i < count; ++i) in[i] = rank + i + t->number;
    MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, t->comm);
    for (int i = 0; i < count; ++i) {
      if (out[i] != ranks * (ranks - 1) / 2 + ranks * (i + t->number)) ++t->mistakes;
    }
    for (int i = 0; i < count; ++i) out[i] = rank == root ? t->number * 1000 + i : -1;
    MPI_Bcast(out, count, MPI_INT, root, t->comm);
    for (int i = 0; i < count; ++i) {
      if (out[i] != t->number * 1000 + i) ++t->mistakes;
    }
    MPI_Barrier(t->comm);
  }
  return NULL;
}

int main(int argc, char** argv) {
  struct thread threads[THREADS];
  pthread_t handles[THREADS];
  int level = 0, mistakes = 0, all = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  if (level != MPI_THREAD_MULTIPLE) {
    MPI_Finalize();
    return 2;
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 0; i < THREADS; ++i) {
    threads[i] = (struct thread){.number = i};
    MPI_Comm_dup(MPI_COMM_WORLD, &threads[i].comm);
  }
  for (int i = 0; i < THREADS; ++i) {
    if (pthread_create(&handles[i], NULL, run, &threads[i]) != 0) MPI_Abort(MPI_COMM_WORLD, 3);
  }
  for (int i = 0; i < THREADS; ++i) {
    pthread_join(handles[i], NULL);
    mistakes += threads[i].mistakes;
    MPI_Comm_free(&threads[i].comm);
  }
  MPI_Reduce(&mistakes, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0 && all == 0) printf("all right\n");
  MPI_Finalize();
  return mistakes != 0;
}
