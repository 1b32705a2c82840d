#include "checkpoint/gguf_file.h"

#include <algorithm>

#include "checkpoint/contained_path.h"
#include "checkpoint/gguf_cursor.h"
#include "checkpoint/gguf_head.h"
#include "checkpoint/model_file.h"

namespace sida {

GgufFile GgufFile::open(const std::string& directory, const std::string& name) {
  GgufFile result(open_model_file(directory, name), join_path(directory, name));
  GgufHead head = read_gguf_head(result.file_, result.display_);
  result.entries_ = std::move(head.entries);
  result.tensors_ = std::move(head.tensors);
  return result;
}

const GgufEntry* GgufFile::find(std::string_view key) const {
  const auto before = [](const GgufEntry& entry, std::string_view other) { return entry.key < other; };
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), key, before);
  return at != entries_.end() && at->key == key ? &*at : nullptr;
}

std::string GgufFile::read(const GgufEntry& entry) const {
  std::string bytes(entry.bytes, '\0');
  file_.pread_exact(entry.offset, bytes.data(), bytes.size());
  return bytes;
}

void GgufFile::for_each_text(const GgufEntry& entry,
                             const std::function<void(uint64_t, std::string_view)>& visit) const {
  GgufCursor cursor(file_, display_, kMaxGgufHead);
  cursor.skip(entry.offset, "the head");
  for (uint64_t i = 0; i < entry.count; ++i) visit(i, cursor.read_text(kMaxGgufHead, "a text"));
}

std::vector<uint64_t> without_leading_ones(std::vector<uint64_t> shape) {
  const auto is_one = [](uint64_t dimension) { return dimension == 1; };
  if (!shape.empty()) shape.erase(shape.begin(), std::find_if_not(shape.begin(), shape.end() - 1, is_one));
  return shape;
}

}  // namespace sida
