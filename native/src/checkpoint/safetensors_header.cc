#include <algorithm>
#include <numeric>
#include <optional>

#include "checkpoint/safetensors_file.h"
#include "core/checkpoint_error.h"

namespace sida {
namespace {

// PyTorch's limit on dimensions.
constexpr size_t kMaxRank = 64;
// Several times the longest published name.
constexpr size_t kMaxTensorName = 1024;
// Names and shapes of kMaxHeaderObjects tensors of the usual kind are about as much.
constexpr size_t kMaxHeaderHeld = 24 << 20;
constexpr const char* kDownload = "download the file again";

// Checks one tensor's entry at a time. Offsets stay relative to the data until the last check.
class HeaderReader {
 public:
  HeaderReader(const std::string& file, uint64_t data_bytes) : file_(file), data_bytes_(data_bytes) {}

  void visit(std::string name, JsonValue value) {
    if (name == "__metadata__") return read_metadata(value);
    name_ = name;
    if (name.size() > kMaxTensorName) {
      throw fault("name too long", "at most " + std::to_string(kMaxTensorName) + " bytes", std::to_string(name.size()),
                  "", expected_found(kMaxTensorName, name.size()));
    }
    TensorInfo tensor;
    read_entry(value, &tensor);
    tensor.name = std::move(name);
    held_ += tensor.name.size() + tensor.shape.size() * sizeof(uint64_t);
    if (held_ > kMaxHeaderHeld) {
      throw fault("names and shapes too long", "at most " + std::to_string(kMaxHeaderHeld) + " bytes in a header",
                  "more", "");
    }
    tensors_.push_back(std::move(tensor));
  }

  // Called after the last entry: checks that names are unique and that tensors cover the data once.
  std::vector<TensorInfo> finish(uint64_t data_offset) {
    check_names();
    check_coverage();
    for (TensorInfo& tensor : tensors_) tensor.offset += data_offset;
    return std::move(tensors_);
  }

 private:
  void read_metadata(JsonValue value) {
    name_.clear();
    if (has_metadata_) throw fault("\"__metadata__\" appears twice", "each key once", "two", "");
    has_metadata_ = true;
    if (!value.is_object()) throw fault("bad \"__metadata__\"", "an object of strings", value.describe(), "");
    for (const JsonMember& member : value.members()) {
      if (member.value.is_string()) continue;
      throw fault("bad \"__metadata__\" entry \"" + escape_text(member.key) + "\"", "a string", member.value.describe(),
                  "");
    }
  }

  void read_entry(JsonValue value, TensorInfo* tensor) {
    if (!value.is_object()) throw fault("bad entry", "an object", value.describe(), "");
    std::optional<JsonValue> dtype, shape, offsets;
    for (const JsonMember& member : value.members()) {
      if (member.key == "dtype") {
        dtype = member.value;
      } else if (member.key == "shape") {
        shape = member.value;
      } else if (member.key == "data_offsets") {
        offsets = member.value;
      } else {
        throw fault("unknown field", "dtype, shape and data_offsets", "\"" + escape_text(member.key) + "\"", "");
      }
    }
    if (!dtype) throw fault("missing field", "\"dtype\"", "none", kDownload);
    if (!shape) throw fault("missing field", "\"shape\"", "none", kDownload);
    if (!offsets) throw fault("missing field", "\"data_offsets\"", "none", kDownload);
    read_dtype(*dtype, tensor);
    read_shape(*shape, tensor);
    read_offsets(*offsets, tensor);
  }

  void read_dtype(JsonValue value, TensorInfo* tensor) {
    const auto name = value.try_string();
    if (!name) throw fault("bad dtype", "a string", value.describe(), "");
    const auto dtype = parse_dtype(*name);
    if (!dtype) throw fault("unknown dtype", "a safetensors dtype such as F32", value.describe(), "");
    tensor->dtype = *dtype;
  }

  void read_shape(JsonValue value, TensorInfo* tensor) {
    if (!value.is_array()) throw fault("bad shape", "an array", value.describe(), "");
    if (value.size() > kMaxRank) {
      throw fault("too many dimensions", "at most " + std::to_string(kMaxRank), std::to_string(value.size()), "",
                  expected_found(kMaxRank, value.size()));
    }
    uint64_t bits = static_cast<uint64_t>(dtype_bits(tensor->dtype));
    tensor->shape.reserve(value.size());
    for (const JsonValue element : value.elements()) {
      const auto dimension = element.try_u64();
      if (!dimension) {
        throw fault("bad dimension", "a whole number from 0 to 2^64-1", element.describe(), "");
      }
      tensor->shape.push_back(*dimension);
    }
    for (const uint64_t dimension : tensor->shape) {
      if (__builtin_mul_overflow(bits, dimension, &bits)) {
        throw fault("shape too large", "less than 2^64 bits",
                    shape_text(tensor->shape) + " of " + dtype_name(tensor->dtype), "");
      }
    }
    if (bits % 8 != 0) {
      throw fault("shape not of whole bytes", "a multiple of 8 bits", std::to_string(bits) + " bits", "",
                  expected_found(8, bits));
    }
    tensor->bytes = bits / 8;
  }

