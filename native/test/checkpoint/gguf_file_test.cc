// The head of GGUF files: each fault is refused in one line that names what is wrong, with the numbers.
#include "checkpoint/gguf_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "support/gguf_builder.h"
#include "support/safetensors_builder.h"

namespace {

GgufBuilder sound() {
  GgufBuilder file;
  file.text("general.architecture", "olmoe").u32("olmoe.block_count", 3);
  file.zeros("a", {8, 2}).zeros("b", {4});
  return file;
}

GgufFile open(const std::string& bytes) {
  const TempDir directory;
  write_file(directory.path() + "/x.gguf", bytes);
  return GgufFile::open(directory.path(), "x.gguf");
}

struct BadGguf {
  const char* what;
  std::string bytes;
  std::vector<std::string> parts;  // that the message holds

  BadGguf(const char* name, std::string file, std::vector<std::string> words)
      : what(name), bytes(std::move(file)), parts(std::move(words)) {}
  BadGguf(const char* name, void (*change)(GgufBuilder&), std::vector<std::string> words)
      : BadGguf(name, "", std::move(words)) {
    GgufBuilder file = sound();
    change(file);
    bytes = file.build();
  }
};

std::string of_array(uint32_t type, uint64_t count, const std::string& values = "") {
  return bytes_of(type) + bytes_of(count) + values;
}

std::vector<BadGguf> bad_heads() {
  using File = GgufBuilder&;
  const std::string whole = sound().build();
  // clang-format off
  return {
      {"empty", "", {"ends in the magic number", "found 0"}},
      {"three bytes", "GGU", {"ends in the magic number", "4 bytes", "found 3"}},
      {"another magic", [](File f) { f.magic = "GGJT"; }, {"first bytes", "0x544a4747"}},
      {"version 1", [](File f) { f.version = 1; }, {"version", "2 or 3", "found 1"}},
      {"version 4", [](File f) { f.version = 4; }, {"version", "found 4"}},
      {"big-endian", [](File f) { f.version = 3u << 24; }, {"version", "found 3", "big-endian"}},
      {"2^64-1 tensors", [](File f) { f.tensor_count = UINT64_MAX; },
       {"number of tensors", "131072", "18446744073709551615"}},
      {"2^63 keys", [](File f) { f.entry_count = uint64_t{1} << 63; }, {"number of keys", "65536"}},
      {"more keys than there are", [](File f) { f.entry_count = 60000; }, {}},
      {"a key of 2^64-1 bytes", [](File f) { f.entries = bytes_of(UINT64_MAX); },
       {"length of a key", "65535", "18446744073709551615"}},
      {"an empty key", [](File f) { f.u32("", 1); }, {"name of a key", "printable ASCII"}},
      {"a key with a line break", [](File f) { f.u32("a\nb", 1); }, {"key \"a\\u000ab\"", "name of a key"}},
      {"unknown type", [](File f) { f.raw("k", 13, "x"); }, {"key \"k\"", "type of the value", "found 13"}},
      {"a text longer than the file", [](File f) { f.raw("k", 8, bytes_of<uint64_t>(1 << 20)); },
       {"\"k\"", "file ends in a text", "1048576 bytes"}},
      {"a text of 2^64-1 bytes", [](File f) { f.raw("k", 8, bytes_of(UINT64_MAX)); },
       {"\"k\"", "file ends in a text", "18446744073709551615"}},
      {"a bool of 2", [](File f) { f.raw("k", 7, "\2"); }, {"\"k\"", "0 or 1", "found 2"}},
      {"nested arrays", [](File f) { f.raw("k", 9, of_array(9, 1)); }, {"\"k\"", "nested arrays"}},
      {"an array of an unknown type", [](File f) { f.raw("k", 9, of_array(99, 1)); }, {"\"k\"", "found 99"}},
      {"an array of 2^61 numbers", [](File f) { f.raw("k", 9, of_array(10, uint64_t{1} << 61)); },
       {"\"k\"", "length of the array", "2305843009213693952"}},
      {"an array of 2^64-1 texts", [](File f) { f.raw("k", 9, of_array(8, UINT64_MAX)); }, {"\"k\""}},
      {"a key twice", [](File f) { f.u32("k", 1).u32("k", 2); }, {"\"k\"", "appears twice"}},
      {"alignment 0", [](File f) { f.u32("general.alignment", 0); }, {"alignment", "power of two", "found 0"}},
      {"alignment 48", [](File f) { f.u32("general.alignment", 48); }, {"power of two", "found 48"}},
      {"alignment 2^31", [](File f) { f.u32("general.alignment", 1u << 31); }, {"1048576", "2147483648"}},
      {"alignment of another type", [](File f) { f.u64("general.alignment", 32); }, {"u32", "found u64"}},
      {"a tensor twice", [](File f) { f.zeros("a", {4}); }, {"\"a\"", "appears twice"}},
      {"five dimensions", [](File f) { f.zeros("c", {1, 1, 1, 1, 1}); }, {"\"c\"", "at most 4", "found 5"}},
      {"2^32-1 dimensions",
       whole.substr(0, whole.find("olmoe.block_count") + 25) + gguf_text("a") + bytes_of(UINT32_MAX) +
           std::string(64, '\0'),
       {"dimensions", "4294967295"}},
      {"sizes whose product wraps to 0",
       [](File f) { f.tensors[1].dimensions = {uint64_t{1} << 32, uint64_t{1} << 32, 4}; },
       {"\"b\"", "less than 2^63 bytes"}},
      {"a size whose bytes wrap", [](File f) { f.tensors[1].dimensions = {uint64_t{1} << 62}; }, {"\"b\"", "2^63"}},
      {"an unknown type of numbers", [](File f) { f.tensors[1].type = 99; }, {"tensor \"b\"", "found type 99"}},
      {"a type that is not read", [](File f) { f.tensors[1].type = 19; },
       {"\"b\"", "Q8_0", "IQ2_XXS or MXFP4", "found IQ1_S"}},
      {"columns that are no whole blocks of 256", [](File f) { f.tensors[0].type = 11; },
       {"\"a\"", "a multiple of 256", "Q3_K", "found 8"}},
      {"columns that are no whole blocks", [](File f) { f.tensors[0].type = 8; },
       {"\"a\"", "a multiple of 32", "Q8_0", "found 8"}},
      {"an offset that is not aligned", [](File f) { f.tensors[1].offset = 68; },
       {"\"b\"", "a multiple of 32", "found 68"}},
      {"overlapping tensors", [](File f) { f.tensors[1].offset = 32; }, {"\"b\"", "overlaps", "64", "found 32"}},
      {"a hole", [](File f) { f.tensors[1].offset = 96; }, {"\"b\"", "hole", "64", "found 96"}},
      {"an offset of 2^64-32", [](File f) { f.tensors[1].offset = UINT64_MAX - 31; }, {"\"b\"", "hole"}},
      {"data beyond the file", [](File f) { f.tensors[1].dimensions = {64}; },
       {"\"b\"", "past the end of the file", "256 bytes"}},
      {"cut in the last tensor", whole.substr(0, whole.size() - 17), {"\"b\"", "past the end of the file"}},
      {"cut in the head", whole.substr(0, 40), {"file ends in"}},
      {"bytes after the last tensor", whole + "x", {"bytes after the last tensor"}},
  };
  // clang-format on
}

TEST_CASE("gguf: a sound head gives its keys and its tensors, rows before columns") {
  const GgufFile file = open(sound().build());
  REQUIRE(file.entries().size() == 2);
  const GgufEntry* blocks = file.find("olmoe.block_count");
  REQUIRE(blocks != nullptr);
  CHECK(file.read(*blocks) == bytes_of<uint32_t>(3));
  CHECK(file.find("olmoe") == nullptr);
  REQUIRE(file.tensors().size() == 2);
  CHECK(file.tensors()[0].shape == std::vector<uint64_t>{2, 8});
  CHECK(file.tensors()[1].offset == file.tensors()[0].offset + 64);
}

TEST_CASE("gguf: version 2, another alignment, an empty tensor, dimensions of 1 in front, a cut padding") {
  GgufBuilder file = sound();
  file.version = 2;
  file.alignment = 128;
  file.u32("general.alignment", 128).zeros("one", {4, 1, 1}).zeros("none", {0});
  file.zeros("huge", {uint64_t{1} << 62, uint64_t{1} << 62, 0}).zeros("number", {});
  std::string bytes = file.build();
  bytes.resize(bytes.size() - 100);
  const GgufFile opened = open(bytes);
  CHECK(opened.tensors()[1].offset == opened.tensors()[0].offset + 128);
  CHECK(opened.tensors()[2].shape == std::vector<uint64_t>{4});
  CHECK(opened.tensors()[3].bytes == 0);
  CHECK(opened.tensors()[4].bytes == 0);
  CHECK(opened.tensors()[5].bytes == 4);
}

TEST_CASE("gguf: damaged heads are refused in one line") {
  for (const BadGguf& bad : bad_heads()) {
    CASE(bad.what);
    const std::string message = error_of([&] { open(bad.bytes); });
    CHECK(message.size() < 600);
    check_has(message, {"x.gguf"});
    check_has(message, bad.parts);
  }
}

TEST_CASE("gguf: every cut of a head is refused") {
  const std::string whole = sound().build();
  for (size_t size = 0; size + 32 <= whole.size(); ++size) {
    CASE(size);
    error_of([&] { open(whole.substr(0, size)); });
  }
}

TEST_CASE("gguf: a link out of the directory, a directory and a FIFO are refused") {
  const TempDir directory, other;
  write_file(other.path() + "/x.gguf", sound().build());
  REQUIRE(::symlink((other.path() + "/x.gguf").c_str(), (directory.path() + "/link.gguf").c_str()) == 0);
  REQUIRE(::mkfifo((directory.path() + "/fifo.gguf").c_str(), 0600) == 0);
  check_error([&] { GgufFile::open(directory.path(), "link.gguf"); }, {"link out of the directory"});
  check_error([&] { GgufFile::open(directory.path(), "fifo.gguf"); }, {"FIFO"});
  check_error([&] { GgufFile::open(directory.path(), "none.gguf"); }, {"missing file"});
}

}  // namespace
