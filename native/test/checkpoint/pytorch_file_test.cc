// Files of torch.save: read without running anything, and everything else refused in one line.
#include "checkpoint/pytorch_file.h"

#include "support/checkpoint_directory.h"
#include "support/pytorch_builder.h"

namespace {

constexpr const char* kName = "pytorch_model.bin";

/// A bf16 and an f16 among f32.
Tensors numbered() {
  Tensors tensors = tiny_tensors();
  float from = 0;
  for (BuiltTensor& tensor : tensors) count_up(tensor, from += 1000);
  for (const auto& [at, dtype] : {std::pair{1, "BF16"}, {2, "F16"}}) {
    tensors[at].dtype = dtype;
    tensors[at].data.resize(tensors[at].data.size() / 2);
  }
  return tensors;
}

void check_same(const Checkpoint& found, const Checkpoint& expected) {
  REQUIRE(found.tensor_count() == expected.tensor_count());
  for (const TensorInfo& tensor : expected.tensors()) {
    CASE(tensor.name);
    const TensorInfo& own = found.require(tensor.name, tensor.shape);
    CHECK(own.dtype == tensor.dtype);
    std::vector<float> a(tensor.elements()), b(tensor.elements());
    expected.read_f32(tensor, a.data());
    found.read_f32(own, b.data());
    CHECK(same_bits(a, b));
  }
}

TEST_CASE("pytorch: a state dict has the tensors of the same safetensors, also in zip64") {
  const CheckpointDirectory safe, pickled;
  safe.write_tensors(numbered());
  for (const bool wide : kBoth) {
    CASE(wide);
    pickled.write(kName, build_pytorch(numbered(), {}, wide));
    const Checkpoint checkpoint = pickled.open();
    checkpoint.check_tensors();
    check_same(checkpoint, safe.open());
  }
}

TEST_CASE("pytorch: tensors may share data") {
  const CheckpointDirectory model;
  const Tensors tensors = numbered();
  model.write(kName, build_pytorch(tensors, {{"lm_head.weight", tensors[0].name}}));
  const Checkpoint checkpoint = model.open();
  const TensorInfo& own = checkpoint.require(tensors[0].name, tensors[0].shape);
  CHECK(checkpoint.require("lm_head.weight", tensors[0].shape).offset == own.offset);
  CHECK(own.offset % 64 == 0);
}

TEST_CASE("pytorch: what torch.save writes is read") {
  const PytorchFile file = PytorchFile::open(repo() + "/test/fixtures/pytorch/state_dict.bin");
  std::string found;
  for (const TensorInfo& tensor : file.tensors()) {
    found += tensor.name + " " + dtype_name(tensor.dtype) + " " + shape_text(tensor.shape) + "\n";
  }
  CHECK(found ==
        "shared.weight F32 [6, 4]\nlm_head.weight F32 [6, 4]\nhalf F32 [2, 1, 4]\nnarrow BF16 [300]\nf16 F16 [2]\n"
        "count I64 []\n");
  CHECK(file.tensors()[1].offset == file.tensors()[0].offset);
  float number;
  file.file().pread_exact(file.tensors()[2].offset, &number, sizeof number);
  CHECK(number == 4);
}

TEST_CASE("pytorch: shards are opened through their index, whatever its total size; safetensors come first") {
  const CheckpointDirectory model, whole;
  const Tensors tensors = numbered();
  const auto middle = tensors.begin() + 9;
  model.write("p1.bin", build_pytorch({tensors.begin(), middle}));
  model.write("p2.bin", build_pytorch({middle, tensors.end()}));
  std::string map;
  for (size_t i = 0; i < tensors.size(); ++i) {
    map += (i == 0 ? "\"" : ",\"") + tensors[i].name + "\":\"" + (i < 9 ? "p1" : "p2") + ".bin\"";
  }
  model.write("pytorch_model.bin.index.json", R"({"metadata":{"total_size":7},"weight_map":{)" + map + "}}");
  whole.write_tensors(tensors);
  check_same(model.open(), whole.open());
  CHECK(model.open().files().size() == 2);
  model.write_tensors(tiny_tensors());
  CHECK(model.open().files().size() == 1);
}

/// A file with one tensor `t` of four f32, whose pickle and storage `edit` may change.
struct One {
  std::string type = "FloatStorage", key = "0";
  uint64_t elements = 4, first = 0;
  std::vector<uint64_t> shape{2, 2}, strides{2, 1};
  std::string storage = std::string(16, 'x');

