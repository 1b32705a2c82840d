#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_index.h"
#include "checkpoint/gguf_file.h"
#include "checkpoint/pack.h"
#include "checkpoint/pytorch_file.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/slot_reader.h"
#include "core/json.h"
#include "engine/memory_plan.h"
#include "predictor/predictor_checkpoint.h"
#include "readers.h"
#include "scratch.h"
#include "spec/model_config.h"
#include "support/safetensors_builder.h"
#include "support/tiny_model.h"

namespace sida::fuzzing {
namespace {

using testing::build_safetensors;
using testing::zeros;

/// Checks that every tensor lies in the file, from `begin` on, and has the bytes of its shape.
template <typename Opened>
void check_tensors(const Opened& file, uint64_t begin) {
  for (const TensorInfo& tensor : file.tensors()) {
    require(tensor.offset >= begin && tensor.offset <= file.file().size(), "a tensor begins in the data");
    require(tensor.bytes <= file.file().size() - tensor.offset, "a tensor ends in the data");
    const auto bits = static_cast<unsigned __int128>(tensor.elements()) * dtype_bits(tensor.dtype);
    require(bits == static_cast<unsigned __int128>(tensor.bytes) * 8, "a tensor's bytes follow from its shape");
  }
}

}  // namespace

void read_safetensors(std::string_view bytes) {
  static const Scratch scratch;
  scratch.write("model.safetensors", bytes);
  expect_clean([] {
    const SafetensorsFile file = SafetensorsFile::open(scratch.at("model.safetensors"));
    check_tensors(file, 8 + file.header_bytes());
  });
}

void read_pytorch(std::string_view bytes) {
  static const Scratch scratch;
  scratch.write("pytorch_model.bin", bytes);
  expect_clean([] { check_tensors(PytorchFile::open(scratch.at("pytorch_model.bin")), 0); });
}

void read_gguf(std::string_view bytes) {
  static const Scratch scratch;
  scratch.write("model.gguf", bytes);
  expect_clean([] {
    const GgufFile file = GgufFile::open(scratch.path(), "model.gguf");
    for (const TensorInfo& tensor : file.tensors()) {
      require(tensor.offset <= file.file().size(), "a tensor begins in the file");
      require(tensor.bytes <= file.file().size() - tensor.offset, "a tensor ends in the file");
      const DtypeBlock block = dtype_block(tensor.dtype);
      const auto blocks = static_cast<unsigned __int128>(tensor.elements()) / block.elements;
      require(blocks * block.bytes == tensor.bytes, "a tensor's bytes follow from its shape");
    }
    const Checkpoint checkpoint = Checkpoint::open(scratch.at("model.gguf"));
    checkpoint.check_tensors();
    for_each_dense_slot(checkpoint.spec(), [&](const TensorSlot& slot) {
      const SlotData data = checkpoint.source_of(slot);
      std::vector<float> row;
      read_rows(checkpoint, data, 0, 1, slot.shape.size() > 1 ? slot.shape.back() : 1, kF32Format, row);
    });
  });
}

void read_index(std::string_view bytes) {
  static const Scratch scratch;
  static const bool written = [] {
    scratch.write("a.safetensors", build_safetensors({zeros("x", {2}), zeros("y", {3})}));
    scratch.write("b.safetensors", build_safetensors({zeros("z", {1})}));
    return true;
  }();
  require(written, "the shards are there");
  expect_clean([&] {
    for (const SafetensorsFile& file :
         open_shards<SafetensorsFile>(scratch.path(), bytes, "model.safetensors.index.json")) {
      check_tensors(file, 8 + file.header_bytes());
      require(file.file().path().starts_with(scratch.path()), "a shard lies in the directory");
    }
  });
}

void read_config(std::string_view bytes) {
  expect_clean([&] {
    const ModelConfig config = parse_model_config(bytes, "config.json");
    const ModelSpec& spec = config.spec;
    for_each_dense_slot(spec, [&](const TensorSlot& slot) {
      require(!config.family->source(spec, slot).candidates.empty(), "a tensor has a name in the checkpoint");
    });
    constexpr WeightFormat kFormats[] = {
        kF32Format, kBf16Format, kBf16cFormat, {WeightType::kInt8}, {WeightType::kInt4, 64}, {WeightType::kMxfp4, 32}};
    for (const WeightFormat experts : kFormats) {
      const Pack pack = describe_pack("pack", spec, experts, kF32Format);
      const MemoryPlan plan = plan_memory(spec, experts, kF32Format, {});
      require(pack.experts.slot_bytes % 4096 == 0, "a block is whole pages");
      require(pack.experts.slot_bytes <= (uint64_t{1} << 62) / (pack.experts.experts() + 1), "experts fit 62 bits");
      require(plan.smallest() >= plan.fixed() && plan.resident() >= plan.fixed(), "no sum of a plan wraps");
    }
  });
}

void read_predictor(std::string_view bytes) {
  static const Scratch scratch;
  scratch.write("predictor.json", bytes);
  expect_clean([] { load_predictor(scratch.path(), true); });
}

}  // namespace sida::fuzzing
