#include "expert/disk_tier.h"

#include "core/error.h"

namespace sida {

DiskTier::DiskTier(const StripeLayout& layout, const std::vector<std::string>& paths) : layout_(layout) {
  if (paths.size() != layout.files()) throw Error("internal", "a path is needed for each stripe");
  for (size_t file = 0; file < layout.files(); ++file) {
    files_.push_back(std::make_unique<DiskFile>(paths[file], layout.file_bytes(file)));
  }
}

}  // namespace sida
