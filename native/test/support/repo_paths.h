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

/// Reference data beside the repository; empty when it is not there.
inline std::string shared_dir() {
  const std::string path = repo() + "/../shared";
  return std::filesystem::exists(path) ? path : "";
}

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

/// The one oracle fixture that is too large for the repository.
inline constexpr const char* kLargeFixture = "switch-tiny-step1";

/// The directory of an oracle fixture: a further one of this name, one of the repository, or of the full set beside it.
/// Throws where there is none; empty for the large one.
inline std::string fixture(const std::string& name) {
  const std::string further = further_fixtures_dir() + "/" + name;
  if (!further_fixtures_dir().empty() && std::filesystem::exists(further)) return further;
  for (const std::string& folder :
       {repo() + "/test/fixtures", unpacked_fixtures(), shared_dir() + "/oracle/fixtures"}) {
    const std::string found = folder + "/" + name;
    if (std::filesystem::exists(found)) return found;
  }
  if (name == kLargeFixture) return "";
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
