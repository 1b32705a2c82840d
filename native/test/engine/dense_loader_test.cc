// Dense weights of many chunks arrive where the layout has them, on each device.
#include "engine/dense_loader.h"

#include "spec/model_config.h"
#include "support/devices.h"

namespace {

constexpr const char* kConfig = R"({"model_type":"switch_transformers","d_model":256,"d_kv":32,"num_heads":8,"d_ff":512,
  "vocab_size":50000,"num_layers":4,"num_decoder_layers":4,"num_experts":8})";

/// A dense file of some chunks whose bytes differ from place to place.
struct RandomDense {
  TempDir directory;
  Pack pack = describe_pack(directory.path(), parse_model_config(kConfig, "config.json").spec, kF32Format, kF32Format);
  std::vector<char> bytes = std::vector<char>(pack.dense.bytes);

  RandomDense() {
    uint32_t word = 1;
    for (char& byte : bytes) byte = static_cast<char>((word = word * 1664525 + 1013904223) >> 24);
    write(bytes.size());
  }
  void write(size_t count) const {
    std::ofstream(pack.dense_path(), std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(count));
  }
};

void check_loaded(const RandomDense& file, const DenseLayout& layout, DeviceKind kind) {
  const auto backend = make_backend(kind);
  DeviceMemory memory(*backend, uint64_t{1} << 30);
  const DeviceBuffer dense = load_dense(memory, file.pack, layout);
  auto source = file.pack.dense.tensors.begin();
  size_t different = 0;
  for (const DenseTensor& tensor : layout.tensors) {
    while (source->name != tensor.name) ++source;
    different += std::memcmp(dense.data() + tensor.offset, file.bytes.data() + source->offset, tensor.bytes) != 0;
  }
  CHECK(different == 0);
}

TEST_CASE("dense loader: every tensor has its bytes, with routers and without") {
  const RandomDense file;
  REQUIRE(file.bytes.size() > size_t{40} << 20);
  for (const DeviceKind kind : devices()) {
    // The memory of a GPU cannot be compared from here.
    if (kind == DeviceKind::kCuda && !emulated(kind)) continue;
    CASE(device_name(kind));
    check_loaded(file, file.pack.dense, kind);
    check_loaded(file, without_routers(file.pack.dense), kind);
  }
}

/// The cpu backend, whose writers fail after some sends.
class FailingBackend final : public Backend {
 public:
  const char* name() const override { return cpu_->name(); }
  std::byte* allocate(size_t bytes, Touch touch) override { return cpu_->allocate(bytes, touch); }
  void deallocate(std::byte* memory, size_t bytes) override { cpu_->deallocate(memory, bytes); }
  void clear(std::byte* memory, size_t bytes) override { cpu_->clear(memory, bytes); }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override { cpu_->copy(to, from, bytes); }
  std::unique_ptr<DeviceWriter> writer() override { return std::make_unique<Writer>(sends_); }
  size_t copies_in_flight() const override { return cpu_->copies_in_flight(); }
  void filled(std::byte* slot) override { cpu_->filled(slot); }
  std::unique_ptr<Backend> host_memory() override { return cpu_->host_memory(); }

  int sends() const { return sends_; }

 private:
  class Writer final : public DeviceWriter {
   public:
    explicit Writer(std::atomic<int>& sends) : sends_(sends) {}
    void begin(size_t) override {}
    std::byte* buffer_for(std::byte* target, size_t) override { return target; }
    void send(std::byte*, const std::byte*, size_t) override {
      if (++sends_ > 2) throw Error("device_failed", "no more");
    }
    void finish() override {}

   private:
    std::atomic<int>& sends_;
  };

  std::unique_ptr<Backend> cpu_ = make_cpu_backend();
  std::atomic<int> sends_{0};
};

TEST_CASE("dense loader: a reader that fails ends all of them, and nothing stays allocated") {
  const RandomDense file;
  FailingBackend backend;
  DeviceMemory memory(backend, uint64_t{1} << 30);
  CHECK_THROWS_WITH_AS(load_dense(memory, file.pack, file.pack.dense), "no more", Error);
  CHECK(memory.used() == 0);
  // Each reader has at most one chunk in hand when the first fails.
  CHECK(backend.sends() <= 2 + 4);
}

TEST_CASE("dense loader: a file that is too short is refused, and nothing stays allocated") {
  const RandomDense file;
  file.write(file.bytes.size() - 1);
  const auto backend = make_backend(DeviceKind::kCpu);
  DeviceMemory memory(*backend, uint64_t{1} << 30);
  CHECK_THROWS_AS(load_dense(memory, file.pack, file.pack.dense), Error);
  CHECK(memory.used() == 0);
}

}  // namespace
