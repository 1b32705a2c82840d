#pragma once

#include <cstddef>

#include "spec/spec.h"

namespace sida {

/// The widest parts of all layers of a model, which size the working memory of a device.
struct LayerWidths {
  size_t query = 0;  ///< of attention; of a delta rule its gates
  size_t key = 0;    ///< of attention, or its gates; of a delta rule queries and keys
  size_t value = 0;  ///< of attention; of latent attention compressed queries or outputs; of a delta rule values, and β
                     ///< and α of heads
  size_t latent = 0;        ///< cached row of latent attention, in whole vectors of 16
  size_t latent_heads = 0;  ///< such rows of all heads
  size_t rotary = 0;        ///< columns of a head that are rotated, of all kinds of positions together
  size_t branch = 0;        ///< outputs that are normed before they are added
  size_t dense = 0;         ///< hidden layer of a dense network or a shared expert
  size_t expert = 0;        ///< hidden layer of an expert
  size_t gates = 0;         ///< of a shared expert's output

  explicit LayerWidths(const ModelSpec& spec);

 private:
  void add(const AttentionSpec& attention);
  void add(const DeltaSpec& delta);
  void add(const MoeSpec& moe);
};

}  // namespace sida