  void read_offsets(JsonValue value, TensorInfo* tensor) {
    if (!value.is_array() || value.size() != 2) {
      throw fault("bad data_offsets", "an array of 2", value.describe(), "");
    }
    uint64_t range[2];
    uint64_t* to = range;
    for (const JsonValue element : value.elements()) {
      const auto offset = element.try_u64();
      if (!offset) throw fault("bad data_offsets", "whole numbers from 0 to 2^64-1", element.describe(), "");
      *to++ = *offset;
    }
    const auto [begin, end] = range;
    if (end < begin) {
      throw fault("data ends before it begins", "an end of at least " + std::to_string(begin), std::to_string(end), "",
                  expected_found(begin, end));
    }
    if (end > data_bytes_) {
      throw fault("data past the end of the file",
                  "an end of at most " + std::to_string(data_bytes_) + " (the bytes of data)", std::to_string(end),
                  kTruncated, expected_found(data_bytes_, end));
    }
    if (end - begin != tensor->bytes) {
      throw fault("size of the data",
                  std::to_string(tensor->bytes) + " bytes for " + shape_text(tensor->shape) + " of " +
                      dtype_name(tensor->dtype),
                  std::to_string(end - begin), "", expected_found(tensor->bytes, end - begin));
    }
    tensor->offset = begin;
  }

  void check_names() {
    const auto by_name = [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; };
    const std::vector<uint32_t> order = ordered(by_name);
    for (size_t i = 1; i < order.size(); ++i) {
      const std::string& name = tensors_[order[i]].name;
      if (name != tensors_[order[i - 1]].name) continue;
      name_ = name;
      throw fault("appears twice in the header", "each name once", "two", "");
    }
  }

  void check_coverage() {
    // Empty tensors sort before the tensor that begins at the same offset.
    const std::vector<uint32_t> order = ordered([](const TensorInfo& a, const TensorInfo& b) {
      return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;
    });
    uint64_t end = 0;
    for (const uint32_t i : order) {
      const TensorInfo& tensor = tensors_[i];
      if (tensor.offset != end) {
        name_ = tensor.name;
        throw fault(tensor.offset < end ? "data overlaps the previous tensor" : "hole in the data",
                    "a begin of " + std::to_string(end), std::to_string(tensor.offset), "",
                    expected_found(end, tensor.offset));
      }
      end += tensor.bytes;
    }
    name_.clear();
    if (end != data_bytes_) {
      throw fault("bytes after the last tensor", std::to_string(end) + " bytes of data", std::to_string(data_bytes_),
                  kDownload, expected_found(end, data_bytes_));
    }
  }

  template <typename Less>
  std::vector<uint32_t> ordered(Less less) const {
    std::vector<uint32_t> order(tensors_.size());
    std::iota(order.begin(), order.end(), 0u);
    const auto by = [&](uint32_t a, uint32_t b) { return less(tensors_[a], tensors_[b]); };
    if (!std::is_sorted(order.begin(), order.end(), by)) std::sort(order.begin(), order.end(), by);
    return order;
  }

  Error fault(const std::string& what, const std::string& expected, const std::string& found, const std::string& hint,
              std::map<std::string, double> numbers = {}) const {
    return checkpoint_error({file_, name_, what, expected, found, hint, std::move(numbers)});
  }

  static constexpr const char* kTruncated = "the file may have been cut: download it again";

  const std::string& file_;
  uint64_t data_bytes_;
  // The current tensor's name; empty where an error is about the file.
  std::string name_;
  bool has_metadata_ = false;
  // Bytes of names and shapes.
  size_t held_ = 0;
  std::vector<TensorInfo> tensors_;
};

}  // namespace

std::vector<TensorInfo> parse_safetensors_header(const JsonInput& header, uint64_t data_bytes,
                                                 const std::string& file) {
  HeaderReader reader(file, data_bytes);
  for_each_json_member(header, {file, "checkpoint_invalid", kMaxHeaderBytes},
                       [&](std::string name, JsonValue value) { reader.visit(std::move(name), value); });
  return reader.finish(8 + header.size);
}

}  // namespace sida
