#pragma once

#include "checkpoint/safetensors_file.h"
#include "core/dtype.h"
#include "core/fp8.h"
#include "spec/quantization_config.h"
#include "support/checkpoint_directory.h"
#include "support/test_pack.h"

/// Other forms of a checkpoint's tensors: what one writer keeps in many tensors or in f32, others fuse or narrow.
namespace sida::testing {

inline std::vector<float> floats_of(const BuiltTensor& tensor) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

/// All tensors of a directory's model.safetensors.
inline Tensors read_tensors(const std::string& directory) {
  const SafetensorsFile file = SafetensorsFile::open(directory + "/model.safetensors");
  Tensors tensors;
  for (const TensorInfo& info : file.tensors()) {
    std::string data(info.bytes, '\0');
    file.file().pread_exact(info.offset, data.data(), data.size());
    tensors.push_back({info.name, dtype_name(info.dtype), info.shape, std::move(data)});
  }
  return tensors;
}

/// Numbers that f32, bf16 and f16 all hold, other ones in each tensor; codes get random bits, their scales stay near 1.
inline void fill_randomly(Tensors& tensors, unsigned seed) {
  std::mt19937 random(seed);
  for (BuiltTensor& tensor : tensors) {
    if (tensor.dtype == "F32") {
      std::vector<float> values(tensor.data.size() / sizeof(float));
      for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 255) - 127) / 64;
      tensor.data = bytes_of(values);
    } else {
      const bool scales = tensor.name.ends_with("_scales");
      for (char& code : tensor.data) code = static_cast<char>(scales ? 124 + random() % 6 : random());
    }
  }
}

/// Stores numbers that the type holds exactly in 16 bits, as BF16 or F16.
inline void narrow(BuiltTensor& tensor, const std::string& dtype) {
  if (tensor.dtype != "F32") return;
  std::vector<uint16_t> halves;
  for (const float value : floats_of(tensor)) {
    const uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    const uint32_t half = rest == 0 ? 0 : (rest >> 13) - (112u << 10);
    halves.push_back(static_cast<uint16_t>(dtype == "BF16" ? bits >> 16 : sign | half));
  }
  tensor.dtype = dtype;
  tensor.data = bytes_of(halves);
}

/// The numbers of `fused`, which has one tensor of a layer's gates and ups and one of its downs, in the tensors of
/// `plain`, which has three of each expert.
inline Tensors unfused(Tensors plain, const Tensors& fused) {
  for (BuiltTensor& tensor : plain) {
    const size_t at = tensor.name.find(".experts.");
    if (at == std::string::npos) {
      tensor.data = std::ranges::find(fused, tensor.name, &BuiltTensor::name)->data;
      continue;
    }
    const auto is = [&](const char* matrix) { return tensor.name.find(matrix, at) != std::string::npos; };
    const bool down = is(".down_proj") || is(".w2"), up = is(".up_proj") || is(".w3");
    const size_t begin = tensor.name.find("layers.");
    const std::string layer = tensor.name.substr(begin, tensor.name.find('.', begin + 7) + 1 - begin);
    const auto from = std::ranges::find_if(fused, [&](const BuiltTensor& other) {
      return other.name.find(layer) != std::string::npos && other.name.ends_with(down ? ".down_proj" : ".gate_up_proj");
    });
    REQUIRE(from != fused.end());
    const size_t expert = std::stoul(tensor.name.substr(at + sizeof(".experts.") - 1)), bytes = tensor.data.size();
    tensor.data = from->data.substr((down ? expert : 2 * expert + (up ? 1 : 0)) * bytes, bytes);
  }
  return plain;
}

/// What a matrix of FP8 numbers is made of: codes, and a scale for each block of each of its matrices.
struct Fp8Tensor {
  BuiltTensor codes, scales;
  std::vector<float> values;
};

