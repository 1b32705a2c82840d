// Damaged safetensors files: each is refused in one line that names what is wrong, with the numbers.
#include "core/checkpoint_error.h"
#include "support/safetensors_files.h"

namespace {

struct BadSafetensors {
  const char* what;
  std::string bytes;
  std::vector<std::string> parts;  // that the message holds
};

std::vector<BadSafetensors> bad_safetensors() {
  const std::string name = "tensor \"t\"";
  const std::string good = sound_file();
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
       {name, "appears twice"}},
      {"duplicate name in escapes",
       with_header("{\"t\":" + entry("U8", "[1]", "[0,1]") + ",\"\\u0074\":" + entry("U8", "[1]", "[1,2]") + "}", "xx"),
       {name, "appears twice"}},
      {"duplicate data_offsets",
       with_header(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"data_offsets":[0,1]}})", "x"),
       {"\"data_offsets\" twice"}},
      {"unknown dtype", one_tensor("F31", "[4]", "[0,16]"), {name, "unknown dtype", "\"F31\""}},
      {"dtype a number", with_header(R"({"t":{"dtype":7,"shape":[],"data_offsets":[0,1]}})", "x"),
       {name, "dtype", "7"}},
      {"shape negative", one_tensor("F32", "[-4]", "[0,16]"), {name, kWhole, "found -4"}},
      {"shape a float", one_tensor("F32", "[4.0]", "[0,16]"), {name, kWhole, "found 4.0"}},
      {"shape a string", one_tensor("F32", "[\"4\"]", "[0,16]"), {name, kWhole, "found \"4\""}},
      {"shape 1e999", one_tensor("F32", "[1e999]", "[0,16]"), {name, kWhole, "found 1e999"}},
      {"shape 2^53+1", one_tensor("U8", "[9007199254740993]", "[0,16]"), {name, "9007199254740993 bytes", "found 16"}},
      {"shape 2^64-1", one_tensor("F32", "[18446744073709551615]", "[0,16]"),
       {name, "too large", "18446744073709551615"}},
      {"shape 2^64", one_tensor("F32", "[18446744073709551616]", "[0,16]"), {name, kWhole, "18446744073709551616"}},
      {"shape no array", one_tensor("F32", "4", "[0,16]"), {name, "shape", "an array", "found 4"}},
      {"product wraps to 0", one_tensor("F32", "[4294967296,4294967296]", "[0,0]", 0),
       {name, "too large", "4294967296"}},
      {"bytes wrap", one_tensor("F64", "[2305843009213693952]", "[0,0]", 0), {name, "too large", "F64"}},
      {"offsets negative", one_tensor("F32", "[4]", "[-16,0]"), {name, "data_offsets", "found -16"}},
      {"end before begin", one_tensor("F32", "[4]", "[16,0]"), {name, "ends before", "at least 16", "found 0"}},
      {"no offsets", one_tensor("F32", "[4]", "[]"), {name, "array of 2", "array of 0"}},
      {"one offset", one_tensor("F32", "[4]", "[0]"), {name, "array of 2", "array of 1"}},
      {"three offsets", one_tensor("F32", "[4]", "[0,16,32]"), {name, "array of 2", "array of 3"}},
      {"offsets no array", one_tensor("F32", "[4]", "16"), {name, "array of 2", "found 16"}},
      {"begin past the end", one_tensor("F32", "[4]", "[64,80]"), {name, "past the end", "16", "found 80"}},
      {"end past the end by one", one_tensor("U8", "[17]", "[0,17]"), {name, "past the end", "16", "found 17"}},
      {"overlap", two_tensors("[0,16]", "[8,24]"), {"tensor \"u\"", "overlaps", "begin of 16", "found 8"}},
      {"same place", two_tensors("[0,16]", "[0,16]", 16), {"overlaps", "begin of 16", "found 0"}},
      {"hole", two_tensors("[0,16]", "[20,36]", 36), {"tensor \"u\"", "hole", "begin of 16", "found 20"}},
      {"hole at the start", one_tensor("F32", "[3]", "[4,16]"), {name, "hole", "begin of 0", "found 4"}},
      {"more data than the shape", one_tensor("F32", "[3]", "[0,16]"), {name, "12 bytes for [3] of F32", "found 16"}},
      {"less data than the shape", one_tensor("F32", "[5]", "[0,16]"), {name, "20 bytes for [5] of F32", "found 16"}},
      {"bytes after the last tensor", one_tensor("F32", "[4]", "[0,16]", 17),
       {"after the last", "16 bytes", "found 17"}},
      {"data without tensors", with_header("{}", "x"), {"after the last", "0 bytes", "found 1"}},
      {"cut by one byte", good.substr(0, good.size() - 1), {"tensor \"b\"", "past the end", "31", "found 32"}},
      {"cut by half", good.substr(0, good.size() / 2), {"past the file"}},
      {"cut at the header's edge", good.substr(0, good.size() - 32), {"past the end", "at most 0", "found 16"}},
      {"100 dimensions", one_tensor("U8", shape_of_ones(100), "[0,1]", 1), {name, "too many", "64", "100"}},
      {"sub-byte shape of half a byte", one_tensor("F4", "[3]", "[0,2]", 2), {name, "whole bytes", "12 bits"}},
      {"six-bit shape of a fraction", one_tensor("F6_E2M3", "[2]", "[0,2]", 2), {name, "whole bytes", "12 bits"}},
      {"metadata no object", with_metadata("[]"), {"__metadata__", "an array of 0"}},
      {"metadata of numbers", with_metadata("{\"a\":1}"), {"__metadata__", "a string", "found 1"}},
      {"metadata nested", with_metadata("{\"a\":{}}"), {"__metadata__", "a string", "an object of 0"}},
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
      {"name of 1 MiB",
       with_header("{\"" + std::string(1 << 20, 'n') + "\":" + entry("F31", "[4]", "[0,16]") + "}", ""),
       {"(1048576 bytes)", "name too long"}},
      {"deep nesting", with_header("{\"t\":" + std::string(1'000'000, '['), ""), {"64 levels"}},
  };
  // clang-format on
}

TEST_CASE("safetensors: refuses a bad file in one line with the numbers") {
  for (const BadSafetensors& bad : bad_safetensors()) {
    CASE(bad.what);
    const std::string message = error_of([&] { OpenFile(bad.bytes).open(); });
    CHECK(message.find("m.safetensors: ") == 0);
    CHECK(message.size() < 1000);
    check_has(message, bad.parts);
  }
}

TEST_CASE("safetensors: errors carry expected and found as numbers") {
  const auto numbers = numbers_of([] { OpenFile(one_tensor("F32", "[3]", "[0,16]")).open(); }, "checkpoint_invalid");
  CHECK(numbers.at("expected") == 12);
  CHECK(numbers.at("found") == 16);
}

TEST_CASE("safetensors: no mutation of a file crashes the reader, and none is accepted with loose bytes") {
  std::mt19937 random(20240607);
  const std::string good = sound_file();
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
      const auto tensors =
          parse_safetensors_header(std::string_view(bytes).substr(8, length), bytes.size() - 8 - length, "mutant");
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
  const std::string good = sound_file();
  for (size_t size = 0; size < good.size(); ++size) {
    CASE(size);
    error_of([&] { OpenFile(good.substr(0, size)).open(); }, "checkpoint_invalid");
  }
}

}  // namespace
