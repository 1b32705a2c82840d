#include "checkpoint/checkpoint_index.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "checkpoint/contained_path.h"
#include "core/checkpoint_error.h"
#include "core/json.h"

namespace sida {
namespace {

constexpr size_t kMaxShards = 4096;
// Enough for 250 thousand tensors with names of 60 bytes. The largest published models have indices of about 20 MB.
constexpr uint32_t kMaxIndexText = 64 << 20;
constexpr uint32_t kMaxIndexHeld = 40 << 20;

// The tensors that each shard must hold, sorted. Names are views of the index.
using WeightMap = std::map<std::string_view, std::vector<std::string_view>>;

class IndexReader {
 public:
  IndexReader(JsonValue root, const std::string& file) : root_(root), file_(file) {}

  WeightMap weight_map() const {
    const auto map = root_.find("weight_map");
    if (!map || !map->is_object()) {
      throw fault("", "bad \"weight_map\"", "an object", map ? map->describe() : "none");
    }
    WeightMap shards;
    for (const JsonMember& member : map->members()) {
      const auto shard = member.value.try_text();
      if (!shard) throw fault(member.key, "bad shard", "a file name", member.value.describe());
      shards[*shard].push_back(member.key);
      if (shards.size() > kMaxShards) {
        throw fault("", "too many shards", "at most " + std::to_string(kMaxShards), "more");
      }
    }
    if (shards.empty()) throw fault("", "empty \"weight_map\"", "at least one tensor", "none");
    for (auto& [shard, names] : shards) std::sort(names.begin(), names.end());
    return shards;
  }

  Error fault(std::string_view tensor, const std::string& what, const std::string& expected, const std::string& found,
              std::map<std::string, double> numbers = {}) const {
    return checkpoint_error({file_, tensor, what, expected, found, kHint, std::move(numbers)});
  }

 private:
  static constexpr const char* kHint = "download the index and its shards again";

  JsonValue root_;
  const std::string& file_;
};

void check_shard(const IndexReader& reader, const std::vector<TensorInfo>& tensors, std::string_view shard,
                 const std::vector<std::string_view>& named) {
  std::vector<std::string_view> held;
  held.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) held.push_back(tensor.name);
  std::sort(held.begin(), held.end());
  const std::string where = "in \"" + escape_text(shard) + "\"";
  for (const std::string_view name : named) {
    if (std::binary_search(held.begin(), held.end(), name)) continue;
    throw reader.fault(name, "not in its shard", "the tensor " + where, "none");
  }
  for (const std::string_view name : held) {
    if (std::binary_search(named.begin(), named.end(), name)) continue;
    throw reader.fault(name, "in a shard that the index does not give it", "no such tensor " + where, "one");
  }
}

}  // namespace

template <typename Opened>
std::vector<Opened> open_shards(const std::string& directory, const JsonInput& index, const std::string& index_file) {
  const JsonDocument document =
      JsonDocument::parse(index, {index_file, "checkpoint_invalid", kMaxIndexText, kMaxIndexHeld});
  const IndexReader reader(document.root(), index_file);
  const WeightMap shards = reader.weight_map();
  std::vector<Opened> files;
  std::map<std::string, std::string> seen;
  for (const auto& [name, names] : shards) {
    const std::string shard(name);
    const std::string path = contained_path(directory, shard);
    if (path.empty()) {
      throw reader.fault(names.front(), "missing shard", "the file \"" + escape_text(shard) + "\"", "none");
    }
    if (!seen.emplace(path, shard).second) {
      throw reader.fault(names.front(), "two names for one shard", "one name",
                         "\"" + escape_text(shard) + "\" and \"" + escape_text(seen[path]) + "\"");
    }
    files.push_back(Opened::open(join_path(directory, shard)));
    check_shard(reader, files.back().tensors(), shard, names);
  }
  return files;
}

template std::vector<SafetensorsFile> open_shards(const std::string&, const JsonInput&, const std::string&);
template std::vector<PytorchFile> open_shards(const std::string&, const JsonInput&, const std::string&);

}  // namespace sida