/// Rounds a matrix, or several that are stacked, to FP8. Scales are stored as `scale_dtype`, F32 or BF16, and are
/// powers of two where `powers` is true.
inline Fp8Tensor round_to_fp8(const BuiltTensor& tensor, Fp8Block block, const std::string& scale_dtype, bool powers) {
  std::vector<float> numbers;  // those that are positive or zero, ascending
  for (uint8_t code = 0; code < 0x7f; ++code) numbers.push_back(f8_e4m3_to_f32(code));
  const size_t rank = tensor.shape.size(), rows = tensor.shape[rank - 2], columns = tensor.shape[rank - 1];
  const size_t down = (rows + block.rows - 1) / block.rows, across = (columns + block.columns - 1) / block.columns;
  const std::vector<float> from = floats_of(tensor);
  const size_t matrices = from.size() / (rows * columns);
  std::vector<float> scales(matrices * down * across);
  const auto scale_at = [&](size_t i) -> float& {
    const size_t matrix = i / (rows * columns), row = i / columns % rows, column = i % columns;
    return scales[(matrix * down + row / block.rows) * across + column / block.columns];
  };
  for (size_t i = 0; i < from.size(); ++i) scale_at(i) = std::max(scale_at(i), std::abs(from[i]) / 448);
  for (float& scale : scales) {
    if (scale == 0) scale = 1;
    if (powers) scale = std::exp2(std::ceil(std::log2(scale)));
    if (scale_dtype == "BF16") scale = bf16_to_f32(f32_to_bf16(scale));
  }
  std::string codes(from.size(), '\0');
  std::vector<float> values(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    const float wanted = std::abs(from[i]) / scale_at(i);
    auto above = std::min(std::lower_bound(numbers.begin(), numbers.end(), wanted), numbers.end() - 1);
    if (above != numbers.begin() && wanted - above[-1] < *above - wanted) --above;
    const bool negative = std::signbit(from[i]);
    codes[i] = static_cast<char>((above - numbers.begin()) | (negative ? 0x80 : 0));
    values[i] = (negative ? -*above : *above) * scale_at(i);
  }
  std::vector<uint64_t> grid = tensor.shape;
  grid[rank - 2] = down;
  grid[rank - 1] = across;
  BuiltTensor stored{tensor.name + "_scale_inv", "F32", grid, bytes_of(scales)};
  if (scale_dtype == "BF16") narrow(stored, "BF16");
  return {{tensor.name, "F8_E4M3", tensor.shape, codes}, stored, values};
}

/// A checkpoint in FP8 and the same numbers in f32. As in published ones, projections and experts alone are FP8.
struct Fp8Forms {
  Tensors fp8, plain;
};

inline Fp8Forms fp8_forms(const Tensors& tensors, Fp8Block block, const std::string& scale_dtype = "F32",
                          bool powers = false) {
  Fp8Forms forms{{}, tensors};
  for (BuiltTensor& tensor : forms.plain) {
    const auto has = [&](const char* part) { return tensor.name.find(part) != std::string::npos; };
    if (tensor.dtype != "F32" || tensor.shape.size() < 2 || !(has("_proj") || has(".experts."))) {
      forms.fp8.push_back(tensor);
      continue;
    }
    const Fp8Tensor rounded = round_to_fp8(tensor, block, scale_dtype, powers);
    forms.fp8.push_back(rounded.codes);
    forms.fp8.push_back(rounded.scales);
    tensor.data = bytes_of(rounded.values);
  }
  return forms;
}

/// The field of a config that says so.
inline std::string fp8_field(Fp8Block block) {
  return R"("quantization_config":{"quant_method":"fp8","fmt":"e4m3","activation_scheme":"dynamic",)"
         R"("weight_block_size":[)" +
         std::to_string(block.rows) + "," + std::to_string(block.columns) + "]}";
}

/// Writes the tensors into `shards` files with an index, or into one file without.
inline void write_weights(const std::string& directory, const Tensors& tensors, size_t shards) {
  if (shards == 1) return write_file(directory + "/model.safetensors", build_safetensors(tensors));
  std::string map;
  uint64_t bytes = 0;
  for (size_t shard = 0; shard < shards; ++shard) {
    const std::string name = "model-" + std::to_string(shard + 1) + "-of-" + std::to_string(shards) + ".safetensors";
    Tensors own;
    for (size_t i = shard; i < tensors.size(); i += shards) {
      own.push_back(tensors[i]);
      bytes += tensors[i].data.size();
      map += (map.empty() ? "\"" : ",\"") + tensors[i].name + "\":\"" + name + "\"";
    }
    write_file(directory + "/" + name, build_safetensors(own));
  }
  write_file(directory + "/model.safetensors.index.json",
             R"({"metadata":{"total_size":)" + std::to_string(bytes) + R"(},"weight_map":{)" + map + "}}");
}

/// All weights of a checkpoint's pack, the dense ones in f32 where experts are quantized.
inline std::string packed_bytes(const std::string& config, const Tensors& tensors, WeightFormat format = kF32Format,
                                size_t shards = 1) {
  const CheckpointDirectory model(config);
  write_weights(model.path(), tensors, shards);
  model.open().check_tensors();
  const TempDir pack;
  write_pack(model.path(), pack.path(), format, quantized(format) ? kF32Format : format);
  return read_text_file(pack.path() + "/dense.sida") + read_text_file(pack.path() + "/experts.sida");
}

}  // namespace sida::testing
