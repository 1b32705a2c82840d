#include "engine/logit_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "core/profile.h"

namespace sida {
namespace {

constexpr size_t kMaxFloats = 2 << 20;

size_t rows_at_a_time(size_t vocab) {
  return std::clamp<size_t>(kMaxFloats / std::max<size_t>(vocab, 1), 1, kMaxLogitRows);
}

/// Picks −1 − t where the logit of token t is not finite, because an error would end the pass for the other sequences
/// too.
PickedToken pick(std::span<const float> logits, const Pick& wanted, std::span<RankedToken> top) {
  try {
    return pick_token(logits, wanted.sampling, top, wanted.adjustments, wanted.allowed);
  } catch (const Error& error) {
    if (error.code() != "nonfinite_output") throw;
    const auto token = static_cast<int32_t>(error.numbers().at("token"));
    std::fill(top.begin(), top.end(), RankedToken{-1, std::numeric_limits<double>::quiet_NaN()});
    return {-1 - token, std::numeric_limits<double>::quiet_NaN()};
  }
}

/// `tokens`: scratch memory.
void answer_queries(std::span<const float> logits, std::span<const TokenQuery> queries, std::vector<int32_t>& tokens,
                    std::span<double> out) {
  tokens.clear();
  for (const TokenQuery& query : queries) tokens.push_back(query.token);
  try {
    token_logprobs(logits, tokens, out);
  } catch (const Error& error) {
    if (error.code() != "nonfinite_output") throw;
    std::fill(out.begin(), out.end(), std::numeric_limits<double>::quiet_NaN());
  }
}

}  // namespace

uint64_t LogitRows::bytes(size_t vocab) { return rows_at_a_time(vocab) * vocab * sizeof(float); }

LogitRows::LogitRows(DeviceMemory& memory, DeviceKind device, size_t vocab)
    : vocab_(vocab), max_rows_(rows_at_a_time(vocab)) {
  if (device == DeviceKind::kCpu) {
    counted_ = DeviceBuffer(memory, bytes(vocab));
    logits_ = counted_.floats();
  } else {
    own_.resize(max_rows_ * vocab);
    logits_ = own_.data();
  }
}

void LogitRows::answer(Model& model, const Batch& batch, const BatchOutput& output) {
  rows_.clear();
  for (const Pick& each : batch.picks) rows_.push_back(each.row);
  for (const TokenQuery& query : batch.queries) rows_.push_back(query.row);
  if (output.logits != nullptr) rows_.insert(rows_.end(), batch.logit_rows.begin(), batch.logit_rows.end());
  std::sort(rows_.begin(), rows_.end());
  rows_.erase(std::unique(rows_.begin(), rows_.end()), rows_.end());
  next_pick_ = next_top_ = next_query_ = next_logits_ = 0;
  for (size_t begin = 0; begin < rows_.size(); begin += max_rows_) {
    const size_t count = std::min(max_rows_, rows_.size() - begin);
    chunk_.assign(rows_.begin() + static_cast<ptrdiff_t>(begin), rows_.begin() + static_cast<ptrdiff_t>(begin + count));
    model.logits(chunk_, logits_);
    answer_chunk(batch, output);
  }
}

void LogitRows::answer_chunk(const Batch& batch, const BatchOutput& output) {
  const ProfileScope scope(ProfileOp::kSample);
  for (size_t i = 0; i < chunk_.size(); ++i) {
    const std::span<const float> logits(logits_ + i * vocab_, vocab_);
    for (; next_pick_ < batch.picks.size() && batch.picks[next_pick_].row == chunk_[i]; ++next_pick_) {
      const Pick& wanted = batch.picks[next_pick_];
      output.picked[next_pick_] = pick(logits, wanted, output.top.subspan(next_top_, wanted.top));
      next_top_ += wanted.top;
    }
    const size_t first = next_query_;
    while (next_query_ < batch.queries.size() && batch.queries[next_query_].row == chunk_[i]) ++next_query_;
    if (const size_t count = next_query_ - first; count > 0) {
      answer_queries(logits, batch.queries.subspan(first, count), tokens_, output.query_logprobs.subspan(first, count));
    }
    while (output.logits != nullptr && next_logits_ < batch.logit_rows.size() &&
           batch.logit_rows[next_logits_] == chunk_[i]) {
      std::memcpy(output.logits + next_logits_++ * vocab_, logits.data(), logits.size_bytes());
    }
  }
}

}  // namespace sida
