#include "expert/stripe_layout.h"

#include "core/error.h"

namespace sida {

StripeLayout::StripeLayout(size_t files, size_t experts, uint64_t block_bytes)
    : files_(files), experts_(experts), block_bytes_(block_bytes) {
  if (files >= 1 && files <= kMaxStripes) return;
  throw Error("invalid_request",
              "expected 1 to " + std::to_string(kMaxStripes) + " stripes, found " + std::to_string(files),
              {{"stripes", static_cast<double>(files)}});
}

std::string StripeLayout::file_name(size_t file) const {
  const std::string name = "experts.sida";
  return files_ == 1 ? name : name + "." + std::to_string(file);
}

}  // namespace sida
