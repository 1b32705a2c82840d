#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "core/checkpoint_error.h"
#include "checkpoint/safetensors_file.h"
#include "doctest/doctest.h"
#include "error_checks.h"
#include "repo_paths.h"
#include "safetensors_builder.h"

namespace {

using namespace sida;
using namespace sida::testing;

std::string four_floats() { return std::string(16, '\1'); }

// Two tensors, [2, 2] and [4], 32 bytes of data.
std::string sound() {
  return build_safetensors({{"a", "F32", {2, 2}, four_floats()}, {"b", "F32", {4}, four_floats()}});
}

// A file of one tensor "t" over `data_bytes` bytes.
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets,
                size_t data_bytes = 16) {
  return with_header("{\"t\":" + entry(dtype, shape, offsets) + "}", std::string(data_bytes, '\0'));
}

std::string two(const std::string& first_offsets, const std::string& second_offsets, size_t data_bytes = 32) {
  return with_header(
      "{\"t\":" + entry("F32", "[4]", first_offsets) + ",\"u\":" + entry("F32", "[4]", second_offsets) + "}",
      std::string(data_bytes, '\0'));
}

std::string metadata(const std::string& value) {
  return with_header("{\"__metadata__\":" + value + ",\"t\":" + entry("U8", "[1]", "[0,1]") + "}", "x");
}

std::string dimensions(int count) {
  std::string shape = "[1";
  for (int i = 1; i < count; ++i) shape += ",1";
  return shape + "]";
}

class OpenFile {
 public:
  explicit OpenFile(const std::string& bytes) : path_(directory_.path() + "/m.safetensors") {
    write_file(path_, bytes);
  }
  const std::string& path() const { return path_; }
  SafetensorsFile open() const { return SafetensorsFile::open(path_, "m.safetensors"); }

 private:
  TempDir directory_;
  std::string path_;
};

struct Bad {
  const char* what;
  std::string bytes;
  std::vector<std::string> parts;  // that the message holds
};

