#include "kv/page_pool.h"

#include <algorithm>

#include "core/error.h"

namespace sida {

PagePool::PagePool(size_t pages) : owners_(pages) {
  for (size_t page = pages; page > 0; --page) free_.push_back(static_cast<uint32_t>(page - 1));
}

uint32_t PagePool::take() {
  const uint32_t page = free_.back();
  free_.pop_back();
  owners_[page] = 1;
  return page;
}

void PagePool::give_back(uint32_t page) {
  if (--owners_[page] == 0) free_.push_back(page);
}

bool PagePool::copies(const PageRun& run, size_t past, size_t tokens) const {
  return past % kPageTokens != 0 && tokens > past && owners_[run.at(past / kPageTokens)] > 1;
}

size_t PagePool::needed(const PageRun& run, size_t past, size_t tokens) const {
  const size_t wanted = pages_for(tokens);
  return (wanted > run.end() ? wanted - run.end() : 0) + copies(run, past, tokens);
}

void PagePool::grow(PageRun& run, size_t past, size_t tokens, FunctionRef<void(uint32_t, uint32_t)> copy) {
  if (copies(run, past, tokens)) {
    uint32_t& shared = run.ids[past / kPageTokens - run.first];
    const uint32_t own = take();
    copy(own, shared);
    give_back(shared);
    shared = own;
  }
  for (const size_t wanted = pages_for(tokens); run.end() < wanted;) run.ids.push_back(take());
}

void PagePool::shrink(PageRun& run, size_t tokens) {
  for (const size_t kept = pages_for(tokens); run.end() > kept && !run.ids.empty(); run.ids.pop_back()) {
    give_back(run.ids.back());
  }
  run.first = std::min(run.first, pages_for(tokens));
}

void PagePool::drop(PageRun& run, size_t page) {
  const size_t dropped = std::min(page, run.end()) - std::min(page, run.first);
  for (size_t i = 0; i < dropped; ++i) give_back(run.ids[i]);
  run.ids.erase(run.ids.begin(), run.ids.begin() + static_cast<ptrdiff_t>(dropped));
  run.first += dropped;
}

PageRun PagePool::fork(const PageRun& run, size_t tokens) {
  const size_t count = pages_for(tokens) - run.first;
  PageRun forked{run.first, {run.ids.begin(), run.ids.begin() + static_cast<ptrdiff_t>(count)}};
  for (const uint32_t page : forked.ids) ++owners_[page];
  return forked;
}

void PagePool::check_integrity(const std::vector<const PageRun*>& runs, const std::string& name) const {
  std::vector<uint32_t> named(owners_.size());
  for (const PageRun* run : runs) {
    for (const uint32_t page : run->ids) ++named[page];
  }
  std::vector<uint32_t> free(owners_.size());
  for (const uint32_t page : free_) ++free[page];
  for (size_t page = 0; page < owners_.size(); ++page) {
    if (named[page] == owners_[page] && free[page] == (owners_[page] == 0 ? 1u : 0u)) continue;
    throw Error("internal", name + " page " + std::to_string(page) + " counts " + std::to_string(owners_[page]) +
                                " owners, " + std::to_string(named[page]) + " sequences name it and it is free " +
                                std::to_string(free[page]) + " times. This is a bug.");
  }
}

}  // namespace sida
