#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "spec/activation.h"
#include "weights/panels.h"

namespace sida {

/// A flat expert id: experts count over the MoE layers of all stacks, first stack first.
using ExpertId = uint32_t;

/// The weight matrices of an expert.
enum class Projection : uint8_t { kGate, kUp, kDown };
constexpr const char* projection_name(Projection projection) {
  return projection == Projection::kGate ? "gate" : projection == Projection::kUp ? "up" : "down";
}

/// Element types of the matrices of a layer's experts.
struct ExpertFormats {
  WeightFormat gate, up, down;

  WeightFormat of(Projection projection) const {
    return projection == Projection::kGate ? gate : projection == Projection::kUp ? up : down;
  }
  bool operator==(const ExpertFormats&) const = default;
};

/// One matrix of an expert: y (rows, n) = x (rows, k) · W.
struct ExpertMatrix {
  Projection projection;
  size_t n = 0;
  size_t k = 0;
  WeightFormat format = {};
  uint64_t offset = 0;                ///< in the block, 64-byte aligned
  std::optional<uint64_t> bias = {};  ///< where n f32 numbers lie that are added to y
};

struct ExpertPlace {
  size_t layer, index;
};

struct ExpertShape {
  size_t width = 0;   ///< of the hidden states
  size_t hidden = 0;  ///< of its own hidden layer
  Activation activation = Activation::kRelu;
  size_t layers = 0;
  size_t experts_per_layer = 0;  ///< the most of a layer
  bool biased = false;           ///< all its matrices have biases
  /// Where layers differ in it: each layer's first id, and behind them the number of all. Empty: they do not.
  std::vector<ExpertId> first = {};

  /// `counts`: experts of each layer.
  void set_experts(std::span<const size_t> counts);
  /// Of a layer; with `layers` the number of all experts.
  ExpertId first_id(size_t layer) const {
    return first.empty() ? static_cast<ExpertId>(layer * experts_per_layer) : first[layer];
  }
  size_t experts_of(size_t layer) const { return first_id(layer + 1) - first_id(layer); }
  ExpertPlace place(ExpertId id) const;
  size_t experts() const { return first_id(layers); }
};

/// Where the matrices of an expert lie inside its block.
struct BlockLayout {
  std::vector<ExpertMatrix> matrices;  ///< in the order of their offsets: gate (where there is one), up, down
  /// Whole 4 KiB pages, so that a block is one O_DIRECT read.
  uint64_t bytes = 0;

  /// A matrix of `block`; null data where the layout has none such.
  PanelMatrix matrix(const std::byte* block, Projection projection) const;
  /// Of a matrix that the layout has.
  WeightFormat format(Projection projection) const;
};

/// The blocks of all experts, which stand one after the other, by id.
struct ExpertLayout {
  ExpertShape shape;
  std::vector<BlockLayout> layers;  ///< by MoE layer
  /// Of the largest block: a slot holds an expert of any layer.
  uint64_t slot_bytes = 0;

  size_t experts() const { return shape.experts(); }
  uint64_t block_bytes(ExpertId id) const { return layers[shape.place(id).layer].bytes; }
  /// Where the blocks of the first `count` experts end, and the next block begins.
  uint64_t blocks_end(size_t count) const;
};

/// `formats`: by MoE layer.
ExpertLayout make_expert_layout(const ExpertShape& shape, std::span<const ExpertFormats> formats);
/// The same with one type for all matrices.
ExpertLayout make_expert_layout(const ExpertShape& shape, WeightFormat format);

}  // namespace sida
