#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/function_ref.h"
#include "spec/kv_page.h"

namespace sida {

constexpr size_t pages_for(size_t tokens) { return (tokens + kPageTokens - 1) / kPageTokens; }

/// The pages that one sequence has in one pool: those of its tokens from first · 16 on. It gave up the ones before.
struct PageRun {
  size_t first = 0;
  std::vector<uint32_t> ids;

  size_t end() const { return first + ids.size(); }
  /// Page `page` of the sequence, first <= page < end().
  uint32_t at(size_t page) const { return ids[page - first]; }
  bool operator==(const PageRun&) const = default;
};

/// The pages of one sequence, by group of the cache's layers; empty before it first grows.
using KvPages = std::vector<PageRun>;

/// Pages of one size, each with a count of its owners. Several sequences may own a page; a sequence copies a shared
/// page before it writes into it.
class PagePool {
 public:
  explicit PagePool(size_t pages);

  size_t pages() const { return owners_.size(); }
  size_t free_pages() const { return free_.size(); }

  /// Pages that grow() would take.
  size_t needed(const PageRun& run, size_t past, size_t tokens) const;
  /// Prepares `run`, which holds `past` tokens, for tokens [past, tokens): adds pages, and replaces the last one by a
  /// copy where other sequences own it too. As many pages as needed() are free.
  void grow(PageRun& run, size_t past, size_t tokens, FunctionRef<void(uint32_t to, uint32_t from)> copy);
  /// Gives up the pages that `tokens` tokens do not need.
  void shrink(PageRun& run, size_t tokens);
  /// Gives up the pages before page `page` of the sequence.
  void drop(PageRun& run, size_t page);
  /// The pages of the first `tokens` tokens with one more owner each.
  PageRun fork(const PageRun& run, size_t tokens);

  /// Throws internal unless each page is either free or has as many owners as `runs` name it. `name` is the pool's.
  void check_integrity(const std::vector<const PageRun*>& runs, const std::string& name) const;

 private:
  bool copies(const PageRun& run, size_t past, size_t tokens) const;
  uint32_t take();
  void give_back(uint32_t page);

  std::vector<uint32_t> owners_;  ///< (pages)
  std::vector<uint32_t> free_;
};

}  // namespace sida
