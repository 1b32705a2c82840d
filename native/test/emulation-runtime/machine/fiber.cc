#include "machine/fiber.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#include "machine/sanitizers.h"

#ifdef SIDA_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef SIDA_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace sida::emulation {
namespace {

#if defined(SIDA_ADDRESS_SANITIZER) || defined(SIDA_THREAD_SANITIZER)
#define SIDA_SANITIZED_FIBERS
constexpr size_t kStackBytes = size_t{256} << 10;
#else
constexpr size_t kStackBytes = size_t{64} << 10;
#endif

void end_switch([[maybe_unused]] void* state) {
#ifdef SIDA_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(state, nullptr, nullptr);
#endif
}

}  // namespace

Fiber::Fiber() {
  pthread_attr_t attributes;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &stack_, &stack_bytes_);
  pthread_attr_destroy(&attributes);
#ifdef SIDA_THREAD_SANITIZER
  thread_sanitizer_state_ = __tsan_get_current_fiber();
#endif
}

Fiber::Fiber(std::function<void()> entry) : entry_(std::move(entry)), begun_(false), stack_bytes_(kStackBytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  mapping_ = mmap(nullptr, page + stack_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED || mprotect(mapping_, page, PROT_NONE) != 0) throw std::bad_alloc();
  stack_ = static_cast<std::byte*>(mapping_) + page;
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack_;
  context_.uc_stack.ss_size = stack_bytes_;
  context_.uc_link = nullptr;
  // makecontext passes on integers only.
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&context_, reinterpret_cast<void (*)()>(&Fiber::begin), 2, static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self));
#ifdef SIDA_THREAD_SANITIZER
  thread_sanitizer_state_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
  if (mapping_ == nullptr) return;
#ifdef SIDA_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(stack_, stack_bytes_);
#endif
#ifdef SIDA_THREAD_SANITIZER
  __tsan_destroy_fiber(thread_sanitizer_state_);
#endif
  munmap(mapping_,
         static_cast<size_t>(static_cast<std::byte*>(stack_) - static_cast<std::byte*>(mapping_)) + stack_bytes_);
}

void Fiber::change(Fiber& from, Fiber& to) {
#ifdef SIDA_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(&from.address_sanitizer_state_, to.stack_, to.stack_bytes_);
#endif
#ifdef SIDA_THREAD_SANITIZER
  __tsan_switch_to_fiber(to.thread_sanitizer_state_, __tsan_switch_to_fiber_no_sync);
#endif
#ifdef SIDA_SANITIZED_FIBERS
  swapcontext(&from.context_, &to.context_);
#else
  // Unlike swapcontext(), without a call of the kernel for the signal mask; the sanitizers would not
  // understand it.
  if (__builtin_setjmp(from.stopped_) == 0) to.resume();
#endif
  end_switch(from.address_sanitizer_state_);
}

void Fiber::resume() {
  if (begun_) __builtin_longjmp(stopped_, 1);
  begun_ = true;
  setcontext(&context_);
  std::abort();
}

void Fiber::begin(unsigned high, unsigned low) {
  end_switch(nullptr);
  reinterpret_cast<Fiber*>(static_cast<uintptr_t>(high) << 32 | low)->entry_();
}

}  // namespace sida::emulation
