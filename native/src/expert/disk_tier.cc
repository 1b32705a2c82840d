#include "expert/disk_tier.h"

#include <string>
#include <utility>

#include "core/error.h"
#include "expert/disk_file.h"

namespace sida {

namespace {

std::string line_of(const std::string& page) { return escape_text(page.substr(0, page.find('\n'))); }

void check_seal(ExpertFile& file, const StripeLayout& layout, size_t index) {
  const std::string expected = layout.seal(index);
  if (expected.empty()) return;
  alignas(4096) std::byte page[4096];
  file.read(layout.blocks_end(index), sizeof page, page);
  const std::string found(reinterpret_cast<const char*>(page), sizeof page);
  if (found == expected) return;
  throw Error("pack_invalid", file.path() + ": expected " + line_of(expected) + ", found " + line_of(found) +
                                  "; put each stripe in its place or convert the model again");
}

}  // namespace

DiskTier::DiskTier(const StripeLayout& layout, const std::vector<std::string>& paths) : layout_(layout) {
  if (paths.size() != layout.files()) throw Error("internal", "a path is needed for each stripe");
  for (size_t file = 0; file < layout.files(); ++file) {
    files_.push_back(std::make_unique<DiskFile>(paths[file], layout.file_bytes(file)));
    check_seal(*files_.back(), layout, file);
  }
}

DiskTier::DiskTier(const StripeLayout& layout, std::unique_ptr<ExpertFile> file) : layout_(layout) {
  files_.push_back(std::move(file));
}

}  // namespace sida
