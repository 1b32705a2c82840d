// Checkpoints of several shards: what an index may say, and which links are followed.
#include "checkpoint/checkpoint_index.h"

#include <sys/stat.h>

#include "support/checkpoint_directory.h"

namespace {

namespace fs = std::filesystem;

TEST_CASE("checkpoint: shards are opened through their index") {
  const CheckpointDirectory model;
  const std::vector<BuiltTensor> tensors = tiny_tensors();
  const auto middle = tensors.begin() + 9;
  model.write_tensors({tensors.begin(), middle}, "s1.safetensors");
  model.write_tensors({middle, tensors.end()}, "s2.safetensors");
  std::string map;
  uint64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    map += (i == 0 ? "\"" : ",\"") + tensors[i].name + "\":\"" + (i < 9 ? "s1" : "s2") + ".safetensors\"";
    bytes += tensors[i].data.size();
  }
  const std::string total = std::to_string(bytes);
  model.write_index(map, "{\"total_size\":" + total + "}");
  const Checkpoint checkpoint = model.open();
  CHECK(checkpoint.files().size() == 2);
  CHECK(checkpoint.tensor_count() == tensors.size());
  CHECK(checkpoint.total_bytes() == bytes);
  CHECK_NOTHROW(checkpoint.check_tensors());
  CHECK(checkpoint.find(tensors.back().name)->file == 1);

  model.write_index(map, "{}");
  CHECK_NOTHROW(model.open());
  // Published indexes have totals of other element types. Each tensor's size is checked by itself.
  for (const char* other : {"7", "1.5e12", "\"7\""}) {
    model.write_index(map, std::string("{\"total_size\":") + other + "}");
    CHECK(model.open().total_bytes() == bytes);
  }
}

TEST_CASE("checkpoint: an index that contradicts its shards is refused") {
  const std::string a = "\"a\":\"s1.safetensors\"";
  struct Row {
    const char* what;
    std::string map;
    std::vector<std::string> parts;
  };
  const Row rows[] = {
      {"parent directory", R"("a":"../s1.safetensors")", {"bad file name", "\"../s1.safetensors\""}},
      {"dot dot", R"("a":"..")", {"bad file name"}},
      {"absolute", R"("a":"/etc/passwd")", {"bad file name", "/etc/passwd"}},
      {"URL", R"("a":"https://x.y/s1.safetensors")", {"bad file name", "https:"}},
      {"backslash", R"("a":"..\\s1.safetensors")", {"bad file name"}},
      {"NUL", R"("a":"s1.safetensors\u0000x")", {"bad file name", "\\u0000"}},
      {"empty", R"("a":"")", {"bad file name"}},
      {"4 KiB name", "\"a\":\"" + std::string(4096, 's') + "\"", {"bad file name"}},
      {"not a string", R"("a":1)", {"tensor \"a\"", "a file name", "found 1"}},
      {"link out of the directory", R"("a":"out.safetensors")", {"link out", "out.safetensors"}},
      {"link in a circle", R"("a":"circle.safetensors")", {"cannot follow", "circle.safetensors"}},
      {"missing shard", a + R"(,"b":"s9.safetensors")", {"tensor \"b\"", "missing shard", "s9.safetensors"}},
      {"dangling link", R"("a":"dangling.safetensors")", {"missing shard", "dangling.safetensors"}},
      {"tensor in two shards", a + R"(,"b":"s2.safetensors")", {"tensor \"a\"", "s2.safetensors"}},
      {"tensor that its shard lacks", a + R"(,"c":"s1.safetensors")", {"tensor \"c\"", "not in its shard"}},
      {"tensor that the index lacks", R"("b":"s2.safetensors")", {"tensor \"a\"", "does not give it"}},
      {"one shard by two names", a + R"(,"x":"same.safetensors")", {"two names for one shard"}},
      {"tensor named twice", a + "," + a, {"\"a\" twice"}},
      {"empty", "", {"empty", "at least one tensor"}},
  };
  const TempDir outside;
  write_file(outside.path() + "/o.safetensors", build_safetensors({zeros("a", {1})}));
  const CheckpointDirectory model;
  model.write_tensors({zeros("a", {1})}, "s1.safetensors");
  model.write_tensors({zeros("a", {1}), zeros("b", {1})}, "s2.safetensors");
  fs::create_symlink(outside.path() + "/o.safetensors", model.at("out.safetensors"));
  fs::create_symlink("circle.safetensors", model.at("circle.safetensors"));
  fs::create_symlink("nothing", model.at("dangling.safetensors"));
  fs::create_symlink("s1.safetensors", model.at("same.safetensors"));
  for (const Row& row : rows) {
    CASE(row.what);
    model.write_index(row.map);
    check_error([&] { model.open(); }, row.parts);
  }
  fs::create_directory(model.at("d.safetensors"));
  model.write_index(R"("a":"d.safetensors")");
  check_error([&] { model.open(); }, {"d.safetensors", "a regular file", "a directory"});
  REQUIRE(::mkfifo(model.at("f.safetensors").c_str(), 0600) == 0);
  model.write_index(R"("a":"f.safetensors")");
  check_error([&] { model.open(); }, {"f.safetensors", "a regular file"});
  for (const char* text : {"[]", "{}", "{\"weight_map\":[]}", "{\"weight_map\":"}) {
    model.write("model.safetensors.index.json", text);
    error_of([&] { model.open(); });
  }
  std::string many = "\"0\":\"s\"";
  for (int i = 1; i < 2'000'000; ++i) many += ",\"" + std::to_string(i) + "\":\"s\"";
  model.write_index(many);
  check_error([&] { model.open(); }, {"at most 41943040 bytes of values"});
  model.write("model.safetensors.index.json", std::string(65 << 20, ' '));
  check_error([&] { model.open(); }, {"at most 67108864 bytes", "found 68157440"});
  model.write_index(a);
  CHECK_NOTHROW(model.open());
}

TEST_CASE("checkpoint: links of the Hugging Face cache are followed, others are not") {
  const TempDir cache;
  const std::string snapshot = cache.path() + "/snapshots/abc";
  fs::create_directories(snapshot);
  fs::create_directories(cache.path() + "/blobs");
  write_file(cache.path() + "/blobs/1", tiny_config());
  write_file(cache.path() + "/blobs/2", build_safetensors(tiny_tensors()));
  fs::create_symlink("../../blobs/1", snapshot + "/config.json");
  fs::create_symlink("../../blobs/2", snapshot + "/model.safetensors");
  CHECK_NOTHROW(Checkpoint::open(snapshot).check_tensors());
  const std::string folder = snapshot + "/of/it";
  fs::create_directories(folder);
  fs::create_symlink("../../../../blobs/1", folder + "/config.json");
  fs::create_symlink("../../../../blobs/2", folder + "/model.safetensors");
  CHECK_NOTHROW(Checkpoint::open(folder).check_tensors());
  fs::remove(snapshot + "/config.json");
  write_file(cache.path() + "/config.json", tiny_config());
  fs::create_symlink("../../config.json", snapshot + "/config.json");
  check_error([&] { Checkpoint::open(snapshot); }, {"link out"});
}

}  // namespace
