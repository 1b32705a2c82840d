#pragma once

#include <memory>
#include <string>
#include <vector>

#include "expert/expert_file.h"
#include "expert/stripe_layout.h"

namespace sida {

/// The packed experts on disk, in one file or striped over several, or what gives the blocks of one file.
class DiskTier {
 public:
  /// `paths`: one a stripe. Throws pack_invalid where a file's size differs from the layout's or its seal is another
  /// stripe's, io_error where a file cannot be opened.
  DiskTier(const StripeLayout& layout, const std::vector<std::string>& paths);
  DiskTier(const StripeLayout& layout, std::unique_ptr<ExpertFile> file);

  const StripeLayout& layout() const { return layout_; }
  ExpertFile& file(size_t index) { return *files_[index]; }

 private:
  StripeLayout layout_;
  std::vector<std::unique_ptr<ExpertFile>> files_;
};

}  // namespace sida
