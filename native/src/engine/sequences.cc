#include "engine/sequences.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"
#include "engine/batch_check.h"
#include "graph/token_positions.h"

namespace sida {
namespace {

std::string no_state(const std::string& name) {
  return name + " has no recurrent state: a pass of it failed, or it keeps pages alone";
}

}  // namespace

void Sequences::check(const Batch& batch) const {
  const StackSpec& stack = spec_.stacks[batch.stack];
  const bool crosses = stack.layers.front().cross.has_value();
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    const auto name = [&] { return "sequence " + std::to_string(batch.sequences[i]); };
    if (const auto known = sequences_.find(batch.sequences[i]); known != sequences_.end()) {
      if (known->second.stack != batch.stack) refuse(name() + " is of another stack");
      if (!stack.causal) refuse(name() + " exists already");
      if (!known->second.has_state) refuse(no_state(name()));
      continue;
    }
    const int32_t id = batch.parents.empty() ? kNoParent : batch.parents[i];
    if (id == kNoParent) {
      if (crosses) refuse(name() + " needs a parent to cross-attend to");
      continue;
    }
    const auto parent = sequences_.find(id);
    if (parent == sequences_.end()) refuse("there is no sequence " + std::to_string(id) + ", the parent of " + name());
    if (!parent->second.has_state) refuse(no_state("sequence " + std::to_string(id)));
    const bool continues = parent->second.stack == batch.stack && stack.causal;
    const bool across = crosses && parent->second.stack + 1 == batch.stack;
    if (!continues && !across) refuse(name() + " can neither continue nor cross-attend to " + std::to_string(id));
  }
}

Sequences::Sequence Sequences::begin(size_t stack, int32_t id) {
  Sequence sequence;
  sequence.stack = stack;
  if (id == kNoParent) return sequence;
  const Sequence& parent = sequences_.at(id);
  if (parent.stack == stack) {
    sequence.pages = cache_.fork(parent.pages, parent.length);
    sequence.length = parent.length;
    sequence.padding = parent.padding;
    sequence.parent_pages = cache_.fork(parent.parent_pages, parent.parent_keys);
    sequence.parent_keys = parent.parent_keys;
  } else {
    sequence.parent_pages = cache_.fork(parent.pages, parent.length);
    sequence.parent_keys = parent.length;
  }
  return sequence;
}

void Sequences::release(Sequence& sequence) {
  cache_.release(sequence.pages);
  cache_.release(sequence.parent_pages);
}

void Sequences::release(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    const auto sequence = sequences_.find(id);
    if (sequence == sequences_.end()) continue;
    release(sequence->second);
    sequences_.erase(sequence);
  }
}

Sequences::Sequence& Sequences::with_pages(int32_t id, size_t tokens) {
  const std::string name = "sequence " + std::to_string(id);
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) throw Error("invalid_request", "there is no " + name);
  Sequence& sequence = found->second;
  if (!spec_.stacks[sequence.stack].causal || sequence.parent_keys > 0 || sequence.padding > 0) {
    throw Error("invalid_request", name + " cannot be continued in its middle");
  }
  if (tokens == 0 || tokens > sequence.length) {
    throw Error("invalid_request",
                name + " has " + std::to_string(sequence.length) + " tokens, not " + std::to_string(tokens));
  }
  for (size_t group = 0; group < sequence.pages.size(); ++group) {
    const size_t first = sequence.pages[group].first;
    if (first <= cache_.groups()[group].first_page(tokens)) continue;
    throw Error("invalid_request", name + " gave up the pages before token " + std::to_string(first * kPageTokens) +
                                       ", which token " + std::to_string(tokens) + " sees");
  }
  return sequence;
}

void Sequences::fork(int32_t from, int32_t to, size_t tokens) {
  const Sequence& parent = with_pages(from, tokens);
  const std::string name = "sequence " + std::to_string(from);
  if (!parent.has_state) throw Error("invalid_request", no_state(name));
  if (cache_.recurrent() && tokens != parent.length) {
    throw Error("invalid_request", name + " has a recurrent state behind its " + std::to_string(parent.length) +
                                       " tokens, not behind " + std::to_string(tokens));
  }
  add_copy(parent, to, tokens);
}

