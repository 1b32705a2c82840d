/* Preloaded into a server: writes the path of every file that it opens, one a line, to the file that SIDA_OPEN_LOG names. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void note(const char* path) {
  static int log = -1;
  const char* file = getenv("SIDA_OPEN_LOG");
  if (file == NULL || path == NULL) return;
  /* A system call, which is not noted itself. */
  if (log < 0) log = (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  char line[4200];
  int length = snprintf(line, sizeof line, "%s\n", path);
  if (length >= (int)sizeof line) length = sizeof line - 1;
  if (write(log, line, (size_t)length) != length) abort();
}

#define MODE(flags, last, mode) \
  if ((flags) & (O_CREAT | O_TMPFILE)) { \
    va_list rest; \
    va_start(rest, last); \
    mode = va_arg(rest, int); \
    va_end(rest); \
  }

#define OPEN(name) \
  int name(const char* path, int flags, ...) { \
    int mode = 0; \
    MODE(flags, flags, mode) \
    note(path); \
    return ((int (*)(const char*, int, int))dlsym(RTLD_NEXT, #name))(path, flags, mode); \
  }

#define OPENAT(name) \
  int name(int directory, const char* path, int flags, ...) { \
    int mode = 0; \
    MODE(flags, flags, mode) \
    note(path); \
    return ((int (*)(int, const char*, int, int))dlsym(RTLD_NEXT, #name))(directory, path, flags, mode); \
  }

#define FOPEN(name) \
  FILE* name(const char* path, const char* how) { \
    note(path); \
    return ((FILE * (*)(const char*, const char*)) dlsym(RTLD_NEXT, #name))(path, how); \
  }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
FOPEN(fopen)
FOPEN(fopen64)
