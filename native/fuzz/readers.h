// The readers of files from outside. Each is given one text or file of any bytes. A reader may refuse it with a typed
// error of one short line. It may not crash, or accept data that is not in the file. Used by the fuzzers and by the
// test that replays their corpora.
#pragma once

#include <string_view>

namespace sida::fuzzing {

/// A safetensors file.
void read_safetensors(std::string_view bytes);
/// A file of torch.save.
void read_pytorch(std::string_view bytes);
/// A GGUF file, and the config of its model.
void read_gguf(std::string_view bytes);
/// A model.safetensors.index.json beside two shards.
void read_index(std::string_view bytes);
/// A config.json, and the layout of a pack of such a model.
void read_config(std::string_view bytes);
/// A pack's manifest.json beside a sound config.json.
void read_manifest(std::string_view bytes);
/// The dense and expert weights of a small pack, whose model is opened and run. The first byte chooses the element
/// types and whether the files are cut to the bytes given.
void read_weights(std::string_view bytes);
/// A predictor.json without weights.
void read_predictor(std::string_view bytes);

struct Reader {
  const char* name;  ///< of its fuzzer and of its archive in native/fuzz/corpus
  void (*read)(std::string_view bytes);
};

inline constexpr Reader kReaders[] = {
    {"safetensors", read_safetensors},
    {"pytorch", read_pytorch},
    {"gguf", read_gguf},
    {"index", read_index},
    {"config", read_config},
    {"manifest", read_manifest},
    {"weights", read_weights},
    {"predictor", read_predictor},
};

}  // namespace sida::fuzzing
