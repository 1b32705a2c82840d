#include "predictor/token_products.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace sida {
namespace {

// Rows of each product, also where fewer tokens are missing: a matrix product chooses its kernel by the number of rows,
// and a token's bits must not depend on the tokens that it is first seen with. Eight rows take little longer than one,
// whose product waits for the weights.
constexpr size_t kRows = 8;

}  // namespace

void TokenProducts::add(std::span<const int32_t> tokens, const TokenEmbedding& embedding,
                        FunctionRef<void(const float* x, size_t rows, float* out)> multiply, ThreadPool* pool) {
  std::vector<int32_t> missing;
  for (const int32_t token : tokens) {
    if (!products_.contains(token)) missing.push_back(token);
  }
  if (missing.empty()) return;
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  const size_t d = embedding.d_model();
  const size_t groups = (missing.size() + kRows - 1) / kRows;
  std::vector<std::vector<float>> products(missing.size());
  std::vector<std::exception_ptr> errors(std::min(pool->threads(), groups));
  pool->parallel_for(errors.size(), [&](size_t task, size_t) {
    try {
      std::vector<float> x(kRows * d), out(kRows * width_);
      for (size_t group = task; group < groups; group += errors.size()) {
        const size_t first = group * kRows, count = std::min(kRows, missing.size() - first);
        for (size_t r = 0; r < count; ++r) {
          embedding.read(static_cast<size_t>(missing[first + r]), 1, x.data() + r * d);
        }
        multiply(x.data(), kRows, out.data());
        for (size_t r = 0; r < count; ++r) {
          const float* row = out.data() + r * width_;
          products[first + r].assign(row, row + width_);
        }
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
