// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
/*
 * Loaded in front of the C library (LD_PRELOAD), it makes the time of day of a program jump while it runs: by as many
 * seconds as the first eight bytes of the file $WEFT_CLOCK_JUMP say, a double. The monotonic clock stays as it is, as
 * when an operator or NTP sets a machine's clock.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile double* jump;

__attribute__((constructor)) static void open_jump(void) {
  const char* path = getenv("WEFT_CLOCK_JUMP");
  const int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  void* at = mmap(NULL, sizeof *jump, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (at != MAP_FAILED) jump = at;
}

int clock_gettime(clockid_t clock, struct timespec* to) {
  if (syscall(SYS_clock_gettime, clock, to) != 0) return -1;
  if (jump == NULL || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return 0;
  const double by = *jump, whole = floor(by);
  to->tv_sec += (time_t)whole;
  to->tv_nsec += (long)((by - whole) * 1e9);
  if (to->tv_nsec < 1000000000) return 0;
  to->tv_nsec -= 1000000000;
  ++to->tv_sec;
  return 0;
}

int gettimeofday(struct timeval* to, void* zone) {
  (void)zone;
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  to->tv_sec = now.tv_sec;
  to->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* to) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (to != NULL) *to = now.tv_sec;
  return now.tv_sec;
}
