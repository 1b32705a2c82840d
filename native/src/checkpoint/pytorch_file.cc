#include "checkpoint/pytorch_file.h"

#include <filesystem>
#include <map>
#include <optional>
#include <string_view>

#include "checkpoint/model_file.h"
#include "checkpoint/tensor_pickle.h"
#include "checkpoint/zip_entries.h"
#include "core/checkpoint_error.h"

namespace sida {
namespace {

constexpr uint64_t kMaxPickleBytes = 32 << 20;
constexpr std::string_view kPickle = "/data.pkl";

std::string read_entry(const File& file, const ZipEntry& entry) {
  std::string bytes(entry.bytes, '\0');
  file.pread_exact(entry.offset, bytes.data(), bytes.size());
  return bytes;
}

}  // namespace

PytorchFile PytorchFile::open(const std::string& path) {
  const std::filesystem::path parts(path);
  const std::string directory = parts.has_parent_path() ? parts.parent_path().string() : ".";
  PytorchFile result(open_model_file(directory, parts.filename().string()), path);
  result.read_tensors();
  return result;
}

void PytorchFile::read_tensors() {
  const auto fault = [&](std::string_view tensor, const std::string& what, const std::string& expected,
                         const std::string& found) {
    return checkpoint_error({display_, tensor, what, expected, found, "", {}});
  };
  std::map<std::string, ZipEntry> entries;
  std::optional<std::string> folder;
  for (ZipEntry& entry : read_zip_entries(file_, display_)) {
    const std::string name = entry.name;
    if (name.ends_with(kPickle)) {
      if (folder) throw fault("", "zip entry \"" + escape_text(name) + "\"", "one pickle", "two");
      folder = name.substr(0, name.size() - kPickle.size());
    }
    if (!entries.emplace(name, std::move(entry)).second) {
      throw fault("", "zip entry \"" + escape_text(name) + "\"", "one", "two");
    }
  }
  if (!folder) throw fault("", "no pickle", "a zip entry data.pkl", "none");
  const std::string& root = *folder;
  const auto pickle = entries.find(root + std::string(kPickle));
  if (pickle->second.bytes > kMaxPickleBytes) {
    throw fault("", "pickle too long", "at most " + std::to_string(kMaxPickleBytes) + " bytes",
                std::to_string(pickle->second.bytes));
  }
  const auto order = entries.find(root + "/byteorder");
  if (order != entries.end() && (order->second.bytes != 6 || read_entry(file_, order->second) != "little")) {
    throw fault("", "byte order", "little", "another");
  }
  const std::string bytes = read_entry(file_, pickle->second);
  for (PickledTensor& tensor : read_tensor_pickle(bytes, pickle->second.offset, display_)) {
    const auto storage = entries.find(root + "/data/" + std::string(tensor.storage));
    if (storage == entries.end()) {
      throw fault(tensor.name, "storage", "a zip entry data/" + escape_text(tensor.storage), "none");
    }
    const uint64_t element = dtype_block(tensor.dtype).bytes, held = storage->second.bytes;
    if (held % element != 0 || held / element != tensor.storage_elements) {
      throw fault(tensor.name, "storage \"" + escape_text(tensor.storage) + "\"",
                  std::to_string(tensor.storage_elements) + " numbers of " + std::to_string(element) + " bytes",
                  std::to_string(held) + " bytes");
    }
    TensorInfo info{std::move(tensor.name),
                    tensor.dtype,
                    std::move(tensor.shape),
                    storage->second.offset + tensor.first * element,
                    0,
                    0};
    info.bytes = info.elements() * element;
    tensors_.push_back(std::move(info));
  }
}

}  // namespace sida