void Sequences::keep_pages(int32_t from, int32_t to, size_t tokens) {
  Sequence& kept = add_copy(with_pages(from, tokens), to, tokens);
  if (!cache_.recurrent()) return;
  cache_.drop_state(kept.pages);
  kept.has_state = false;
}

Sequences::Sequence& Sequences::add_copy(const Sequence& parent, int32_t to, size_t tokens) {
  if (sequences_.contains(to)) throw Error("invalid_request", "sequence " + std::to_string(to) + " exists already");
  Sequence sequence;
  sequence.stack = parent.stack;
  sequence.pages = cache_.fork(parent.pages, tokens);
  sequence.length = tokens;
  sequence.has_state = parent.has_state;
  return sequences_.emplace(to, std::move(sequence)).first->second;
}

void Sequences::share(int32_t id, int32_t from, size_t tokens) {
  Sequence& sequence = with_pages(id, tokens);
  const Sequence& other = with_pages(from, tokens);
  if (tokens % kPageTokens != 0) {
    throw Error("invalid_request",
                std::to_string(tokens) + " tokens are not whole pages of " + std::to_string(kPageTokens) + " tokens");
  }
  KvPages pages = cache_.fork(other.pages, tokens);
  for (size_t group = 0; group < pages.size(); ++group) {
    if (cache_.groups()[group].recurrent) continue;
    PageRun& own = sequence.pages[group];
    for (size_t page = std::max(own.first, pages[group].first); page < pages[group].end(); ++page) {
      std::swap(own.ids[page - own.first], pages[group].ids[page - pages[group].first]);
    }
  }
  cache_.release(pages);
}

void Sequences::check_integrity() const {
  std::vector<const KvPages*> all;
  for (const auto& [id, sequence] : sequences_) {
    all.push_back(&sequence.pages);
    all.push_back(&sequence.parent_pages);
    cache_.check_held(sequence.pages, sequence.length, sequence.has_state);
    cache_.check_held(sequence.parent_pages, sequence.parent_keys);
  }
  cache_.check_integrity(all);
}

SequencePass::SequencePass(Sequences& sequences, const Batch& batch) : sequences_(sequences), pass_(sequences.pass_) {
  const Positions& positions = sequences.spec_.stacks[batch.stack].positions;
  if (!pass_.touched.empty()) throw Error("internal", "two passes at a time. This is a bug.");
  pass_.clear();
  try {
    for (size_t i = 0; i < batch.sequences.size(); ++i) {
      const int32_t id = batch.sequences[i];
      auto known = sequences_.sequences_.find(id);
      if (known == sequences_.sequences_.end()) {
        const int32_t parent = batch.parents.empty() ? kNoParent : batch.parents[i];
        pass_.begun.push_back(id);
        known = sequences_.sequences_.emplace(id, sequences_.begin(batch.stack, parent)).first;
      }
      Sequences::Sequence& sequence = known->second;
      pass_.touched.push_back(&sequence);
      const auto begin = static_cast<size_t>(batch.offsets[i]);
      const size_t count = static_cast<size_t>(batch.offsets[i + 1]) - begin;
      sequences_.cache_.grow(sequence.pages, sequence.length, sequence.length + count);
      pass_.spans.push_back({begin, count, sequence.length, &sequence.pages,
                             sequence.parent_keys > 0 ? &sequence.parent_pages : nullptr, sequence.parent_keys,
                             sequence.padding});
      pass_.padding.push_back(count_padding(positions, batch.tokens.subspan(begin, count)));
    }
  } catch (...) {
    undo();
    throw;
  }
  begun_ = true;
}

SequencePass::~SequencePass() { undo(); }

void SequencePass::keep() {
  for (size_t i = 0; i < pass_.spans.size(); ++i) {
    Sequences::Sequence& sequence = *pass_.touched[i];
    sequence.length += pass_.spans[i].count;
    sequence.padding += pass_.padding[i];
    sequences_.cache_.drop_unseen(sequence.pages, sequence.length);
  }
  pass_.clear();
}

void SequencePass::undo() {
  for (Sequences::Sequence* sequence : pass_.touched) {
    sequences_.cache_.shrink(sequence->pages, sequence->length);
    if (!begun_ || !sequences_.cache_.recurrent()) continue;
    sequence->has_state = false;
    sequences_.cache_.drop_state(sequence->pages);
  }
  sequences_.release(pass_.begun);
  pass_.clear();
}

}  // namespace sida
