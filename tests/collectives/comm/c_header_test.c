// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
/* The header is C. */
#include "collectives/comm/weft_inc.h"

size_t bytes_of_a_double(void);

size_t bytes_of_a_double(void) {
  weft_inc_group_options options = {.size = sizeof options};
  options.backend = WEFT_INC_BACKEND_AUTO;
  return weft_inc_type_bytes(WEFT_INC_FP64) + (size_t)options.backend;
}
