// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include <stdlib.h>
#include <string.h>

#include <ompi/datatype/ompi_datatype.h>
#include "collectives/mpi/coll_weft.h"

int coll_weft_type(struct ompi_datatype_t* type) {
  const struct {
    MPI_Datatype mpi;
    enum weft_inc_type ours;
  } types[] = {
      {MPI_FLOAT, WEFT_INC_FP32},
      {MPI_DOUBLE, WEFT_INC_FP64},
      {MPI_SIGNED_CHAR, WEFT_INC_INT8},
      {MPI_INT8_T, WEFT_INC_INT8},
      {MPI_SHORT, WEFT_INC_INT16},
      {MPI_INT16_T, WEFT_INC_INT16},
      {MPI_INT, WEFT_INC_INT32},
      {MPI_INT32_T, WEFT_INC_INT32},
      {MPI_LONG, WEFT_INC_INT64},
      {MPI_LONG_LONG, WEFT_INC_INT64},
      {MPI_INT64_T, WEFT_INC_INT64},
      {MPI_UNSIGNED_CHAR, WEFT_INC_UINT8},
      {MPI_UINT8_T, WEFT_INC_UINT8},
      {MPI_UNSIGNED_SHORT, WEFT_INC_UINT16},
      {MPI_UINT16_T, WEFT_INC_UINT16},
      {MPI_UNSIGNED, WEFT_INC_UINT32},
      {MPI_UINT32_T, WEFT_INC_UINT32},
      {MPI_UNSIGNED_LONG, WEFT_INC_UINT64},
      {MPI_UNSIGNED_LONG_LONG, WEFT_INC_UINT64},
      {MPI_UINT64_T, WEFT_INC_UINT64},
  };
  _Static_assert(sizeof(int) == 4 && sizeof(long) == 8 && sizeof(short) == 2, "the types above");
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
    if (types[i].mpi == type) return (int)types[i].ours;
  }
  return -1;
}

int coll_weft_op(struct ompi_op_t* op) {
  const MPI_Op ops[] = {MPI_SUM, MPI_MIN, MPI_MAX, MPI_PROD, MPI_BAND, MPI_BOR, MPI_BXOR};
  for (int i = 0; i < (int)(sizeof ops / sizeof *ops); ++i) {
    if (ops[i] == op) return i;
  }
  return -1;
}

/* A reduction of a type and operation that the library has; MPI wants both to be the same at all ranks. */
static enum coll_weft_way reduces(coll_weft_module* m, struct ompi_communicator_t* comm,
                                  enum weft_inc_primitive primitive, struct ompi_datatype_t* type, struct ompi_op_t* op,
                                  int count) {
  const int t = coll_weft_type(type), o = coll_weft_op(op);
  if (count == 0) return coll_weft_fall_back(m, COLL_WEFT_EMPTY);
  if (t < 0 || o < 0) return coll_weft_fall_back(m, WEFT_INC_REASON_NO_OPERATION);
  return coll_weft_way_of(m, comm, primitive, (enum weft_inc_type)t, (enum weft_inc_op)o,
                          (uint64_t)count * weft_inc_type_bytes((enum weft_inc_type)t));
}

int coll_weft_allreduce(const void* send, void* receive, int count, struct ompi_datatype_t* type, struct ompi_op_t* op,
                        struct ompi_communicator_t* comm, mca_coll_base_module_t* module) {
  coll_weft_module* m = (coll_weft_module*)module;
  weft_inc_request* request = NULL;
  const enum coll_weft_way way = reduces(m, comm, WEFT_INC_ALLREDUCE, type, op, count);
  if (way == COLL_WEFT_HOSTS) return coll_weft_hosts_allreduce(&m->hosts, send, receive, count, type, op);
  if (way == COLL_WEFT_BEFORE) {
    return m->before.coll_allreduce(send, receive, count, type, op, comm, m->before.coll_allreduce_module);
  }
  return coll_weft_finish(
      weft_inc_iallreduce(m->group, send == MPI_IN_PLACE ? receive : send, receive, (size_t)count,
                          (enum weft_inc_type)coll_weft_type(type), (enum weft_inc_op)coll_weft_op(op), &request),
      &request);
}

