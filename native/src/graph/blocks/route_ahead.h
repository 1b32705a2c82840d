#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "expert/expert_store.h"
#include "ops/dispatch.h"
#include "ops/ops.h"
#include "spec/spec.h"
#include "weights/model_weights.h"

namespace sida {

/// Names experts that later MoE layers of a pass will likely need. While a layer's experts load, the routers of the
/// next layers are applied to the hidden states that the layer will add to (Eliseev and Mazur, arXiv 2312.17238,
/// section 3.2). How often a choice made ahead holds is learned as passes run, by layer, distance and rank, from
/// experts that were absent, because only they are loaded for it.
class RouteAhead {
 public:
  /// Passes of more tokens need most experts of each layer, so that nothing is named.
  static constexpr size_t kMostTokens = 64;

  /// All outlive it.
  RouteAhead(const ModelSpec& spec, const ModelWeights& weights, Ops& ops, ExpertStore& experts);

  /// Forgets what the pass before named and did not reach.
  void start_pass();
  /// Learns from the routers' choices of MoE layer `layer`.
  void judge(size_t layer, const Dispatch& chosen);
  /// Begins to route for the next `distance` MoE layers after `layer`. Call it before Ops::choose() of the layer.
  void begin(size_t layer, size_t tokens, size_t distance);
  /// Tells the store what the layers of begin() will likely need. `time`: the place of `layer` among the pass's MoE
  /// layers. Call it between Ops::choose() and Ops::experts() of `layer`.
  void name(size_t layer, size_t time, size_t tokens);

 private:
  struct Layer {
    const MoeSpec* spec;
    const FeedForwardWeights* weights;
    size_t stack;
  };
  /// How often something held, of about the last kMemory trials.
  struct Share {
    float held = 0, trials = 0;

    void learn(bool holds);
    double value() const;
  };
  /// The choices made ahead for one layer from one distance.
  struct Named {
    std::vector<uint16_t> experts;  ///< (tokens, k)
    std::vector<uint8_t> absent;    ///< (tokens, k)
    std::vector<Share> shares;      ///< (k), by rank
  };

  /// Adds the needs of a layer's choices.
  void name_layer(size_t layer, double time, const Dispatch& chosen, Named& named);

  Ops& ops_;
  ExpertStore& experts_;
  std::vector<Layer> layers_;              ///< by flat MoE layer
  std::vector<std::vector<Named>> named_;  ///< by flat MoE layer, then by distance - 1
  // Kept from layer to layer, so that a pass allocates nothing once they have grown.
  std::vector<LaterLayer> later_;
  std::vector<Dispatch> dispatches_;  ///< by distance - 1
  std::vector<double> unneeded_;      ///< (experts of a layer): the chance that no token needs it
  std::vector<uint8_t> absent_;       ///< (experts of all layers), of those that are named
  std::vector<ForeseenNeed> needs_;
};

}  // namespace sida
