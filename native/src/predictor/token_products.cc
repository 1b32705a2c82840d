#include "predictor/token_products.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace sida {

void TokenProducts::add(std::span<const int32_t> tokens, const TokenEmbedding& embedding,
                        FunctionRef<void(const float* x, float* out)> multiply, ThreadPool* pool) {
  std::vector<int32_t> missing;
  for (const int32_t token : tokens) {
    if (!products_.contains(token)) missing.push_back(token);
  }
  if (missing.empty()) return;
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  std::vector<std::vector<float>> products(missing.size());
  std::vector<std::exception_ptr> errors(std::min(pool->threads(), missing.size()));
  pool->parallel_for(errors.size(), [&](size_t task, size_t) {
    try {
      std::vector<float> x(embedding.d_model());
      // One row a product: in a product of several rows, a kernel for other row counts could give other bits to a
      // token, by the tokens that it is first seen with.
      for (size_t i = task; i < missing.size(); i += errors.size()) {
        embedding.read(static_cast<size_t>(missing[i]), 1, x.data());
        products[i].resize(width_);
        multiply(x.data(), products[i].data());
      }
    } catch (...) {
      errors[task] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  for (size_t i = 0; i < missing.size(); ++i) products_.emplace(missing[i], std::move(products[i]));
}

size_t TokenProducts::bytes() const {
  // A node has a link beside its value.
  const size_t node = sizeof(decltype(products_)::value_type) + sizeof(void*) + width_ * sizeof(float);
  return products_.size() * node + products_.bucket_count() * sizeof(void*);
}

}  // namespace sida