std::vector<Bad> bad_files() {
  const std::string name = "tensor \"t\"";
  const std::string good = sound();
  const std::string kWhole = "a whole number from 0 to 2^64-1";
  // clang-format off
  return {
      {"empty file", "", {"too short", "8 bytes", "found 0"}},
      {"fewer than 8 bytes", "1234567", {"too short", "found 7"}},
      {"header length 0", length_prefix(0), {"found nothing"}},
      {"header length 2^63", length_prefix(uint64_t{1} << 63) + "{}", {"100000000", "9223372036854775808"}},
      {"header length 2^64-1", length_prefix(UINT64_MAX) + "{}", {"100000000", "18446744073709551615"}},
      {"header longer than the file", length_prefix(100) + "{}", {"past the file", "at most 2", "found 100"}},
      {"header longer by one", length_prefix(3) + "{}", {"at most 2", "found 3"}},
      {"header just over 100 MB", length_prefix(100'000'001) + "{}", {"100000000", "100000001"}},
      {"header not UTF-8", with_header("{\"\xff\":1}", ""), {"UTF-8", "0xff", "byte 2"}},
      {"header not JSON", with_header("{hello}", ""), {"object key", "\"h\"", "byte 1"}},
      {"array at the top", with_header("[]", ""), {"no JSON object", "\"[]\""}},
      {"string at the top", with_header("\"x\"", ""), {"no JSON object"}},
      {"number at the top", with_header("12", ""), {"no JSON object", "\"12\""}},
      {"blanks only", with_header("    ", ""), {"no JSON object", "blanks"}},
      {"NULs after the JSON", with_header(std::string("{}\0\0", 4), ""), {"nothing after", "\\u0000", "byte 2"}},
      {"garbage after the JSON", with_header("{}x", ""), {"expected end of input", "\"x\"", "byte 2"}},
      {"duplicate tensor name",
       with_header("{\"t\":" + entry("U8", "[1]", "[0,1]") + ",\"t\":" + entry("U8", "[1]", "[1,2]") + "}", "xx"),
       {name, "stands twice"}},
      {"duplicate name in escapes",
       with_header("{\"t\":" + entry("U8", "[1]", "[0,1]") + ",\"\\u0074\":" + entry("U8", "[1]", "[1,2]") + "}", "xx"),
       {name, "stands twice"}},
      {"duplicate data_offsets",
       with_header(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"data_offsets":[0,1]}})", "x"),
       {"\"data_offsets\" twice"}},
      {"unknown dtype", one("F31", "[4]", "[0,16]"), {name, "unknown dtype", "\"F31\""}},
      {"dtype a number", with_header(R"({"t":{"dtype":7,"shape":[],"data_offsets":[0,1]}})", "x"), {name, "dtype", "7"}},
      {"shape negative", one("F32", "[-4]", "[0,16]"), {name, kWhole, "found -4"}},
      {"shape a float", one("F32", "[4.0]", "[0,16]"), {name, kWhole, "found 4.0"}},
      {"shape a string", one("F32", "[\"4\"]", "[0,16]"), {name, kWhole, "found \"4\""}},
      {"shape 1e999", one("F32", "[1e999]", "[0,16]"), {name, kWhole, "found 1e999"}},
      {"shape 2^53+1", one("U8", "[9007199254740993]", "[0,16]"), {name, "9007199254740993 bytes", "found 16"}},
      {"shape 2^64-1", one("F32", "[18446744073709551615]", "[0,16]"), {name, "too large", "18446744073709551615"}},
      {"shape 2^64", one("F32", "[18446744073709551616]", "[0,16]"), {name, kWhole, "18446744073709551616"}},
      {"shape no array", one("F32", "4", "[0,16]"), {name, "shape", "an array", "found 4"}},
      {"product wraps to 0", one("F32", "[4294967296,4294967296]", "[0,0]", 0), {name, "too large", "4294967296"}},
      {"bytes wrap", one("F64", "[2305843009213693952]", "[0,0]", 0), {name, "too large", "F64"}},
      {"offsets negative", one("F32", "[4]", "[-16,0]"), {name, "data_offsets", "found -16"}},
      {"end before begin", one("F32", "[4]", "[16,0]"), {name, "ends before", "at least 16", "found 0"}},
      {"no offsets", one("F32", "[4]", "[]"), {name, "array of 2", "array of 0"}},
      {"one offset", one("F32", "[4]", "[0]"), {name, "array of 2", "array of 1"}},
      {"three offsets", one("F32", "[4]", "[0,16,32]"), {name, "array of 2", "array of 3"}},
      {"offsets no array", one("F32", "[4]", "16"), {name, "array of 2", "found 16"}},
      {"begin past the end", one("F32", "[4]", "[64,80]"), {name, "past the end", "16", "found 80"}},
      {"end past the end by one", one("U8", "[17]", "[0,17]"), {name, "past the end", "16", "found 17"}},
      {"overlap", two("[0,16]", "[8,24]"), {"tensor \"u\"", "overlaps", "begin of 16", "found 8"}},
      {"same place", two("[0,16]", "[0,16]", 16), {"overlaps", "begin of 16", "found 0"}},
      {"hole", two("[0,16]", "[20,36]", 36), {"tensor \"u\"", "hole", "begin of 16", "found 20"}},
      {"hole at the start", one("F32", "[3]", "[4,16]"), {name, "hole", "begin of 0", "found 4"}},
      {"more data than the shape", one("F32", "[3]", "[0,16]"), {name, "12 bytes for [3] of F32", "found 16"}},
      {"less data than the shape", one("F32", "[5]", "[0,16]"), {name, "20 bytes for [5] of F32", "found 16"}},
      {"bytes after the last tensor", one("F32", "[4]", "[0,16]", 17), {"after the last", "16 bytes", "found 17"}},
      {"data without tensors", with_header("{}", "x"), {"after the last", "0 bytes", "found 1"}},
      {"cut by one byte", good.substr(0, good.size() - 1), {"tensor \"b\"", "past the end", "31", "found 32"}},
      {"cut by half", good.substr(0, good.size() / 2), {"past the file"}},
      {"cut at the header's edge", good.substr(0, good.size() - 32), {"past the end", "at most 0", "found 16"}},
      {"100 dimensions", one("U8", dimensions(100), "[0,1]", 1), {name, "too many", "64", "100"}},
      {"sub-byte shape of half a byte", one("F4", "[3]", "[0,2]", 2), {name, "whole bytes", "12 bits"}},
      {"six-bit shape of a fraction", one("F6_E2M3", "[2]", "[0,2]", 2), {name, "whole bytes", "12 bits"}},
      {"metadata no object", metadata("[]"), {"__metadata__", "an array of 0"}},
      {"metadata of numbers", metadata("{\"a\":1}"), {"__metadata__", "a string", "found 1"}},
      {"metadata nested", metadata("{\"a\":{}}"), {"__metadata__", "a string", "an object of 0"}},
      {"metadata twice", with_header(R"({"__metadata__":{},"__metadata__":{}})", ""), {"__metadata__", "twice"}},
      {"entry no object", with_header("{\"t\":[1]}", ""), {name, "an object", "an array of 1"}},
      {"entry without dtype", with_header(R"({"t":{"shape":[],"data_offsets":[0,1]}})", "x"), {name, "\"dtype\""}},
      {"entry without shape", with_header(R"({"t":{"dtype":"U8","data_offsets":[0,1]}})", "x"), {name, "\"shape\""}},
      {"entry without offsets", with_header(R"({"t":{"dtype":"U8","shape":[]}})", "x"), {name, "\"data_offsets\""}},
      {"unknown field", with_header(R"({"t":{"dtype":"U8","shape":[],"data_offsets":[0,1],"x":1}})", "x"),
       {name, "unknown field", "\"x\""}},
      {"name with control and bidi characters",
       with_header("{\"../\\u0000\\u001b\u202e\":" + entry("F31", "[4]", "[0,16]") + "}", four_floats()),
       {"\"../\\u0000\\u001b\\u202e\"", "unknown dtype"}},
      {"name of 1 MiB", with_header("{\"" + std::string(1 << 20, 'n') + "\":" + entry("F31", "[4]", "[0,16]") + "}", ""),
       {"(1048576 bytes)", "unknown dtype"}},
      {"deep nesting", with_header("{\"t\":" + std::string(1'000'000, '['), ""), {"64 levels"}},
  };
  // clang-format on
}

