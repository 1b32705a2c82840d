#pragma once

// What the sanitizers are told of fibers and of the emulation's own work; nothing in other builds.

#if defined(__SANITIZE_ADDRESS__)
#define SIDA_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIDA_ADDRESS_SANITIZER
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define SIDA_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SIDA_THREAD_SANITIZER
#endif
#endif

#ifdef SIDA_THREAD_SANITIZER
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace sida::emulation {

/// What came before release(x) on one thread comes before what follows acquire(x) on another.
inline void release([[maybe_unused]] void* point) {
#ifdef SIDA_THREAD_SANITIZER
  __tsan_release(point);
#endif
}
inline void acquire([[maybe_unused]] void* point) {
#ifdef SIDA_THREAD_SANITIZER
  __tsan_acquire(point);
#endif
}

/// While one lives, the thread sanitizer sees neither accesses nor synchronization of this thread: the
/// machine's own work must not order the threads of a kernel.
class Unobserved {
 public:
  Unobserved() {
#ifdef SIDA_THREAD_SANITIZER
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
#endif
  }
  ~Unobserved() {
#ifdef SIDA_THREAD_SANITIZER
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
  }
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;
};

}  // namespace sida::emulation
