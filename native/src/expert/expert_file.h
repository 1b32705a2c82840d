#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sida {

/// The packed blocks of experts, one after the other, from wherever they are kept. Reads may come from any thread.
class ExpertFile {
 public:
  virtual ~ExpertFile() = default;

  /// Reads the bytes from `offset` on into one buffer after the other. All offsets, sizes and addresses are multiples
  /// of 4 KiB. Takes at most IOV_MAX buffers and changes their entries. Blocks. Throws io_error.
  virtual void read(uint64_t offset, std::span<iovec> buffers) = 0;
  void read(uint64_t offset, uint64_t bytes, std::byte* out) {
    iovec buffer{out, bytes};
    read(offset, {&buffer, 1});
  }

  /// Names it in errors.
  virtual const std::string& path() const = 0;
  virtual uint64_t bytes() const = 0;
  /// Whether reads pass the page cache.
  virtual bool direct() const = 0;
};

}  // namespace sida