TEST_CASE("safetensors: refuses a bad file in one line with the numbers") {
  for (const Bad& bad : bad_files()) {
    CAPTURE(bad.what);
    const OpenFile file(bad.bytes);
    const std::string message = error_of([&] { file.open(); }, "checkpoint_invalid");
    CAPTURE(message);
    CHECK(message.find("m.safetensors: ") == 0);
    CHECK(message.find('\n') == std::string::npos);
    CHECK(message.size() < 1000);
    for (const std::string& part : bad.parts) {
      CAPTURE(part);
      CHECK(message.find(part) != std::string::npos);
    }
  }
}

TEST_CASE("safetensors: errors carry expected and found as numbers") {
  try {
    OpenFile(one("F32", "[3]", "[0,16]")).open();
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.numbers().at("expected") == 12);
    CHECK(error.numbers().at("found") == 16);
  }
}

TEST_CASE("safetensors: accepts what is sound") {
  struct Good {
    const char* what;
    std::string bytes;
    size_t tensors;
  };
  const Good rows[] = {
      {"no tensors", with_header("{}", ""), 0},
      {"two tensors", sound(), 2},
      {"unsorted", two("[16,32]", "[0,16]"), 2},
      {"zero-size", one("F32", "[0,4294967296,4294967296]", "[0,0]", 0), 1},
      {"zero-size between others",
       with_header("{\"a\":" + entry("U8", "[1]", "[0,1]") + ",\"z\":" + entry("U8", "[0]", "[1,1]") +
                       ",\"b\":" + entry("U8", "[1]", "[1,2]") + "}",
                   "xx"),
       3},
      {"rank 0", one("F32", "[]", "[0,4]", 4), 1},
      {"rank 64", one("U8", dimensions(64), "[0,1]", 1), 1},
      {"leading blanks", with_header(" \n\t{\"t\":" + entry("U8", "[1]", "[0,1]") + "}", "x"), 1},
      {"trailing blanks", with_header("{}      ", ""), 0},
      {"sub-byte of whole bytes", one("F4", "[4]", "[0,2]", 2), 1},
      {"huge metadata", metadata("{\"a\":\"" + std::string(3'000'000, 'm') + "\"}"), 1},
      {"a name that looks like a path", with_header("{\"/../x\":" + entry("U8", "[1]", "[0,1]") + "}", "x"),
       1},
      {"the empty name", with_header("{\"\":" + entry("U8", "[1]", "[0,1]") + "}", "x"), 1},
  };
  for (const Good& good : rows) {
    CAPTURE(good.what);
    const OpenFile file(good.bytes);
    CHECK(file.open().tensors().size() == good.tensors);
  }
}

