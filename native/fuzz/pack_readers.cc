#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/pack.h"
#include "engine/engine.h"
#include "readers.h"
#include "scratch.h"
#include "support/safetensors_builder.h"
#include "support/test_pack.h"
#include "support/tiny_model.h"

namespace sida::fuzzing {
namespace {

constexpr WeightFormat kExperts[] = {kF32Format, kBf16Format, {WeightType::kInt8}, {WeightType::kInt4, 32}};
constexpr WeightFormat kFurtherExperts[] = {{WeightType::kMxfp4, 32}, kBf16cFormat};
constexpr WeightFormat kDense[] = {kF32Format, kBf16Format, {WeightType::kInt8}, kF32Format};

/// Bits of the first byte that read_weights() is given.
constexpr unsigned kCut = 0x10;
constexpr unsigned kInt8Activations = 0x20;
constexpr unsigned kFurther = 0x40;
constexpr unsigned kBf16Activations = 0x80;

/// A checkpoint of zeros and a pack of it.
class SmallPack {
 public:
  SmallPack(WeightFormat experts, WeightFormat dense) {
    checkpoint_.write("config.json", testing::tiny_config());
    checkpoint_.write("model.safetensors", testing::build_safetensors(testing::tiny_tensors()));
    testing::write_pack(checkpoint_.path(), pack_.path(), experts, dense);
  }

  const Scratch& files() const { return pack_; }
  Pack open() const { return open_pack(pack_.path()); }

 private:
  Scratch checkpoint_, pack_;
};

const SmallPack& pack_of(unsigned choice) {
  static std::map<unsigned, std::unique_ptr<SmallPack>> packs;
  const bool further = (choice & kFurther) != 0;
  auto& pack = packs[choice % 16 + (further ? 16 : 0)];
  const WeightFormat experts = further ? kFurtherExperts[choice % 2] : kExperts[choice % 4];
  if (!pack) pack = std::make_unique<SmallPack>(experts, kDense[choice / 4 % 4]);
  return *pack;
}

std::string repeated(std::string_view bytes, uint64_t size) {
  std::string whole;
  while (whole.size() < size) whole += bytes;
  whole.resize(size);
  return whole;
}

void run(const std::string& pack, ActivationFormat activations) {
  EngineOptions options = testing::options_for(pack, {.max_batch_tokens = 16, .kv_tokens = 64}, 0.5);
  options.limits.activations = activations;
  options.reads = {1, 4096};
  Engine engine(options);
  const std::vector<int32_t> encoded{1}, decoded{2}, offsets{0, 6}, tokens{1, 9, 0, 3, 3, 7};
  std::vector<uint16_t> dispatch(tokens.size() * engine.spec().top_k());
  std::vector<uint8_t> found(engine.spec().experts());
  std::vector<PickedToken> picked(1);
  std::vector<RankedToken> top(3);
  const BatchOutput output{.picked = picked, .top = top, .dispatch = dispatch.data(), .found = found.data()};
  engine.run({.sequences = encoded, .offsets = offsets, .tokens = tokens}, {}, output);
  const std::vector<int32_t> ends{0, 2};
  const Pick pick{1, {}, 3};
  engine.run({.stack = 1,
              .sequences = decoded,
              .parents = encoded,
              .offsets = ends,
              .tokens = std::span(tokens).first(2),
              .picks = {&pick, 1}},
             {}, output);
  engine.check_integrity();
}

}  // namespace

void read_manifest(std::string_view bytes) {
  static const SmallPack pack(kExperts[3], kDense[2]);
  pack.files().write("manifest.json", bytes);
  expect_clean([] {
    const Pack opened = pack.open();
    const std::string path = opened.expert_path();
    require(path.starts_with(pack.files().path()) && path.find("..") == std::string::npos,
            "the file of experts lies in the pack");
  });
}

void read_weights(std::string_view bytes) {
  if (bytes.size() < 2) return;
  const auto choice = static_cast<unsigned char>(bytes.front());
  const std::string_view weights = bytes.substr(1);
  const SmallPack& small = pack_of(choice);
  const Pack pack = small.open();
  for (const auto& [name, size] : {std::pair{"dense.sida", pack.dense.bytes},
                                   std::pair{"experts.sida", pack.experts.experts() * pack.experts.slot_bytes}}) {
    small.files().write(name, (choice & kCut) != 0 ? std::string(weights) : repeated(weights, size));
  }
  const auto activations = (choice & kInt8Activations) != 0   ? ActivationFormat::kInt8
                           : (choice & kBf16Activations) != 0 ? ActivationFormat::kBf16
                                                              : ActivationFormat::kF32;
  expect_clean([&] { run(small.files().path(), activations); });
}

}  // namespace sida::fuzzing
