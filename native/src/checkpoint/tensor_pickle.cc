#include "checkpoint/tensor_pickle.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "core/checkpoint_error.h"

namespace sida {
namespace {

/// Memory is allocated for each. A tensor takes about 20.
constexpr size_t kMaxPickledValues = 1 << 22;
constexpr size_t kMaxPickledTensors = 1 << 18;
constexpr size_t kMaxPickledDimensions = 8;

enum class PickleKind : uint8_t {
  kNone,
  kBool,
  kInteger,
  kText,
  kTuple,
  kDict,
  kRebuild,
  kOrderedDict,
  kType,
  kStorage,
  kTensor
};

constexpr const char* kPickleKindNames[] = {"None",       "a bool", "an integer", "a text",    "a tuple", "a dict",
                                            "a function", "a type", "a type",     "a storage", "a tensor"};

struct PickleValue {
  PickleKind kind;
  Dtype dtype = Dtype::kF32;  ///< of a storage and its type
  uint32_t size = 0;          ///< of a tuple or a text
  uint32_t first = 0;         ///< of a tuple's items, a text's bytes; the key of a storage; the number of a tensor
  int64_t number = 0;         ///< an integer; the elements of a storage
};

struct PickleGlobal {
  std::string_view name;
  PickleKind kind;
  Dtype dtype;
};

constexpr PickleGlobal kPickleGlobals[] = {
    {"torch._utils _rebuild_tensor_v2", PickleKind::kRebuild, Dtype::kF32},
    {"collections OrderedDict", PickleKind::kOrderedDict, Dtype::kF32},
    {"torch FloatStorage", PickleKind::kType, Dtype::kF32},
    {"torch HalfStorage", PickleKind::kType, Dtype::kF16},
    {"torch BFloat16Storage", PickleKind::kType, Dtype::kBF16},
    {"torch DoubleStorage", PickleKind::kType, Dtype::kF64},
    {"torch LongStorage", PickleKind::kType, Dtype::kI64},
    {"torch IntStorage", PickleKind::kType, Dtype::kI32},
    {"torch ShortStorage", PickleKind::kType, Dtype::kI16},
    {"torch CharStorage", PickleKind::kType, Dtype::kI8},
    {"torch ByteStorage", PickleKind::kType, Dtype::kU8},
    {"torch BoolStorage", PickleKind::kType, Dtype::kBool},
};

/// Values refer to each other by number, so that none is ever copied or nested in memory.
class TensorPickle {
 public:
  TensorPickle(std::string_view bytes, uint64_t begin, const std::string& display)
      : bytes_(bytes), begin_(begin), display_(display) {}

  std::vector<PickledTensor> read() {
    while (step()) {
    }
    if (at_ != bytes_.size()) throw fault("the end of the pickle", std::to_string(bytes_.size() - at_) + " more bytes");
    if (stack_.size() != 1 || !marks_.empty()) throw fault("one value", std::to_string(stack_.size()));
    const uint32_t dict = pop(PickleKind::kDict);
    std::vector<PickledTensor> tensors;
    std::set<std::string_view> names;
    for (const auto& [owner, key, value] : entries_) {
      if (owner != dict) continue;
      const std::string_view name = text(key);
      if (values_[value].kind != PickleKind::kTensor) {
        throw checkpoint_error({display_, name, "not a tensor", "a state dict of tensors", name_of(value), "", {}});
      }
      if (!names.insert(name).second) {
        throw checkpoint_error({display_, name, "appears twice", "one", "two", "", {}});
      }
      // One tensor may have many names.
      if (tensors.size() == kMaxPickledTensors)
        throw fault("at most " + std::to_string(kMaxPickledTensors) + " tensors", "more");
      tensors.push_back(tensors_[values_[value].first]);
      tensors.back().name = name;
    }
    return tensors;
  }

 private:
  struct Entry {
    uint32_t owner, key, value;
  };

