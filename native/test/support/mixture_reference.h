#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "checkpoint/pack.h"
#include "core/file.h"
#include "engine/engine.h"
#include "model/model_weights.h"

namespace sida::testing {

inline std::vector<std::byte> read_all(const std::string& path) {
  const File file = File::open(path);
  std::vector<std::byte> bytes(file.size());
  file.pread_exact(0, bytes.data(), bytes.size());
  return bytes;
}

/// Overwrites the tensors of a pack's dense file whose names end in one of `suffixes`.
inline void fill_dense(const std::string& directory, std::initializer_list<std::string_view> suffixes,
                       char value) {
  const Pack pack = open_pack(directory);
  std::fstream file(pack.dense_path(), std::ios::in | std::ios::out | std::ios::binary);
  for (const DenseTensor& tensor : pack.dense.tensors) {
    if (std::none_of(suffixes.begin(), suffixes.end(),
                     [&](std::string_view suffix) { return tensor.name.ends_with(suffix); })) {
      continue;
    }
    file.seekp(static_cast<std::streamoff>(tensor.offset));
    file << std::string(tensor.bytes, value);
  }
}

/// Leaves a pack a model of embeddings and experts alone: attention and dense layers add nothing.
inline void keep_experts_only(const std::string& directory) {
  fill_dense(directory, {"output", ".down"}, 0);
}

/// A stack of such a pack in float64, token by token: h += Σ alpha_j · E_j(norm(h)) in each MoE layer.
class MixtureReference {
 public:
  explicit MixtureReference(const std::string& directory)
      : pack_(open_pack(directory)),
        dense_(read_all(pack_.dense_path())),
        experts_(read_all(pack_.expert_path(0))),
        weights_(view_weights(pack_.spec, pack_.dense, dense_.data())) {}

  /// Final hidden states (tokens, d_model) of a batch with a routing. `dispatch` receives the entries within
  /// capacity.
  std::vector<double> run(const Batch& batch, std::vector<uint16_t>& dispatch) const {
    const StackWeights& stack = weights_.stacks[batch.stack];
    const PredictedRouting& routing = batch.routing;
    const size_t d = pack_.spec.width;
    const size_t tokens = batch.tokens.size();
    std::vector<std::vector<double>> hidden;
    std::vector<float> row(d);
    for (const int32_t token : batch.tokens) {
      read_panel_row(stack.embedding, static_cast<size_t>(token), row.data());
      hidden.emplace_back(row.begin(), row.end());
    }
    dispatch.assign(routing.experts.begin(), routing.experts.end());
    size_t entry = 0;
    for (size_t i = 0; i < stack.layers.size(); ++i) {
      const LayerWeights& layer = stack.layers[i];
      const MoeSpec* moe = pack_.spec.stacks[batch.stack].layers[i].moe();
      if (moe == nullptr) continue;
      for (size_t s = 0; s + 1 < batch.offsets.size(); ++s) {
        std::vector<size_t> taken(moe->experts);
        for (int32_t token = batch.offsets[s]; token < batch.offsets[s + 1]; ++token) {
          std::vector<double>& h = hidden[static_cast<size_t>(token)];
          const std::vector<double> x = norm(h, layer.feed_forward.norm.weight);
          for (size_t j = 0; j < routing.k; ++j, ++entry) {
            if (dispatch[entry] == kNoExpert) continue;
            if (taken[dispatch[entry]]++ >= moe->router.capacity) {
              dispatch[entry] = kNoExpert;
              continue;
            }
            const std::vector<double> y = expert(layer.feed_forward.moe_layer, dispatch[entry], x);
            for (size_t c = 0; c < d; ++c) h[c] += static_cast<double>(routing.alpha[entry]) * y[c];
          }
        }
      }
    }
    std::vector<double> out;
    for (size_t token = 0; token < tokens; ++token) {
      const std::vector<double> last = norm(hidden[token], stack.final_norm.weight);
      out.insert(out.end(), last.begin(), last.end());
    }
    return out;
  }

 private:
  std::vector<double> norm(const std::vector<double>& h, const float* weight) const {
    double sum = 0;
    for (const double value : h) sum += value * value;
    const double scale = 1 / std::sqrt(sum / static_cast<double>(h.size()) +
                                       static_cast<double>(pack_.spec.norm_epsilon));
    std::vector<double> x(h.size());
    for (size_t i = 0; i < h.size(); ++i) x[i] = h[i] * scale * static_cast<double>(weight[i]);
    return x;
  }

  std::vector<double> expert(size_t layer, size_t index, const std::vector<double>& x) const {
    const size_t id = layer * pack_.experts.shape.experts_per_layer + index;
    const std::byte* block = experts_.data() + id * pack_.experts.slot_bytes;
    std::vector<double> between = product(pack_.experts.layers[layer].matrix(block, Projection::kUp), x);
    for (double& value : between) value = std::max(value, 0.0);
    return product(pack_.experts.layers[layer].matrix(block, Projection::kDown), between);
  }

  static std::vector<double> product(const PanelMatrix& matrix, const std::vector<double>& x) {
    std::vector<double> y(matrix.n);
    std::vector<float> row(matrix.k);
    for (size_t n = 0; n < matrix.n; ++n) {
      read_panel_row(matrix, n, row.data());
      for (size_t k = 0; k < matrix.k; ++k) y[n] += static_cast<double>(row[k]) * x[k];
    }
    return y;
  }

  Pack pack_;
  std::vector<std::byte> dense_;
  std::vector<std::byte> experts_;
  ModelWeights weights_;
};

}  // namespace sida::testing
