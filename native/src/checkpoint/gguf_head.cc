#include "checkpoint/gguf_head.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <numeric>
#include <string_view>
#include <utility>

#include "checkpoint/ggml_types.h"
#include "checkpoint/gguf_cursor.h"
#include "core/checkpoint_error.h"

namespace sida {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF files are read as they are");

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint64_t kMaxKey = 65535;
constexpr uint64_t kMaxGgufName = 255;
constexpr uint32_t kMaxDimensions = 4;
constexpr uint32_t kDefaultAlignment = 32;
constexpr uint32_t kMaxAlignment = 1 << 20;
/// Most bytes of all keys together; those of a published model take 3 KB.
constexpr uint64_t kMaxKeys = 4 << 20;

constexpr const char* kTypeNames[] = {"u8",   "i8",   "u16",   "i16", "u32", "i32", "f32",
                                      "bool", "text", "array", "u64", "i64", "f64"};
constexpr size_t kTypeBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
static_assert(std::size(kTypeNames) == static_cast<size_t>(GgufType::kF64) + 1);
static_assert(std::size(kTypeBytes) == std::size(kTypeNames));

uint64_t aligned(uint64_t offset, uint64_t alignment) { return (offset + alignment - 1) / alignment * alignment; }

class HeadReader {
 public:
  HeadReader(const File& file, const std::string& display) : file_(file), cursor_(file, display, kMaxGgufHead) {}

  GgufHead read() {
    check_begin();
    const uint64_t tensors = read_count("tensors", kMaxGgufTensors);
    const uint64_t entries = read_count("keys", kMaxGgufEntries);
    for (uint64_t i = 0; i < entries; ++i) read_entry();
    check_entries();
    read_alignment();
    for (uint64_t i = 0; i < tensors; ++i) read_tensor();
    cursor_.about_file();
    check_tensor_names();
    place_tensors(aligned(cursor_.position(), alignment_));
    return std::move(head_);
  }

 private:
  void check_begin() {
    const auto magic = cursor_.read<uint32_t>("the magic number");
    if (magic != kMagic) {
      char found[11];
      std::snprintf(found, sizeof(found), "0x%08x", magic);
      throw cursor_.fault("first bytes", "\"GGUF\"", found, "this is not a GGUF file");
    }
    const auto version = cursor_.read<uint32_t>("the version");
    if (version == 2 || version == 3) return;
    const bool swapped = version != 0 && (version & 0xffff) == 0;
    throw cursor_.fault("version", "2 or 3", std::to_string(swapped ? __builtin_bswap32(version) : version),
                        swapped ? "big-endian files are not supported" : "convert the model again");
  }

  uint64_t read_count(const char* of, uint64_t most) {
    const auto count = cursor_.read<uint64_t>("the counts");
    if (count <= most) return count;
    throw cursor_.fault(std::string("number of ") + of, "at most " + std::to_string(most), std::to_string(count), "",
                        expected_found(most, count));
  }

  GgufType read_type() {
    const auto type = cursor_.read<uint32_t>("a type");
    if (type < std::size(kTypeNames)) return static_cast<GgufType>(type);
    throw cursor_.fault("type of the value", "a number from 0 to " + std::to_string(std::size(kTypeNames) - 1),
                        std::to_string(type));
  }

  void read_entry() {
    cursor_.about_file();
    GgufEntry entry;
    entry.key = cursor_.read_text(kMaxKey, "a key");
    keys_ += entry.key.size();
    if (keys_ > kMaxKeys) {
      throw cursor_.fault("length of all keys", "at most " + std::to_string(kMaxKeys) + " bytes", "more");
    }
    cursor_.about_key(entry.key);
    const auto printable = [](char c) { return c >= 0x20 && c < 0x7f; };
    if (entry.key.empty() || !std::ranges::all_of(entry.key, printable)) {
      throw cursor_.fault("name of a key", "printable ASCII", "other bytes");
    }
    entry.type = read_type();
    if (entry.type == GgufType::kArray) {
      entry.array = true;
      entry.type = read_type();
      if (entry.type == GgufType::kArray) {
        throw cursor_.fault("elements of the array", "no arrays", "arrays", "nested arrays are not supported");
      }
      entry.count = cursor_.read<uint64_t>("an array's length");
    }
    entry.offset = cursor_.position();
    skip_values(entry);
    entry.bytes = cursor_.position() - entry.offset;
    head_.entries.push_back(std::move(entry));
  }

