#include "core/json.h"

#include "support/safetensors_builder.h"
#include "support/test.h"

namespace {

JsonDocument parse(const std::string& text) { return JsonDocument::parse(text, {"x.json"}); }

std::string nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST_CASE("json: reads values, in order") {
  JsonDocument parsed =
      parse(" \t\r\n{\"b\": [1, -2, 3.5e1, true, false, null], \"a\": {\"\\u00e9\\ud83d\\ude00\\n\": \"x\\/y\"}} ");
  const JsonDocument document = std::move(parsed);
  std::string order;
  for (const JsonMember& member : document.root().members()) order += member.key;
  CHECK(order == "ba");
  std::vector<JsonValue> list;
  for (const JsonValue value : document.root().at("b").elements()) list.push_back(value);
  REQUIRE(list.size() == 6);
  CHECK(list[0].as_u64() == 1);
  CHECK(list[1].as_i64() == -2);
  CHECK(list[2].as_double() == 35.0);
  CHECK(list[3].as_bool());
  CHECK_FALSE(list[4].as_bool());
  CHECK(list[5].is_null());
  CHECK(document.root().at("a").at("é😀\n").as_string() == "x/y");
  CHECK_FALSE(document.root().find("c").has_value());
}

TEST_CASE("json: refuses what is not strict JSON") {
  // clang-format off
  const std::vector<std::string> texts = {
      "", " ", "{", "[", "}", "[1,]", "[,1]", "{\"a\":1,}", "{\"a\"}", "{a:1}", "{'a':1}", "[1 2]",
      "{\"a\":1 \"b\":2}", "01", "-", "+1", "1.", ".5", "1e", "1e+", "0x10", "NaN", "Infinity", "-Infinity", "tru",
      "nul", "True", "\"", "\"\\", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\n\"", "\"\t\"", "1 2", "{} x", "[]]",
      "// c\n1", "\xef\xbb\xbf{}", "\"\xff\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"",
      "\"\xe2\x82\"", "\"\\ud800\"", "\"\\udc00\"", "\"\\ud800\\u0041\"", "\"\\ud800x\"", "\"\\ud800\\ud800\"",
      "\x0b1", "\xa0 1", std::string("{}\0", 3), std::string("\0", 1), std::string("\"\0\"", 3),
      std::string("\"\\\0\"", 4),
  };
  // clang-format on
  for (const std::string& text : texts) {
    CASE(text);
    const Error error = thrown_by([&] { parse(text); }, "checkpoint_invalid");
    CHECK(std::string(error.what()).find("x.json: ") == 0);
    CHECK(error.numbers().at("position") <= static_cast<double>(text.size()));
  }
}

TEST_CASE("json: a duplicate key is refused") {
  CHECK_NOTHROW(parse(R"({"a":{"a":1},"b":{"a":1}})"));
  CHECK_THROWS_WITH_AS(parse(R"({"a":1,"a":2})"),
                       "x.json: not sound JSON: expected each key once, found \"a\" twice at byte 8", Error);
  CHECK_THROWS_AS(parse(R"({"a":1,"\u0061":2})"), Error);
  CHECK_THROWS_AS(parse(R"([{"x":{"":1,"":1}}])"), Error);
  std::string many = "{";
  for (int i = 0; i < 5000; ++i) many += "\"k" + std::to_string(i) + "\":0,";
  CHECK_NOTHROW(parse(many + "\"last\":0}"));
  CHECK_THROWS_AS(parse(many + "\"k77\":0}"), Error);
  CHECK_THROWS_AS(parse(many + "\"\\u006b77\":0}"), Error);
}

TEST_CASE("json: nesting is bounded") {
  CHECK_NOTHROW(parse(nested(kJsonMaxDepth)));
  CHECK_THROWS_AS(parse(nested(kJsonMaxDepth + 1)), Error);
  CHECK_THROWS_AS(parse(std::string(1'000'000, '[')), Error);
  std::string objects;
  for (int i = 0; i < 1'000'000; ++i) objects += "{\"a\":";
  CHECK_THROWS_AS(parse(objects), Error);
}

TEST_CASE("json: numbers are taken only where they fit") {
  struct Row {
    const char* text;
    bool u64, i64, real;
  };
  const Row rows[] = {{"0", true, true, true},
                      {"18446744073709551615", true, false, true},
                      {"18446744073709551616", false, false, true},
                      {"9223372036854775807", true, true, true},
                      {"9223372036854775808", true, false, true},
                      {"-9223372036854775808", false, true, true},
                      {"-9223372036854775809", false, false, true},
                      {"-0", false, true, true},
                      {"-1", false, true, true},
                      {"1.0", false, false, true},
                      {"1e3", false, false, true},
                      {"1e999", false, false, false},
                      {"-1e999", false, false, false}};
  for (const Row& row : rows) {
    CASE(row.text);
    const JsonDocument document = parse(row.text);
    CHECK(document.root().try_u64().has_value() == row.u64);
    CHECK(document.root().try_i64().has_value() == row.i64);
    CHECK(document.root().try_double().has_value() == row.real);
  }
  check_error([] { parse("[0,1e99999]"); }, {"a finite number", "found 1e99999 at byte 3"});
  CHECK(parse("9007199254740993").root().as_u64() == 9007199254740993u);
  CHECK(parse("18446744073709551615").root().as_u64() == UINT64_MAX);
}

TEST_CASE("json: a value of the wrong kind is named with its position") {
  const JsonDocument document = parse(R"({"a":"text","b":[1,2]})");
  CHECK_THROWS_WITH_AS(document.root().at("a").as_u64(),
                       "x.json: expected a whole number from 0 to 2^64-1, found \"text\" at byte 6", Error);
  CHECK_THROWS_WITH_AS(document.root().at("b").as_string(), "x.json: expected a string, found an array of 2 at byte 16",
                       Error);
  CHECK_THROWS_AS(document.root().at("c"), Error);
  CHECK_THROWS_AS(document.root().elements(), Error);
  CHECK_THROWS_AS(document.root().at("a").members(), Error);
  CHECK_FALSE(document.root().at("a").find("x").has_value());
}

TEST_CASE("json: a file is read in chunks, with positions as of one text") {
  std::string text = "[";
  std::vector<size_t> positions;
  // Values and an escape lie across the edges of chunks of any size up to this one.
  while (text.size() < 300'000) {
    const size_t size = text.size() % 777;
    positions.push_back(text.size() + 1);
    text += "\"" + std::string(size, 'x') + "\\u00e9\",\n ";
    positions.push_back(text.size());
    text += std::to_string(text.size()) + " , ";
  }
  text += "null]";
  const TempDir directory;
  write_file(directory.path() + "/x.json", "12345678" + text);
  const File file = File::open(directory.path() + "/x.json");
  const JsonDocument document = JsonDocument::parse(JsonInput(file, 8, text.size()), {"x.json"});
  CHECK(document.root().size() == positions.size() + 1);
  size_t at = 0;
  for (const JsonValue value : document.root().elements()) {
    if (value.is_null()) break;
    REQUIRE(value.position() == positions[at++]);
    if (const auto number = value.try_u64()) REQUIRE(*number == value.position());
    if (const auto name = value.try_text()) REQUIRE(name->ends_with("é"));
  }
  CHECK(at == positions.size());
}

TEST_CASE("json: the text, a string and the held values are bounded") {
  check_error(
      [] {
        JsonDocument::parse("[1, 2]", {"x.json", "pack_invalid", 5});
      },
      {"x.json", "at most 5 bytes", "found 6"}, "pack_invalid");
  const auto quoted = [](size_t size) { return "[\"" + std::string(size, 'x') + "\"]"; };
  CHECK(parse(quoted(4'000'000)).root().size() == 1);
  check_error([&] { parse(quoted(5'000'000)); }, {"at most 4194304 bytes in a string", "byte 0"});
  check_error([&] { parse("[1," + std::string(5'000'000, '\n') + "2]"); }, {"in a string or between"});
  std::string many = "1";
  for (int i = 0; i < 2'000'000; ++i) many += ",1";
  const std::string says = "at most 16777216 bytes of values";
  check_error([&] { parse("[" + many + "]"); }, {says, "found more at byte"});
  check_error([&] { for_each_json_member("{\"a\":0,\"b\":[" + many + "]}", {"x"}, [](auto, auto) {}); },
              {says, "found more in \"b\""});
}

TEST_CASE("json: members of a large object are visited one by one") {
  std::string names;
  for_each_json_member(R"( {"a":[1,{"b":2}],"\u0063":"d"} )", {"x"},
                       [&](std::string key, JsonValue value) { names += key + ":" + value.describe() + " "; });
  CHECK(names == "a:an array of 2 c:\"d\" ");
  const auto ignore = [](std::string, JsonValue) {};
  for (const char* text : {"", "[]", "1", "{\"a\":1", "{\"a\":1,}", "{\"a\":1}x", "{1:1}", "{\"a\" 1}"}) {
    CASE(text);
    CHECK_THROWS_AS(for_each_json_member(text, {"x"}, ignore), Error);
  }
  CHECK_NOTHROW(for_each_json_member("{ }", {"x"}, ignore));
}

}  // namespace
