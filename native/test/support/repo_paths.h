#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace sida::testing {

/// The root of the repository.
std::string repo();

/// A folder of further oracle fixtures, of other seeds and shapes, that SIDA_ORACLE_FIXTURES names; empty where it is
/// not set.
inline std::string further_fixtures_dir() {
  const char* const path = std::getenv("SIDA_ORACLE_FIXTURES");
  return path == nullptr ? "" : path;
}

/// The names of the further fixtures, in order.
inline std::vector<std::string> further_fixtures() {
  std::vector<std::string> names;
  if (further_fixtures_dir().empty()) return names;
  for (const auto& entry : std::filesystem::directory_iterator(further_fixtures_dir())) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Where CMake unpacks the archives of test/fixtures/oracle.
std::string unpacked_fixtures();

/// The directory of an oracle fixture: a further one of this name, or one of the repository. Throws where there is
/// none.
inline std::string fixture(const std::string& name) {
  for (const std::string& folder : {further_fixtures_dir(), repo() + "/test/fixtures", unpacked_fixtures()}) {
    const std::string found = folder + "/" + name;
    if (!folder.empty() && std::filesystem::exists(found)) return found;
  }
  throw std::runtime_error("no fixture " + name + " in " + unpacked_fixtures() + ": configure this build again");
}

/// A fresh directory, removed at the end of the scope.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sida-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace sida::testing