  void skip_values(const GgufEntry& entry) {
    if (entry.type == GgufType::kText) {
      for (uint64_t i = 0; i < entry.count; ++i) cursor_.skip(cursor_.read<uint64_t>("a text's length"), "a text");
    } else if (entry.type == GgufType::kBool) {
      for (uint64_t i = 0; i < entry.count; ++i) {
        const auto value = cursor_.read<uint8_t>("a bool");
        if (value > 1) throw cursor_.fault("value of a bool", "0 or 1", std::to_string(value));
      }
    } else {
      const uint64_t width = gguf_type_bytes(entry.type);
      if (entry.count > cursor_.left() / width) {
        throw cursor_.fault("length of the array",
                            "at most " + std::to_string(cursor_.left() / width) +
                                " elements, "
                                "since the file ends there",
                            std::to_string(entry.count), "", expected_found(cursor_.left() / width, entry.count));
      }
      cursor_.skip(entry.count * width, "a value");
    }
  }

  void check_entries() {
    std::vector<GgufEntry>& all = head_.entries;
    std::sort(all.begin(), all.end(), [](const GgufEntry& a, const GgufEntry& b) { return a.key < b.key; });
    for (size_t i = 1; i < all.size(); ++i) {
      if (all[i].key != all[i - 1].key) continue;
      cursor_.about_key(all[i].key);
      throw cursor_.fault("appears twice in the metadata", "each key once", "two");
    }
  }

  void read_alignment() {
    const std::string_view key = "general.alignment";
    for (const GgufEntry& entry : head_.entries) {
      if (entry.key != key) continue;
      cursor_.about_key(std::string(key));
      if (entry.type != GgufType::kU32 || entry.array) {
        throw cursor_.fault("type of the value", "u32", kTypeNames[static_cast<size_t>(entry.type)]);
      }
      file_.pread_exact(entry.offset, &alignment_, sizeof(alignment_));
      if (std::has_single_bit(alignment_) && alignment_ <= kMaxAlignment) continue;
      throw cursor_.fault("alignment", "a power of two up to " + std::to_string(kMaxAlignment),
                          std::to_string(alignment_));
    }
  }

  void read_tensor() {
    cursor_.about_file();
    TensorInfo tensor;
    tensor.name = cursor_.read_text(kMaxGgufName, "a tensor's name");
    cursor_.about_tensor(tensor.name);
    const auto dimensions = cursor_.read<uint32_t>("a tensor's shape");
    if (dimensions > kMaxDimensions) {
      throw cursor_.fault("dimensions", "at most " + std::to_string(kMaxDimensions), std::to_string(dimensions), "",
                          expected_found(kMaxDimensions, dimensions));
    }
    for (uint32_t i = 0; i < dimensions; ++i) tensor.shape.push_back(cursor_.read<uint64_t>("a tensor's shape"));
    // The first dimension is that of the numbers that lie side by side.
    std::reverse(tensor.shape.begin(), tensor.shape.end());
    const auto type = cursor_.read<uint32_t>("a tensor's type");
    tensor.offset = cursor_.read<uint64_t>("a tensor's offset");
    const auto dtype = ggml_dtype(type);
    if (!dtype) {
      throw cursor_.fault("type", readable_ggml_types(), ggml_type_name(type), "other types are not supported");
    }
    tensor.dtype = *dtype;
    tensor.bytes = bytes_of(tensor);
    tensor.shape = without_leading_ones(std::move(tensor.shape));
    head_.tensors.push_back(std::move(tensor));
  }

