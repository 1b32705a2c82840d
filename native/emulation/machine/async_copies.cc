#include "machine/async_copies.h"

#include <cstring>

#include "emulated_instructions.h"
#include "machine/block.h"

namespace sida::emulation {
namespace {

constexpr size_t kBytes = 16;

}  // namespace

void AsyncCopies::begin(void* shared, const void* global) {
  std::memset(shared, 0xff, kBytes);
  copies_.push_back({shared, global});
}

void AsyncCopies::commit() { group_ends_.push_back(copies_.size()); }

void AsyncCopies::finish(size_t groups) {
  if (group_ends_.size() <= groups) return;
  const size_t done_groups = group_ends_.size() - groups;
  const size_t done = group_ends_[done_groups - 1];
  for (size_t i = 0; i < done; ++i) std::memcpy(copies_[i].shared, copies_[i].global, kBytes);
  copies_.erase(copies_.begin(), copies_.begin() + static_cast<ptrdiff_t>(done));
  group_ends_.erase(group_ends_.begin(), group_ends_.begin() + static_cast<ptrdiff_t>(done_groups));
  for (size_t& end : group_ends_) end -= done;
}

void AsyncCopies::clear() {
  copies_.clear();
  group_ends_.clear();
}

void copy_async_16(void* shared, const void* global) {
  Block& block = Block::current();
  if (reinterpret_cast<uintptr_t>(shared) % kBytes != 0 || reinterpret_cast<uintptr_t>(global) % kBytes != 0) {
    block.fail(cudaErrorMisalignedAddress, "an address of copy_async_16() is not a multiple of 16");
  }
  block.copies().begin(shared, global);
}

uint4 load_once_16(const void* global) {
  if (reinterpret_cast<uintptr_t>(global) % kBytes != 0) {
    Block::current().fail(cudaErrorMisalignedAddress, "an address of load_once_16() is not a multiple of 16");
  }
  return *static_cast<const uint4*>(global);
}

void copy_async_commit() { Block::current().copies().commit(); }

void copy_async_finish(size_t groups) { Block::current().copies().finish(groups); }

}  // namespace sida::emulation
