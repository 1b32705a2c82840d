// Products of CudaOps with activations in 8 bits.
#include "ops/cuda/cuda_ops.h"

namespace sida {

cuda::RoundedRows CudaOps::rounded(const float* x, size_t rows, size_t k) {
  normed_rounded_ = false;
  const cuda::RoundedRows codes = cuda::lay_out_rounded(work_.rounded, rows, k);
  const cuda::RowRange all{0, static_cast<uint32_t>(rows)};
  cuda::round_rows(x, k, k, {&all, 1}, codes, stream());
  return codes;
}

cuda::RoundedRows CudaOps::rounded_normed() {
  if (normed_rounded_) return cuda::lay_out_rounded(work_.rounded, tokens_, spec_.width);
  const cuda::RoundedRows codes = rounded(work_.activations.normed, tokens_, spec_.width);
  normed_rounded_ = true;
  return codes;
}

cuda::RoundedRows CudaOps::rounded_hidden(const float* x, size_t rows, size_t k) {
  ranges_.clear();
  for (const cuda::Product& product : products_) {
    ranges_.push_back({static_cast<uint32_t>(static_cast<size_t>(product.x - x) / k), product.rows});
  }
  const cuda::RoundedRows codes = cuda::lay_out_rounded(work_.rounded_hidden, rows, k);
  cuda::round_rows(x, k, k, ranges_, codes, stream());
  return codes;
}

void CudaOps::multiply(const float* x, const cuda::RoundedRows* codes, const cuda::GemmShape& shape) {
  if (codes == nullptr) return cuda::gemm(products_, shape, stream());
  rounded_products_.clear();
  for (const cuda::Product& product : products_) {
    const auto first = static_cast<uint32_t>(static_cast<size_t>(product.x - x) / shape.x_stride);
    rounded_products_.push_back({first, product.gather, product.gather_divisor, product.rows, product.w, product.y});
  }
  const size_t y_stride = shape.y_stride == 0 ? products_.front().w.n : shape.y_stride;
  cuda::gemm_rounded(*codes, rounded_products_, y_stride, shape.epilogue, stream());
}

void CudaOps::output_gates(const PanelMatrix& gate, size_t tokens) {
  const cuda::Product one{work_.activations.normed, nullptr, 1, static_cast<uint32_t>(tokens), gate, work_.gates};
  cuda::gemm({&one, 1}, {gate.k, 0, Epilogue::kStore}, stream());
}

}  // namespace sida