  Error fault(const std::string& expected, const std::string& found) const {
    return checkpoint_error({display_,
                             "",
                             "pickle at byte " + std::to_string(begin_ + op_),
                             expected,
                             found,
                             "only a state dict of tensors is read, and nothing is executed",
                             {}});
  }

  const char* name_of(uint32_t value) const { return kPickleKindNames[static_cast<size_t>(values_[value].kind)]; }

  std::string_view take(uint64_t count) {
    if (count > bytes_.size() - at_) throw fault(std::to_string(count) + " bytes", "the end of the pickle");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }

  uint64_t number(size_t count) {
    const std::string_view bytes = take(count);
    uint64_t value = 0;
    for (size_t i = 0; i < count; ++i) value |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    return value;
  }

  std::string_view line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) throw fault("a line", "the end of the pickle");
    const std::string_view line = take(end - at_);
    ++at_;
    return line;
  }

  void push(const PickleValue& value) {
    if (values_.size() == kMaxPickledValues)
      throw fault("at most " + std::to_string(kMaxPickledValues) + " values", "more");
    stack_.push_back(static_cast<uint32_t>(values_.size()));
    values_.push_back(value);
  }

  void push_integer(int64_t value) { push({PickleKind::kInteger, Dtype::kF32, 0, 0, value}); }

  void need(size_t count) const {
    const size_t found = stack_.size() - (marks_.empty() ? 0 : marks_.back());
    if (found < count) throw fault(std::to_string(count) + " values before it", std::to_string(found));
  }

  uint32_t pop() {
    need(1);
    const uint32_t value = stack_.back();
    stack_.pop_back();
    return value;
  }

  uint32_t pop(PickleKind kind) {
    const uint32_t value = pop();
    check_kind(value, kind);
    return value;
  }

  void check_kind(uint32_t value, PickleKind kind) const {
    if (values_[value].kind != kind) throw fault(kPickleKindNames[static_cast<size_t>(kind)], name_of(value));
  }

  std::string_view text(uint32_t value) const {
    check_kind(value, PickleKind::kText);
    return bytes_.substr(values_[value].first, values_[value].size);
  }

  uint64_t count(uint32_t value) const {
    check_kind(value, PickleKind::kInteger);
    if (values_[value].number < 0) throw fault("a number of elements", std::to_string(values_[value].number));
    return static_cast<uint64_t>(values_[value].number);
  }

  /// Item `i` of a tuple of `size` items.
  uint32_t item(uint32_t tuple, uint32_t i) const { return items_[values_[tuple].first + i]; }

  void check_tuple(uint32_t tuple, uint32_t size) const {
    check_kind(tuple, PickleKind::kTuple);
    if (values_[tuple].size != size) {
      throw fault("a tuple of " + std::to_string(size), "one of " + std::to_string(values_[tuple].size));
    }
  }

  std::vector<uint64_t> counts(uint32_t tuple) const {
    check_kind(tuple, PickleKind::kTuple);
    if (values_[tuple].size > kMaxPickledDimensions) {
      throw fault("at most " + std::to_string(kMaxPickledDimensions) + " dimensions",
                  std::to_string(values_[tuple].size));
    }
    std::vector<uint64_t> numbers;
    for (uint32_t i = 0; i < values_[tuple].size; ++i) numbers.push_back(count(item(tuple, i)));
    return numbers;
  }

  size_t pop_mark() {
    if (marks_.empty()) throw fault("a mark before it", "none");
    const size_t mark = marks_.back();
    marks_.pop_back();
    return mark;
  }

  void make_tuple(size_t first) {
    const PickleValue tuple{PickleKind::kTuple, Dtype::kF32, static_cast<uint32_t>(stack_.size() - first),
                            static_cast<uint32_t>(items_.size()), 0};
    items_.insert(items_.end(), stack_.begin() + static_cast<ptrdiff_t>(first), stack_.end());
    stack_.resize(first);
    push(tuple);
  }

  void make_tuple_of(size_t size) {
    need(size);
    make_tuple(stack_.size() - size);
  }