  std::string bytes() const {
    PickleWriter pickle;
    pickle.op("\x80\x02}").put().op("(").text("t").tensor(type, key, elements, first, shape, strides).op("u.");
    return build_zip(pytorch_entries(pickle.bytes, {storage}));
  }
};

std::string of_pickle(const std::string& pickle) { return build_zip(pytorch_entries(pickle, {std::string(16, 'x')})); }

/// A literal, which may hold NULs.
template <size_t kSize>
std::string of_pickle(const char (&pickle)[kSize]) {
  return of_pickle(std::string(pickle, kSize - 1));
}

std::string of_entry(const std::function<void(std::vector<BuiltEntry>&)>& edit) {
  PickleWriter pickle;
  pickle.op("\x80\x02}").put().text("t").tensor("FloatStorage", "0", 4, 0, {4}, {1}).op("s.");
  auto entries = pytorch_entries(pickle.bytes, {std::string(16, 'x')});
  edit(entries);
  return build_zip(entries);
}

struct BadPytorch {
  const char* what;
  std::string bytes;
  std::vector<std::string> parts;
};

/// One tensor, from the memo, under more names than a state dict may have.
std::string many_names() {
  PickleWriter pickle;
  pickle.op("\x80\x02}(").text("t").tensor("FloatStorage", "0", 4, 0, {4}, {1});
  const std::string tensor = "j" + little(pickle.last_memo(), 4);
  for (int i = 0; i < 262144; ++i) {
    const std::string name = std::to_string(i);
    pickle.op("X" + little(name.size(), 4) + name + tensor);
  }
  return pickle.op("u.").bytes;
}

std::vector<BadPytorch> bad_pytorch_files() {
  const std::string global = "a global of a state dict of tensors", op = "an opcode of a state dict of tensors";
  std::string twice = of_entry([](auto& entries) { entries.push_back(entries[2]); });
  std::string overlapping = of_entry([](auto&) {});
  const std::string two_pickles = of_entry([](auto& entries) {
    entries.push_back(entries[0]);
    entries.back().name = "other/data.pkl";
  });
  // The second entry of the directory is where the first one is.
  const size_t second = overlapping.find("PK\1\2", overlapping.find("PK\1\2") + 1);
  overlapping.replace(second + 42, 4, little(0, 4));
  // clang-format off
  return {
      {"not a zip archive", std::string(100, 'x'), {"no zip archive", "PyTorch 1.6", "convert it"}},
      {"nothing", "", {"no zip archive"}},
      {"cut", One().bytes().substr(0, One().bytes().size() - 1), {"the end record of a zip archive"}},
      {"calls os.system", of_pickle("\x80\x02" "cos\nsystem\nX\4\0\0\0true\x85R."), {global, "\"os system\""}},
      {"calls eval", of_pickle("\x80\x02" "c__builtin__\neval\n."), {global, "\"__builtin__ eval\""}},
      {"INST", of_pickle("\x80\x02(ios\nsystem\n."), {op, "0x69", "nothing is executed"}},
      {"STACK_GLOBAL", of_pickle("\x80\x02\x93."), {op, "0x93"}},
      {"NEWOBJ", of_pickle("\x80\x02\x81."), {op, "0x81"}},
      {"protocol 4", of_pickle("\x80\x04."), {"protocol 2", "found 4"}},
      {"a list", of_pickle("\x80\x02]."), {op, "0x5d"}},
      {"no stop", of_pickle("\x80\x02}"), {"1 bytes", "the end of the pickle"}},
      {"bytes behind", of_pickle("\x80\x02}.}"), {"the end of the pickle", "1 more bytes"}},
      {"two values", of_pickle("\x80\x02}}."), {"one value", "found 2"}},
      {"a mark left", of_pickle("\x80\x02}(."), {"one value"}},
      {"an empty stack", of_pickle("\x80\x02R."), {"1 values before it", "found 0"}},
      {"below a mark", of_pickle("\x80\x02}(R."), {"1 values before it", "found 0"}},
      {"no mark", of_pickle("\x80\x02}u."), {"a mark before it"}},
      {"a key alone", of_pickle("\x80\x02}(X\1\0\0\0au."), {"a value for each key"}},
      {"an unknown memo", of_pickle("\x80\x02h\1."), {"one of 0 memos", "found 1"}},
      {"a memo far away", of_pickle("\x80\x02}r\xff\xff\xff\x7f."), {"memo 0", "2147483647"}},
      {"a long text", of_pickle("\x80\x02X\xff\xff\xff\xff."), {"4294967295 bytes"}},
      {"an unending line", of_pickle("\x80\x02" "ccollections"), {"a line"}},
      {"a tuple at the top", of_pickle("\x80\x02)."), {"a dict", "found a tuple"}},
      {"a value that is no tensor", of_pickle("\x80\x02}X\1\0\0\0aK\1s."), {"tensor \"a\"", "not a tensor", "an integer"}},
      {"a key that is no text", of_pickle("\x80\x02}K\1K\1s."), {"a text", "an integer"}},
      {"calls a storage type", of_pickle("\x80\x02" "ctorch\nFloatStorage\n)R."), {"a function", "a type"}},
      {"a long integer", of_pickle("\x80\x02\x8a\x09" "123456789."), {"at most 8 bytes", "found 9"}},
      {"an unknown storage type", One{"QUInt8Storage"}.bytes(), {global, "\"torch QUInt8Storage\""}},
      {"a tensor under too many names", of_pickle(many_names()), {"at most 262144 tensors", "more"}},
      {"no such storage", One{"FloatStorage", "9"}.bytes(), {"tensor \"t\"", "data/9", "none"}},
      {"a storage with more elements", One{"FloatStorage", "0", 5}.bytes(), {"storage \"0\"", "5 numbers of 4 bytes", "16 bytes"}},
      {"a storage of wider elements", One{"DoubleStorage"}.bytes(), {"4 numbers of 8 bytes", "16 bytes"}},
      {"a tensor past its storage", One{"FloatStorage", "0", 4, 1}.bytes(), {"a storage of 4", "4 from element 1"}},
      {"a larger shape", One{"FloatStorage", "0", 4, 0, {1 << 30, 1 << 30}}.bytes(), {"4 elements", "a larger shape"}},
      {"a transposed tensor", One{"FloatStorage", "0", 4, 0, {2, 2}, {1, 2}}.bytes(), {"a contiguous tensor"}},
      {"too few strides", One{"FloatStorage", "0", 4, 0, {2, 2}, {1}}.bytes(), {"2 strides", "found 1"}},
      {"nine dimensions", One{"FloatStorage", "0", 4, 0, std::vector<uint64_t>(9, 1), std::vector<uint64_t>(9, 1)}.bytes(),
       {"at most 8 dimensions", "found 9"}},
      {"no pickle", of_entry([](auto& entries) { entries[0].name = "x"; }), {"data.pkl"}},
      {"big-endian", of_entry([](auto& entries) { entries[1].data = "big"; }), {"byte order"}},
      {"compressed", of_entry([](auto& entries) { entries[2].method = 8; }), {"no compressed zip entry", "archive/data/0"}},
      {"encrypted", of_entry([](auto& entries) { entries[2].flags = 1; }), {"no encrypted zip entry"}},
      {"two entries of a name", twice, {"archive/data/0", "found two"}},
      {"two pickles", two_pickles, {"other/data.pkl", "one pickle", "found two"}},
      {"a comment", One().bytes() + "x", {"the end record of a zip archive"}},
      {"entries over each other", overlapping, {"the end of the entry before"}},
  };
  // clang-format on
}

TEST_CASE("pytorch: refuses a bad file in one line that names it") {
  const CheckpointDirectory model;
  model.write(kName, One().bytes());
  CHECK(PytorchFile::open(model.at(kName)).tensors().size() == 1);
  for (const BadPytorch& bad : bad_pytorch_files()) {
    CASE(bad.what);
    model.write(kName, bad.bytes);
    const std::string message = error_of([&] { PytorchFile::open(model.at(kName)); });
    CHECK(message.find(model.at(kName) + ": ") == 0);
    CHECK(message.find('\n') == std::string::npos);
    check_has(message, bad.parts);
  }
}

TEST_CASE("pytorch: no mutation of a file crashes the reader, and none is accepted with data outside of the file") {
  const CheckpointDirectory model;
  std::mt19937 random(20261128);
  const std::string good = build_pytorch({zeros("a", {2, 3}), zeros("b", {5}), zeros("c", {1, 1, 2})}, {{"d", "a"}});
  int accepted = 0, refused = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string bytes = good;
    const int edits = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < edits; ++i) {
      const size_t at = random() % (bytes.size() + 1);
      switch (random() % 4) {
        case 0:
          if (at < bytes.size()) bytes[at] = static_cast<char>(random());
          break;
        case 1:
          if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
          break;
        case 2:
          if (random() % 4 == 0) bytes.resize(at);
          break;
        default:
          bytes.insert(at, 1, "\x80(c.KMJX\x8atuQRbqh\x89}"[random() % 18]);
      }
    }
    model.write(kName, bytes);
    try {
      const PytorchFile file = PytorchFile::open(model.at(kName));
      ++accepted;
      for (const TensorInfo& tensor : file.tensors()) {
        REQUIRE(tensor.bytes == tensor.elements() * dtype_block(tensor.dtype).bytes);
        REQUIRE(tensor.offset <= bytes.size());
        REQUIRE(tensor.bytes <= bytes.size() - tensor.offset);
      }
    } catch (const Error& error) {
      ++refused;
      REQUIRE(error.code() == "checkpoint_invalid");
    }
  }
  CHECK(accepted > 50);
  CHECK(refused > 500);
}

}  // namespace