  uint64_t bytes_of(const TensorInfo& tensor) const {
    const DtypeBlock block = dtype_block(tensor.dtype);
    const uint64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
    if (columns % block.elements != 0) {
      throw cursor_.fault(
          "columns", "a multiple of " + std::to_string(block.elements) + ", the block of " + dtype_name(tensor.dtype),
          std::to_string(columns), "", expected_found(block.elements, columns));
    }
    // No product of the others is too large for a tensor without numbers.
    if (std::ranges::find(tensor.shape, uint64_t{0}) != tensor.shape.end()) return 0;
    unsigned __int128 bytes = block.bytes;
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      const bool last = i + 1 == tensor.shape.size();
      bytes *= last ? tensor.shape[i] / block.elements : tensor.shape[i];
      if (bytes > UINT64_MAX >> 1) {
        throw cursor_.fault("size", "less than 2^63 bytes",
                            shape_text(tensor.shape) + " of " + dtype_name(tensor.dtype));
      }
    }
    return static_cast<uint64_t>(bytes);
  }

  void check_tensor_names() {
    const std::vector<TensorInfo>& all = head_.tensors;
    const std::vector<uint32_t> order = ordered([&](uint32_t a, uint32_t b) { return all[a].name < all[b].name; });
    for (size_t i = 1; i < order.size(); ++i) {
      if (all[order[i]].name != all[order[i - 1]].name) continue;
      cursor_.about_tensor(all[order[i]].name);
      throw cursor_.fault("appears twice in the file", "each tensor once", "two");
    }
  }

  /// Checks that each tensor begins at the aligned end of the one before, and gives them offsets from the file's
  /// beginning.
  void place_tensors(uint64_t begin) {
    std::vector<TensorInfo>& all = head_.tensors;
    // Empty tensors come before the one that begins at the same offset.
    const std::vector<uint32_t> order = ordered([&](uint32_t a, uint32_t b) {
      return all[a].offset != all[b].offset ? all[a].offset < all[b].offset : all[a].bytes < all[b].bytes;
    });
    uint64_t end = 0, last = begin;
    for (const uint32_t i : order) {
      TensorInfo& tensor = all[i];
      cursor_.about_tensor(tensor.name);
      if (tensor.offset % alignment_ != 0) {
        throw cursor_.fault("offset", "a multiple of " + std::to_string(alignment_), std::to_string(tensor.offset));
      }
      if (tensor.offset != end) {
        throw cursor_.fault(tensor.offset < end ? "data overlaps the previous tensor" : "hole in the data",
                            "an offset of " + std::to_string(end), std::to_string(tensor.offset), "",
                            expected_found(end, tensor.offset));
      }
      const uint64_t left = begin <= file_.size() ? file_.size() - begin : 0;
      if (tensor.bytes > left || tensor.offset > left - tensor.bytes) {
        throw cursor_.fault("data goes past the end of the file",
                            std::to_string(tensor.bytes) + " bytes at " + std::to_string(begin + tensor.offset),
                            "a file of " + std::to_string(file_.size()),
                            "the file may have been cut: download it again",
                            expected_found(begin + tensor.offset + tensor.bytes, file_.size()));
      }
      end = aligned(tensor.offset + tensor.bytes, alignment_);
      tensor.offset += begin;
      last = tensor.offset + tensor.bytes;
    }
    cursor_.about_file();
    const uint64_t most = aligned(last, alignment_);
    if (file_.size() > most) {
      throw cursor_.fault("bytes after the last tensor", "a file of " + std::to_string(most),
                          std::to_string(file_.size()), "", expected_found(most, file_.size()));
    }
  }

  template <typename Less>
  std::vector<uint32_t> ordered(Less less) const {
    std::vector<uint32_t> order(head_.tensors.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), less);
    return order;
  }

  const File& file_;
  GgufCursor cursor_;
  GgufHead head_;
  uint64_t keys_ = 0;
  uint32_t alignment_ = kDefaultAlignment;
};

}  // namespace

size_t gguf_type_bytes(GgufType type) { return kTypeBytes[static_cast<size_t>(type)]; }

GgufHead read_gguf_head(const File& file, const std::string& display) { return HeadReader(file, display).read(); }

}  // namespace sida
