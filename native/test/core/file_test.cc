#include "core/file.h"

#include <filesystem>
#include <string>
#include <utility>

#include "doctest/doctest.h"
#include "support/error_checks.h"
#include "support/repo_paths.h"
#include "support/safetensors_builder.h"

namespace {

using namespace sida;
using namespace sida::testing;

namespace fs = std::filesystem;

TEST_CASE("file: reads are exact or typed errors") {
  const TempDir directory;
  const std::string path = directory.path() + "/f";
  write_file(path, "0123456789");
  File first = File::open(path);
  char out[4];
  first.pread_exact(6, out, 4);
  CHECK(std::string(out, 4) == "6789");
  check_has(error_of([&] { first.pread_exact(8, out, 4); }, "io_error"),
            {"expected 4 bytes at byte 8", "found 2"});
  File second = std::move(first);
  CHECK(first.descriptor() == -1);
  CHECK(second.unchanged());
  fs::create_symlink("f", directory.path() + "/link");
  CHECK_NOTHROW(File::open(directory.path() + "/link"));
  error_of([&] { File::open(directory.path() + "/link", false); }, "io_error");
}

}  // namespace