int coll_weft_reduce(const void* send, void* receive, int count, struct ompi_datatype_t* type, struct ompi_op_t* op,
                     int root, struct ompi_communicator_t* comm, mca_coll_base_module_t* module) {
  coll_weft_module* m = (coll_weft_module*)module;
  weft_inc_request* request = NULL;
  const enum coll_weft_way way = reduces(m, comm, WEFT_INC_REDUCE, type, op, count);
  if (way == COLL_WEFT_HOSTS) return coll_weft_hosts_reduce(&m->hosts, send, receive, count, type, op, root);
  if (way == COLL_WEFT_BEFORE) {
    return m->before.coll_reduce(send, receive, count, type, op, root, comm, m->before.coll_reduce_module);
  }
  return coll_weft_finish(weft_inc_ireduce(m->group, send == MPI_IN_PLACE ? receive : send, receive, (size_t)count,
                                           (enum weft_inc_type)coll_weft_type(type), (enum weft_inc_op)coll_weft_op(op),
                                           (uint32_t)root, &request),
                          &request);
}

int coll_weft_reduce_scatter_block(const void* send, void* receive, int count, struct ompi_datatype_t* type,
                                   struct ompi_op_t* op, struct ompi_communicator_t* comm,
                                   mca_coll_base_module_t* module) {
  coll_weft_module* m = (coll_weft_module*)module;
  weft_inc_request* request = NULL;
  const enum coll_weft_way way = reduces(m, comm, WEFT_INC_REDUCE_SCATTER, type, op, count);
  if (way == COLL_WEFT_HOSTS) return coll_weft_hosts_reduce_scatter_block(&m->hosts, send, receive, count, type, op);
  /* MPI's in place has the result in the first block, whatever the rank; the library's in the rank's own. */
  if (way == COLL_WEFT_BEFORE) {
    return m->before.coll_reduce_scatter_block(send, receive, count, type, op, comm,
                                               m->before.coll_reduce_scatter_block_module);
  }
  const size_t block = (size_t)count * weft_inc_type_bytes((enum weft_inc_type)coll_weft_type(type));
  char* result = send == MPI_IN_PLACE ? malloc(block) : receive;
  if (result == NULL) return MPI_ERR_NO_MEM;
  const int rc = coll_weft_finish(
      weft_inc_ireduce_scatter(m->group, send == MPI_IN_PLACE ? receive : send, result, (size_t)count,
                               (enum weft_inc_type)coll_weft_type(type), (enum weft_inc_op)coll_weft_op(op), &request),
      &request);
  if (result == receive) return rc;
  if (rc == MPI_SUCCESS) memcpy(receive, result, block);
  free(result);
  return rc;
}

int coll_weft_barrier(struct ompi_communicator_t* comm, mca_coll_base_module_t* module) {
  coll_weft_module* m = (coll_weft_module*)module;
  weft_inc_request* request = NULL;
  const enum coll_weft_way way = coll_weft_way_of(m, comm, WEFT_INC_BARRIER, WEFT_INC_FP32, WEFT_INC_SUM, 0);
  if (way == COLL_WEFT_HOSTS) return coll_weft_hosts_barrier(&m->hosts);
  if (way == COLL_WEFT_BEFORE) {
    return m->before.coll_barrier(comm, m->before.coll_barrier_module);
  }
  return coll_weft_finish(weft_inc_ibarrier(m->group, &request), &request);
}

/* Of collectives that move bytes, ranks may name the same bytes by other types, so that the number of bytes alone says
 * who runs one. */
static enum coll_weft_way moves(coll_weft_module* m, struct ompi_communicator_t* comm,
                                enum weft_inc_primitive primitive, size_t bytes) {
  if (bytes == 0) return coll_weft_fall_back(m, COLL_WEFT_EMPTY);
  if (bytes > INT32_MAX) return coll_weft_fall_back(m, WEFT_INC_REASON_TOO_LARGE);
  return coll_weft_way_of(m, comm, primitive, WEFT_INC_UINT8, WEFT_INC_SUM, bytes);
}