  void set_items(size_t first) {
    if ((stack_.size() - first) % 2 != 0) throw fault("a value for each key", "a key without one");
    const std::vector<uint32_t> items(stack_.begin() + static_cast<ptrdiff_t>(first), stack_.end());
    stack_.resize(first);
    const uint32_t dict = pop(PickleKind::kDict);
    stack_.push_back(dict);
    for (size_t i = 0; i < items.size(); i += 2) entries_.push_back({dict, items[i], items[i + 1]});
  }

  void remember(uint64_t place) {
    need(1);
    // Writers number what they remember.
    if (place > memo_.size()) throw fault("memo " + std::to_string(memo_.size()), std::to_string(place));
    if (place == memo_.size()) memo_.push_back(0);
    memo_[place] = stack_.back();
  }

  void recall(uint64_t place) {
    if (place >= memo_.size()) throw fault("one of " + std::to_string(memo_.size()) + " memos", std::to_string(place));
    stack_.push_back(memo_[place]);
  }

  void push_long() {
    const uint64_t size = number(1);
    if (size > 8) throw fault("an integer of at most 8 bytes", std::to_string(size));
    uint64_t bits = number(size);
    if (size > 0 && size < 8 && (bits >> (8 * size - 1)) != 0) bits |= ~uint64_t{0} << (8 * size);
    push_integer(static_cast<int64_t>(bits));
  }

  void push_global() {
    std::string name(line());
    name.append(" ").append(line());
    const auto known = std::find_if(std::begin(kPickleGlobals), std::end(kPickleGlobals),
                                    [&](const PickleGlobal& g) { return g.name == name; });
    if (known == std::end(kPickleGlobals)) {
      throw fault("a global of a state dict of tensors", "\"" + escape_text(name) + "\"");
    }
    push({known->kind, known->dtype});
  }

  /// ('storage', type, key, place, elements)
  void push_storage() {
    const uint32_t id = pop();
    check_tuple(id, 5);
    if (text(item(id, 0)) != "storage") throw fault("\"storage\"", "\"" + escape_text(text(item(id, 0))) + "\"");
    check_kind(item(id, 1), PickleKind::kType);
    text(item(id, 2));
    push({PickleKind::kStorage, values_[item(id, 1)].dtype, 0, item(id, 2), static_cast<int64_t>(count(item(id, 4)))});
  }

  void reduce() {
    const uint32_t arguments = pop(PickleKind::kTuple), callable = pop();
    if (values_[callable].kind == PickleKind::kOrderedDict) {
      check_tuple(arguments, 0);
      return push({PickleKind::kDict});
    }
    check_kind(callable, PickleKind::kRebuild);
    check_tuple(arguments, 6);
    check_kind(item(arguments, 4), PickleKind::kBool);
    check_kind(item(arguments, 5), PickleKind::kDict);
    push_tensor(item(arguments, 0), count(item(arguments, 1)), counts(item(arguments, 2)), counts(item(arguments, 3)));
  }

  void push_tensor(uint32_t storage, uint64_t first, std::vector<uint64_t> shape,
                   const std::vector<uint64_t>& strides) {
    check_kind(storage, PickleKind::kStorage);
    const uint64_t held = count_of(storage);
    if (shape.size() != strides.size()) {
      throw fault(std::to_string(shape.size()) + " strides", std::to_string(strides.size()));
    }
    uint64_t elements = 1;
    bool contiguous = true;
    for (size_t i = shape.size(); i-- > 0;) {
      contiguous = contiguous && (shape[i] == 1 || strides[i] == elements);
      if (shape[i] != 0 && elements > held / shape[i])
        throw fault(std::to_string(held) + " elements", "a larger shape");
      elements *= shape[i];
    }
    if (!contiguous && elements > 0) throw fault("a contiguous tensor", "other strides");
    if (first > held || elements > held - first) {
      throw fault("elements of a storage of " + std::to_string(held),
                  std::to_string(elements) + " from element " + std::to_string(first));
    }
    if (tensors_.size() == kMaxPickledTensors)
      throw fault("at most " + std::to_string(kMaxPickledTensors) + " tensors", "more");
    push({PickleKind::kTensor, values_[storage].dtype, 0, static_cast<uint32_t>(tensors_.size())});
    tensors_.push_back({"", values_[storage].dtype, std::move(shape), text(values_[storage].first), held, first});
  }