TEST_CASE("safetensors: offsets count from the beginning of the file") {
  const OpenFile file(sound());
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
  check_has(error_of([&] { file.open(); }), {"at most 16777216 bytes of values", "in \"t\""});
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
  constexpr size_t kMost = kMaxHeaderObjects - 2;
  CHECK(OpenFile(tensors(kMost)).open().tensors().size() == kMost);
  const OpenFile more(tensors(kMost + 1));
  check_has(error_of([&] { more.open(); }, "checkpoint_invalid"),
            {"m.safetensors", "too many tensors", "at most 262144", "more"});
}

TEST_CASE("safetensors: only regular files are opened, and none is waited for") {
  const TempDir directory;
  CHECK(error_of([&] { SafetensorsFile::open(directory.path()); }, "io_error").find("directory") !=
        std::string::npos);
  const std::string fifo = directory.path() + "/fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(error_of([&] { SafetensorsFile::open(fifo); }, "io_error").find("FIFO") != std::string::npos);
  CHECK(error_of([&] { SafetensorsFile::open("/dev/zero"); }, "io_error").find("device") !=
        std::string::npos);
  error_of([&] { SafetensorsFile::open(directory.path() + "/none"); }, "io_error");
  error_of([&] { SafetensorsFile::open(std::string("/dev/null\0x", 11)); }, "io_error");
}

TEST_CASE("safetensors: no mutation of a file crashes the reader, and none is accepted with loose bytes") {
  std::mt19937 random(20240607);
  const std::string good = sound();
  const size_t header = good.size() - 32;
  int accepted = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string bytes = good;
    const int edits = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < edits; ++i) {
      const size_t at = random() % header;
      switch (random() % 4) {
        case 0:
          bytes[at % bytes.size()] = static_cast<char>(random());
          break;
        case 1:
          bytes[at % bytes.size()] = static_cast<char>(bytes[at % bytes.size()] ^ (1 << random() % 8));
          break;
        case 2:
          bytes.resize(random() % (bytes.size() + 1));
          break;
        default:
          bytes.insert(at % (bytes.size() + 1), 1, "{}[],:\"\\0-9eu"[random() % 13]);
      }
      if (bytes.empty()) break;
    }
    if (bytes.size() < 8) continue;
    uint64_t length = 0;
    for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(bytes[i]);
    if (length > bytes.size() - 8) length = bytes.size() - 8;
    try {
      const auto tensors = parse_safetensors_header(std::string_view(bytes).substr(8, length),
                                                    bytes.size() - 8 - length, "mutant");
      uint64_t total = 0;
      for (const TensorInfo& tensor : tensors) total += tensor.bytes;
      REQUIRE(total == bytes.size() - 8 - length);
      ++accepted;
    } catch (const Error& error) {
      REQUIRE(error.code() == "checkpoint_invalid");
      REQUIRE(std::string(error.what()).find('\n') == std::string::npos);
    }
  }
  // Some change no more than a name or a metadata string.
  MESSAGE(accepted, " of 6000 mutants are sound files");
}

TEST_CASE("safetensors: every cut of a sound file is refused") {
  const std::string good = sound();
  for (size_t size = 0; size < good.size(); ++size) {
    CAPTURE(size);
    error_of([&] { OpenFile(good.substr(0, size)).open(); }, "checkpoint_invalid");
  }
}

}  // namespace
