#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/safetensors_file.h"
#include "core/checkpoint_error.h"
#include "support/safetensors_files.h"

namespace {

TEST_CASE("safetensors: accepts sound files") {
  struct Good {
    const char* what;
    std::string bytes;
    size_t tensors;
  };
  const Good rows[] = {
      {"no tensors", with_header("{}", ""), 0},
      {"two tensors", sound_file(), 2},
      {"unsorted", two_tensors("[16,32]", "[0,16]"), 2},
      {"zero-size", one_tensor("F32", "[0,4294967296,4294967296]", "[0,0]", 0), 1},
      {"zero-size between others",
       with_header("{\"a\":" + entry("U8", "[1]", "[0,1]") + ",\"z\":" + entry("U8", "[0]", "[1,1]") +
                       ",\"b\":" + entry("U8", "[1]", "[1,2]") + "}",
                   "xx"),
       3},
      {"rank 0", one_tensor("F32", "[]", "[0,4]", 4), 1},
      {"rank 64", one_tensor("U8", shape_of_ones(64), "[0,1]", 1), 1},
      {"leading blanks", with_header(" \n\t{\"t\":" + entry("U8", "[1]", "[0,1]") + "}", "x"), 1},
      {"trailing blanks", with_header("{}      ", ""), 0},
      {"sub-byte of whole bytes", one_tensor("F4", "[4]", "[0,2]", 2), 1},
      {"huge metadata", with_metadata("{\"a\":\"" + std::string(3'000'000, 'm') + "\"}"), 1},
      {"a name that looks like a path", with_header("{\"/../x\":" + entry("U8", "[1]", "[0,1]") + "}", "x"), 1},
      {"the empty name", with_header("{\"\":" + entry("U8", "[1]", "[0,1]") + "}", "x"), 1},
  };
  for (const Good& good : rows) {
    CASE(good.what);
    const OpenFile file(good.bytes);
    CHECK(file.open().tensors().size() == good.tensors);
  }
}

TEST_CASE("safetensors: offsets count from the beginning of the file") {
  const OpenFile file(sound_file());
  const SafetensorsFile opened = file.open();
  CHECK(opened.tensors()[0].name == "a");
  CHECK(opened.tensors()[0].shape == std::vector<uint64_t>{2, 2});
  CHECK(opened.tensors()[0].offset == opened.file().size() - 32);
  CHECK(opened.tensors()[1].offset == opened.file().size() - 16);
  CHECK(opened.tensors()[1].bytes == 16);
  CHECK(opened.tensors()[1].elements() == 4);
}

TEST_CASE("safetensors: a sparse 1 TB file is judged by its header") {
  const OpenFile file(with_header("{}", ""));
  // Some file systems do not hold files of this size.
  if (::truncate(file.path().c_str(), off_t{1} << 40) != 0) return;
  const auto begin = std::chrono::steady_clock::now();
  const std::string message = error_of([&] { file.open(); }, "checkpoint_invalid");
  CHECK(message.find("1099511627766") != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(1));
}

TEST_CASE("safetensors: a 100 MB header of zeros is refused without being read") {
  const OpenFile file(length_prefix(100'000'000));
  REQUIRE(::truncate(file.path().c_str(), 100'000'008) == 0);
  struct rusage before {};
  struct rusage after {};
  getrusage(RUSAGE_SELF, &before);
  const std::string message = error_of([&] { file.open(); }, "checkpoint_invalid");
  getrusage(RUSAGE_SELF, &after);
  CHECK(message.find("no JSON object") != std::string::npos);
  CHECK(after.ru_maxrss - before.ru_maxrss < 64 << 10);
}

TEST_CASE("safetensors: a shape of 49 million dimensions is refused where it becomes too long") {
  std::string shape(98'000'000, '1');
  for (size_t i = 1; i < shape.size(); i += 2) shape[i] = ',';
  shape.back() = ']';
  const OpenFile file(with_header("{\"t\":{\"dtype\":\"F32\",\"shape\":[" + shape + "}}", ""));
  check_error([&] { file.open(); }, {"at most 16777216 bytes of values", "in \"t\""});
}

TEST_CASE("safetensors: as many tensors as a header may hold are read, and no more") {
  const auto tensors = [](size_t count) {
    // Braces and quotes inside a string are no objects.
    std::string header = R"({"__metadata__":{"{\"{":"}{\\"})";
    for (size_t i = 0; i < count; ++i) {
      const std::string at = std::to_string(i);
      header += ",\"t" + at + "\":" + entry("U8", "[1]", "[" + at + "," + std::to_string(i + 1) + "]");
    }
    return with_header(header + "}", std::string(count, 'x'));
  };
  constexpr size_t kMax = kMaxHeaderObjects - 2;
  CHECK(OpenFile(tensors(kMax)).open().tensors().size() == kMax);
  const OpenFile more(tensors(kMax + 1));
  check_error([&] { more.open(); }, {"m.safetensors", "too many tensors", "at most 262144", "more"},
              "checkpoint_invalid");
}

TEST_CASE("safetensors: names are bounded, each and together") {
  const auto named = [](size_t count, size_t bytes) {
    std::string header = "{";
    for (size_t i = 0; i < count; ++i) {
      const std::string number = std::to_string(i);
      header += "\"" + number + std::string(bytes - number.size(), 'x') + "\":" + entry("U8", "[0]", "[0,0]") + ",";
    }
    header.back() = '}';
    return OpenFile(with_header(header, ""));
  };
  CHECK(named(1, 1024).open().tensors().size() == 1);
  const auto fault_of = [](const OpenFile& file) { return error_of([&] { file.open(); }, "checkpoint_invalid"); };
  check_has(fault_of(named(1, 1025)), {"name too long", "at most 1024 bytes", "found 1025"});
  check_has(fault_of(named(25'000, 1024)), {"names and shapes too long", "at most 25165824 bytes"});
}

TEST_CASE("safetensors: only regular files are opened, without blocking") {
  const TempDir directory;
  REQUIRE(::mkdir((directory.path() + "/folder").c_str(), 0700) == 0);
  check_error([&] { SafetensorsFile::open(directory.path() + "/folder"); }, {"folder", "regular file", "a directory"},
              "checkpoint_invalid");
  const std::string fifo = directory.path() + "/fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  check_error([&] { SafetensorsFile::open(fifo); }, {"fifo", "a FIFO"}, "checkpoint_invalid");
  check_error([&] { SafetensorsFile::open("/dev/zero"); }, {"zero", "a device"}, "checkpoint_invalid");
  check_error([&] { SafetensorsFile::open(directory.path() + "/none"); }, {"none", "missing file"},
              "checkpoint_invalid");
  error_of([&] { SafetensorsFile::open(std::string("/dev/null\0x", 11)); }, "checkpoint_invalid");
}

}  // namespace