  uint64_t count_of(uint32_t storage) const { return static_cast<uint64_t>(values_[storage].number); }

  void build() {
    // The versions of modules, which state_dict() attaches.
    pop(PickleKind::kDict);
    const uint32_t object = pop(PickleKind::kDict);
    stack_.push_back(object);
  }

  /// Runs an opcode. False after the last.
  bool step() {
    op_ = at_;
    const auto code = static_cast<unsigned char>(number(1));
    switch (code) {
      case 0x80:  // PROTO
        if (const uint64_t version = number(1); version != 2) throw fault("protocol 2", std::to_string(version));
        return true;
      case '.':  // STOP
        return false;
      case '(':  // MARK
        marks_.push_back(stack_.size());
        if (marks_.size() > kMaxPickledValues) throw fault("fewer marks", std::to_string(marks_.size()));
        return true;
      case 'c':  // GLOBAL
        return push_global(), true;
      case 'X': {  // BINUNICODE
        const uint64_t size = number(4), first = at_;
        take(size);
        return push({PickleKind::kText, Dtype::kF32, static_cast<uint32_t>(size), static_cast<uint32_t>(first)}), true;
      }
      case 'J':  // BININT
        return push_integer(static_cast<int32_t>(number(4))), true;
      case 'K':  // BININT1
        return push_integer(static_cast<int64_t>(number(1))), true;
      case 'M':  // BININT2
        return push_integer(static_cast<int64_t>(number(2))), true;
      case 0x8a:  // LONG1
        return push_long(), true;
      case 0x88:  // NEWTRUE
      case 0x89:  // NEWFALSE
        return push({PickleKind::kBool}), true;
      case 'N':  // NONE
        return push({PickleKind::kNone}), true;
      case '}':  // EMPTY_DICT
        return push({PickleKind::kDict}), true;
      case ')':  // EMPTY_TUPLE
        return make_tuple_of(0), true;
      case 't':  // TUPLE
        return make_tuple(pop_mark()), true;
      case 0x85:  // TUPLE1
      case 0x86:  // TUPLE2
      case 0x87:  // TUPLE3
        return make_tuple_of(code - 0x84), true;
      case 's':  // SETITEM
        need(2);
        return set_items(stack_.size() - 2), true;
      case 'u':  // SETITEMS
        return set_items(pop_mark()), true;
      case 'q':  // BINPUT
        return remember(number(1)), true;
      case 'r':  // LONG_BINPUT
        return remember(number(4)), true;
      case 'h':  // BINGET
        return recall(number(1)), true;
      case 'j':  // LONG_BINGET
        return recall(number(4)), true;
      case 'Q':  // BINPERSID
        return push_storage(), true;
      case 'R':  // REDUCE
        return reduce(), true;
      case 'b':  // BUILD
        return build(), true;
      default: {
        constexpr const char* kDigits = "0123456789abcdef";
        throw fault("an opcode of a state dict of tensors",
                    std::string("0x") + kDigits[code / 16] + kDigits[code % 16]);
      }
    }
  }

  std::string_view bytes_;
  uint64_t begin_;
  const std::string& display_;
  size_t at_ = 0;
  size_t op_ = 0;  ///< where the opcode that runs begins
  std::vector<PickleValue> values_;
  std::vector<uint32_t> items_;  ///< of tuples
  std::vector<Entry> entries_;   ///< of dicts
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;
  std::vector<uint32_t> memo_;
  std::vector<PickledTensor> tensors_;
};

}  // namespace

std::vector<PickledTensor> read_tensor_pickle(std::string_view pickle, uint64_t begin, const std::string& display) {
  return TensorPickle(pickle, begin, display).read();
}

}  // namespace sida
