#pragma once

#include <cstddef>
#include <vector>

namespace sida::emulation {

/// A thread's copies from global to shared memory that are under way: done when waited for, and not earlier.
class AsyncCopies {
 public:
  /// Begins to copy 16 bytes; what was at `shared` is lost at once.
  void begin(void* shared, const void* global);
  /// Ends a group.
  void commit();
  /// Does all groups but the last `groups`.
  void finish(size_t groups);
  void clear();

 private:
  struct Copy {
    void* shared;
    const void* global;
  };

  std::vector<Copy> copies_;
  std::vector<size_t> group_ends_;  ///< indices into copies_
};

}  // namespace sida::emulation
