#include "expert/stripe_layout.h"

#include <utility>

#include "core/error.h"

namespace sida {

namespace {

constexpr size_t kSealBytes = 4096;

}  // namespace

StripeLayout::StripeLayout(Stripes stripes, size_t experts, uint64_t block_bytes)
    : files_(stripes.count), experts_(experts), block_bytes_(block_bytes), stamp_(std::move(stripes.stamp)) {
  const size_t files = files_;
  if (files >= 1 && files <= kMaxStripes && stamp_.size() <= kMaxStamp) return;
  throw Error("invalid_request",
              "expected 1 to " + std::to_string(kMaxStripes) + " stripes and a stamp of at most " +
                  std::to_string(kMaxStamp) + " bytes, found " + std::to_string(files) + " and " +
                  std::to_string(stamp_.size()),
              {{"stripes", static_cast<double>(files)}});
}

std::string StripeLayout::seal(size_t file) const {
  if (files_ == 1) return "";
  std::string page =
      "stripe " + std::to_string(file) + " of " + std::to_string(files_) + " of " + stamp_ + "\n";
  page.resize(kSealBytes);
  return page;
}

std::string StripeLayout::file_name(size_t file) const {
  const std::string name = "experts.sida";
  return files_ == 1 ? name : name + "." + std::to_string(file);
}

}  // namespace sida
