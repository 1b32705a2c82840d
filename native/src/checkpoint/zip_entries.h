#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/file.h"

namespace sida {

/// An entry of a zip archive. Its data lies in the archive as it is.
struct ZipEntry {
  std::string name;
  uint64_t offset = 0;  ///< of the data in the archive
  uint64_t bytes = 0;
};

/// The entries of an archive that torch.save has written, ordered by their place: none compressed or encrypted, none
/// over another. Throws io_error or checkpoint_invalid. `display` names the archive in errors.
std::vector<ZipEntry> read_zip_entries(const File& archive, const std::string& display);

}  // namespace sida
