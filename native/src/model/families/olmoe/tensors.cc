#include "model/families/decoder_tensors.h"
#include "model/families/olmoe/olmoe.h"

namespace sida {

constexpr Family kOlmoe{"olmoe", read_olmoe_config, decoder_source, owns_decoder_tensor, &kOlmoeGguf};

}  // namespace sida
