#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>

namespace sida::emulation {

/// A flow of control with a stack of its own on one thread of the CPU, switched by hand.
class Fiber {
 public:
  /// The calling thread's own flow.
  Fiber();
  /// Runs `entry`, which must not return, when first switched to.
  explicit Fiber(std::function<void()> entry);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Leaves `from`, which runs, for `to`; returns when another switches to `from`.
  [[gnu::noinline]] static void change(Fiber& from, Fiber& to);

 private:
  static void begin(unsigned high, unsigned low);
  [[noreturn, gnu::noinline]] void resume();

  std::function<void()> entry_;
  ucontext_t context_;  ///< where it begins; with sanitizers, where it stopped
  void* stopped_[5];    ///< where it stopped, as __builtin_setjmp() keeps it
  bool begun_ = true;
  void* mapping_ = nullptr;  ///< a guard page and the stack
  void* stack_ = nullptr;
  size_t stack_bytes_ = 0;
  void* address_sanitizer_state_ = nullptr;
  void* thread_sanitizer_state_ = nullptr;
};

}  // namespace sida::emulation