/* A rank whose elements do not follow each other packs them. */
int coll_weft_bcast(void* buffer, int count, struct ompi_datatype_t* type, int root, struct ompi_communicator_t* comm,
                    mca_coll_base_module_t* module) {
  coll_weft_module* m = (coll_weft_module*)module;
  weft_inc_request* request = NULL;
  size_t element = 0;
  ompi_datatype_type_size(type, &element);
  const size_t bytes = element * (size_t)count;
  const enum coll_weft_way way = moves(m, comm, WEFT_INC_BROADCAST, bytes);
  if (way == COLL_WEFT_HOSTS) return coll_weft_hosts_bcast(&m->hosts, buffer, count, type, root);
  if (way == COLL_WEFT_BEFORE) {
    return m->before.coll_bcast(buffer, count, type, root, comm, m->before.coll_bcast_module);
  }
  if (coll_weft_type(type) >= 0 || type == MPI_BYTE || type == MPI_CHAR) {
    return coll_weft_finish(weft_inc_ibroadcast(m->group, buffer, bytes, WEFT_INC_UINT8, (uint32_t)root, &request),
                            &request);
  }
  void* packed = malloc(bytes);
  if (packed == NULL) return MPI_ERR_NO_MEM;
  const int sends = ompi_comm_rank(comm) == root;
  int rc = sends ? ompi_datatype_sndrcv(buffer, count, type, packed, (int)bytes, MPI_BYTE) : MPI_SUCCESS;
  if (rc == MPI_SUCCESS) {
    rc = coll_weft_finish(weft_inc_ibroadcast(m->group, packed, bytes, WEFT_INC_UINT8, (uint32_t)root, &request),
                          &request);
  }
  if (rc == MPI_SUCCESS && !sends) rc = ompi_datatype_sndrcv(packed, (int)bytes, MPI_BYTE, buffer, count, type);
  free(packed);
  return rc;
}

/* Packs this rank's part into its block of `all`, runs it there, and unpacks all parts. */
static int gather_packed(coll_weft_module* m, const void* send, int send_count, struct ompi_datatype_t* send_type,
                         void* receive, int receive_count, struct ompi_datatype_t* receive_type,
                         struct ompi_communicator_t* comm, size_t block) {
  weft_inc_request* request = NULL;
  const size_t ranks = (size_t)ompi_comm_size(comm), rank = (size_t)ompi_comm_rank(comm);
  ptrdiff_t lower = 0, extent = 0;
  ompi_datatype_get_extent(receive_type, &lower, &extent);
  const ptrdiff_t stride = extent * receive_count;
  char* all = malloc(block * ranks);
  if (all == NULL) return MPI_ERR_NO_MEM;
  const int in_place = send == MPI_IN_PLACE;
  int rc = ompi_datatype_sndrcv(in_place ? (char*)receive + (ptrdiff_t)rank * stride : send,
                                in_place ? receive_count : send_count, in_place ? receive_type : send_type,
                                all + rank * block, (int)block, MPI_BYTE);
  if (rc == MPI_SUCCESS) {
    rc = coll_weft_finish(weft_inc_iallgather(m->group, all + rank * block, all, block, WEFT_INC_UINT8, &request),
                          &request);
  }
  for (size_t r = 0; r < ranks && rc == MPI_SUCCESS; ++r) {
    rc = ompi_datatype_sndrcv(all + r * block, (int)block, MPI_BYTE, (char*)receive + (ptrdiff_t)r * stride,
                              receive_count, receive_type);
  }
  free(all);
  return rc;
}

int coll_weft_allgather(const void* send, int send_count, struct ompi_datatype_t* send_type, void* receive,
                        int receive_count, struct ompi_datatype_t* receive_type, struct ompi_communicator_t* comm,
                        mca_coll_base_module_t* module) {
  coll_weft_module* m = (coll_weft_module*)module;
  weft_inc_request* request = NULL;
  size_t element = 0;
  ompi_datatype_type_size(receive_type, &element);
  const size_t block = element * (size_t)receive_count;
  const enum coll_weft_way way = moves(m, comm, WEFT_INC_ALLGATHER, block);
  if (way == COLL_WEFT_HOSTS) {
    return coll_weft_hosts_allgather(&m->hosts, send, send_count, send_type, receive, receive_count, receive_type);
  }
  if (way == COLL_WEFT_BEFORE) {
    return m->before.coll_allgather(send, send_count, send_type, receive, receive_count, receive_type, comm,
                                    m->before.coll_allgather_module);
  }
  const int plain = coll_weft_type(receive_type) >= 0 && (send == MPI_IN_PLACE || coll_weft_type(send_type) >= 0);
  if (!plain) {
    return gather_packed(m, send, send_count, send_type, receive, receive_count, receive_type, comm, block);
  }
  const void* from = send == MPI_IN_PLACE ? (char*)receive + (size_t)ompi_comm_rank(comm) * block : send;
  return coll_weft_finish(weft_inc_iallgather(m->group, from, receive, block, WEFT_INC_UINT8, &request), &request);
}
