#pragma once

#include <map>

#include "support/safetensors_builder.h"

namespace sida::testing {

inline std::string little(uint64_t value, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

struct BuiltEntry {
  std::string name, data;
  uint16_t flags = 0, method = 0;
};

/// A zip archive as torch.save writes it: stored entries whose data begins at multiples of 64 bytes. `wide` writes
/// sizes and places in the fields of zip64.
inline std::string build_zip(const std::vector<BuiltEntry>& entries, bool wide = false) {
  std::string bytes, directory;
  for (const auto& [name, data, flags, method] : entries) {
    const size_t begin = bytes.size(), before = begin + 30 + name.size() + 4;
    const std::string padding((64 - before % 64) % 64, 'Z'), extra = "FB" + little(padding.size(), 2) + padding;
    const std::string head = little(flags, 2) + little(method, 2) + little(0, 8);
    bytes += "PK\3\4" + little(0, 2) + head + little(data.size(), 4) + little(data.size(), 4) + little(name.size(), 2) +
             little(extra.size(), 2) + name + extra + data;
    const std::string zip64 =
        little(1, 2) + little(24, 2) + little(data.size(), 8) + little(data.size(), 8) + little(begin, 8);
    const uint64_t narrow = wide ? 0xffffffff : data.size();
    directory += "PK\1\2" + little(0, 4) + head + little(narrow, 4) + little(narrow, 4) + little(name.size(), 2) +
                 little(wide ? zip64.size() : 0, 2) + little(0, 10) + little(wide ? 0xffffffff : begin, 4) + name +
                 (wide ? zip64 : "");
  }
  const size_t begin = bytes.size(), end64 = begin + directory.size();
  bytes += directory;
  if (wide) {
    bytes += "PK\6\6" + little(44, 8) + little(0, 12) + little(entries.size(), 8) + little(entries.size(), 8) +
             little(directory.size(), 8) + little(begin, 8);
    bytes += "PK\6\7" + little(0, 4) + little(end64, 8) + little(1, 4);
  }
  const uint64_t count = wide ? 0xffff : entries.size();
  return bytes + "PK\5\6" + little(0, 4) + little(count, 2) + little(count, 2) +
         little(wide ? 0xffffffff : directory.size(), 4) + little(wide ? 0xffffffff : begin, 4) + little(0, 2);
}

/// Writes the opcodes that Python's pickler writes for torch.save, protocol 2.
class PickleWriter {
 public:
  std::string bytes;

  PickleWriter& op(const std::string& code) {
    bytes += code;
    return *this;
  }
  PickleWriter& put() {
    const size_t place = memos_++;
    return op(place < 256 ? "q" + little(place, 1) : "r" + little(place, 4));
  }
  size_t last_memo() const { return memos_ - 1; }
  PickleWriter& text(const std::string& value) { return once("text " + value, "X" + little(value.size(), 4) + value); }
  PickleWriter& global(const std::string& module, const std::string& name) {
    return once(module + " " + name, "c" + module + "\n" + name + "\n");
  }
  PickleWriter& integer(uint64_t value) {
    if (value < 256) return op("K" + little(value, 1));
    if (value < 65536) return op("M" + little(value, 2));
    if (value < uint64_t{1} << 31) return op("J" + little(value, 4));
    return op("\x8a\x05" + little(value, 5));
  }
  PickleWriter& integers(const std::vector<uint64_t>& values) {
    if (values.empty()) return op(")");
    if (values.size() > 3) op("(");
    for (const uint64_t value : values) integer(value);
    return op(values.size() > 3 ? "t" : std::string(1, static_cast<char>(0x84 + values.size()))).put();
  }
  PickleWriter& ordered_dict() { return global("collections", "OrderedDict").op(")R").put(); }
  PickleWriter& storage(const std::string& type, const std::string& key, uint64_t elements) {
    op("(").text("storage").global("torch", type).text(key).text("cpu").integer(elements);
    return op("t").put().op("Q");
  }
  PickleWriter& tensor(const std::string& type, const std::string& key, uint64_t elements, uint64_t first,
                       const std::vector<uint64_t>& shape, const std::vector<uint64_t>& strides) {
    global("torch._utils", "_rebuild_tensor_v2").op("(").storage(type, key, elements).integer(first);
    return integers(shape).integers(strides).op("\x89").ordered_dict().op("t").put().op("R").put();
  }

 private:
  PickleWriter& once(const std::string& what, const std::string& code) {
    const auto [found, added] = places_.emplace(what, memos_);
    if (added) return op(code).put();
    return op(found->second < 256 ? "h" + little(found->second, 1) : "j" + little(found->second, 4));
  }

  size_t memos_ = 0;
  std::map<std::string, size_t> places_;
};

inline std::vector<uint64_t> strides_of(const std::vector<uint64_t>& shape) {
  std::vector<uint64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

inline std::vector<BuiltEntry> pytorch_entries(const std::string& pickle, const std::vector<std::string>& storages) {
  std::vector<BuiltEntry> entries{{"archive/data.pkl", pickle}, {"archive/byteorder", "little"}};
  for (size_t i = 0; i < storages.size(); ++i) entries.push_back({"archive/data/" + std::to_string(i), storages[i]});
  entries.push_back({"archive/version", "3\n"});
  return entries;
}

/// What torch.save writes of the state dict of a module. Each pair of `shared` names a tensor, and another whose data
/// it shares.
inline std::string build_pytorch(const std::vector<BuiltTensor>& tensors,
                                 const std::vector<std::pair<std::string, std::string>>& shared = {},
                                 bool wide = false) {
  const std::map<std::string, std::string> types{
      {"F32", "FloatStorage"}, {"F16", "HalfStorage"}, {"BF16", "BFloat16Storage"}, {"I64", "LongStorage"}};
  PickleWriter pickle;
  pickle.op("\x80\x02").ordered_dict().op("(");
  std::vector<std::string> storages;
  const auto write = [&](const std::string& name, const BuiltTensor& tensor, size_t storage) {
    uint64_t elements = 1;
    for (const uint64_t d : tensor.shape) elements *= d;
    pickle.text(name).tensor(types.at(tensor.dtype), std::to_string(storage), elements, 0, tensor.shape,
                             strides_of(tensor.shape));
  };
  for (const BuiltTensor& tensor : tensors) {
    write(tensor.name, tensor, storages.size());
    for (const auto& [name, other] : shared) {
      if (other == tensor.name) write(name, tensor, storages.size());
    }
    storages.push_back(tensor.data);
  }
  pickle.op("u}").put().text("_metadata").ordered_dict().op("(").text("").op("}").put().text("version").op("K\1sus");
  return build_zip(pytorch_entries(pickle.op("b.").bytes, storages), wide);
}

}  // namespace sida::testing
