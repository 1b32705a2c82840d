// What the fuzzers found, and the inputs that reach the most of each reader: native/fuzz/corpus, one folder a
// reader.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "readers.h"
#include "support/repo_paths.h"

namespace sida {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_in(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

TEST_CASE("fuzz corpus: every reader takes or refuses every file of it cleanly") {
  for (const fuzzing::Reader& reader : fuzzing::kReaders) {
    const std::vector<fs::path> files = files_in(testing::repo() + "/native/fuzz/corpus/" + reader.name);
    CHECK_MESSAGE(!files.empty(), reader.name);
    for (const fs::path& path : files) {
      // A reader that does not hold ends the process: the last name printed is the file.
      CAPTURE(path.string());
      std::ifstream file(path, std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file), {}};
      reader.read(bytes);
      CHECK(file.good());
    }
  }
}

}  // namespace
}  // namespace sida
