/*
 * Preloaded into a process to make its files and its memory fail, and to set its wall clock forward or back. The test
 * decides by a file that both map: int32 read fault, int32 matching reads to let pass, int32 reads that failed, int32
 * allocation to fail (1: the next; 0: none), int32 allocations that failed, from byte 24 on int64 seconds of the wall
 * clock, and from byte 64 on what the path of a failing file contains. Monotonic clocks go on as they are.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { kNone, kError, kShort, kEnd };

struct Control {
  atomic_int fault, pass, failed, allocation, allocations_failed;
  _Alignas(8) _Atomic int64_t seconds;
  char padding[32];
  char match[192];
};

static struct Control* control;

__attribute__((constructor)) static void open_control(void) {
  const char* path = getenv("SIDA_FAULT_CONTROL");
  if (path == NULL) return;
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void* memory = mmap(NULL, sizeof(struct Control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory != MAP_FAILED) control = memory;
}

static int fault_of(int fd) {
  if (control == NULL || atomic_load(&control->fault) == kNone) return kNone;
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return kNone;
  path[length] = '\0';
  if (strstr(path, control->match) == NULL) return kNone;
  if (atomic_fetch_sub(&control->pass, 1) > 0) return kNone;
  atomic_fetch_add(&control->failed, 1);
  return atomic_load(&control->fault);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* A page is the least that a file opened with O_DIRECT may be asked for. */
static size_t shortened(size_t bytes) { return bytes > 4096 ? 4096 : bytes; }

#define READ(name)                                                    \
  ssize_t name(int fd, void* out, size_t bytes, off_t offset) {       \
    switch (fault_of(fd)) {                                           \
      case kError:                                                    \
        errno = EIO;                                                  \
        return -1;                                                    \
      case kShort:                                                    \
        return REAL(name)(fd, out, shortened(bytes), offset);         \
      case kEnd:                                                      \
        return 0;                                                     \
      default:                                                        \
        return REAL(name)(fd, out, bytes, offset);                    \
    }                                                                 \
  }

#define READ_VECTOR(name)                                                     \
  ssize_t name(int fd, const struct iovec* buffers, int count, off_t offset) { \
    struct iovec first = buffers[0];                                          \
    switch (fault_of(fd)) {                                                   \
      case kError:                                                            \
        errno = EIO;                                                          \
        return -1;                                                            \
      case kShort:                                                            \
        first.iov_len = shortened(first.iov_len);                             \
        return REAL(name)(fd, &first, 1, offset);                             \
      case kEnd:                                                              \
        return 0;                                                             \
      default:                                                                \
        return REAL(name)(fd, buffers, count, offset);                        \
    }                                                                         \
  }

READ(pread)
READ(pread64)
READ_VECTOR(preadv)
READ_VECTOR(preadv64)

/* Only the addon's own memory: Node's and the C library's are not what is tested. */
static int called_by_addon(void* caller) {
  Dl_info info;
  return dladdr(caller, &info) != 0 && strstr(info.dli_fname, "sida.node") != NULL;
}

void* mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) {
  if (control != NULL && (flags & MAP_ANONYMOUS) != 0 && atomic_load(&control->allocation) > 0 &&
      called_by_addon(__builtin_return_address(0)) && atomic_fetch_sub(&control->allocation, 1) == 1) {
    atomic_fetch_add(&control->allocations_failed, 1);
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return REAL(mmap)(address, bytes, protection, flags, fd, offset);
}

int clock_gettime(clockid_t clock, struct timespec* out) {
  const int result = (int)syscall(SYS_clock_gettime, clock, out);
  const int wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (result == 0 && wall && control != NULL) out->tv_sec += atomic_load(&control->seconds);
  return result;
}

int gettimeofday(struct timeval* restrict out, void* restrict zone) {
  (void)zone;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != NULL) *out = now.tv_sec;
  return now.tv_sec;
}
