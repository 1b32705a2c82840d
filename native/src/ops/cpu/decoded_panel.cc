#include "ops/cpu/decoded_panel.h"

#include <vector>

namespace sida {

std::byte* decoded_panel(size_t bytes) {
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  thread_local std::vector<Line> lines;
  const size_t count = (bytes + sizeof(Line) - 1) / sizeof(Line);
  if (lines.size() < count) lines.resize(count);
  return lines.front().bytes;
}

}  // namespace sida
