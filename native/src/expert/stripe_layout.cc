#include "expert/stripe_layout.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace sida {

namespace {

constexpr size_t kSealBytes = 4096;

}  // namespace

std::string expert_file_name(const Stripes& stripes, size_t file) {
  const std::string name = "experts.sida";
  return stripes.count == 1 ? name : name + "." + std::to_string(file);
}

StripeLayout::StripeLayout(Stripes stripes)
    : files_(stripes.count), stamp_(std::move(stripes.stamp)), ends_(std::clamp<size_t>(files_, 1, kMaxStripes)) {
  const size_t files = files_;
  if (files >= 1 && files <= kMaxStripes && stamp_.size() <= kMaxStamp) return;
  throw Error("invalid_request",
              "expected 1 to " + std::to_string(kMaxStripes) + " stripes and a stamp of at most " +
                  std::to_string(kMaxStamp) + " bytes, found " + std::to_string(files) + " and " +
                  std::to_string(stamp_.size()),
              {{"stripes", static_cast<double>(files)}});
}

StripeLayout::StripeLayout(Stripes stripes, const ExpertLayout& layout) : StripeLayout(std::move(stripes)) {
  offsets_.reserve(layout.experts());
  for (ExpertId id = 0; id < layout.experts(); ++id) add(layout.block_bytes(id));
}

StripeLayout::StripeLayout(Stripes stripes, size_t experts, uint64_t block_bytes) : StripeLayout(std::move(stripes)) {
  offsets_.reserve(experts);
  for (size_t id = 0; id < experts; ++id) add(block_bytes);
}

void StripeLayout::add(uint64_t bytes) {
  uint64_t& end = ends_[offsets_.size() % files_];
  offsets_.push_back(end);
  end += bytes;
}

uint64_t StripeLayout::blocks_end(size_t file, size_t count) const {
  const size_t next = count + (file + files_ - count % files_) % files_;
  return next < offsets_.size() ? offsets_[next] : ends_[file];
}

std::string StripeLayout::seal(size_t file) const {
  if (files_ == 1) return "";
  std::string page = "stripe " + std::to_string(file) + " of " + std::to_string(files_) + " of " + stamp_ + "\n";
  page.resize(kSealBytes);
  return page;
}

}  // namespace sida
