#include "checkpoint/zip_entries.h"

#include <algorithm>
#include <string_view>

#include "core/checkpoint_error.h"

namespace sida {
namespace {

constexpr uint64_t kMaxZipDirectoryBytes = 64 << 20;
constexpr uint64_t kMaxZipEntries = 1 << 18;

constexpr size_t kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20, kEntryBytes = 46, kLocalBytes = 30;
constexpr uint32_t kEndSignature = 0x06054b50, kEnd64Signature = 0x06064b50, kLocatorSignature = 0x07064b50,
                   kEntrySignature = 0x02014b50, kLocalSignature = 0x04034b50;
constexpr uint16_t kZip64Field = 1;

class ZipReader {
 public:
  ZipReader(const File& archive, const std::string& display) : archive_(archive), display_(display) {}

  std::vector<ZipEntry> entries() {
    read_end();
    std::vector<Placed> placed;
    const std::string directory = read(directory_, directory_bytes_);
    size_t at = 0;
    for (uint64_t i = 0; i < count_; ++i) {
      if (directory.size() - at < kEntryBytes || number(directory, at, 4) != kEntrySignature) {
        throw fault(directory_ + at, "an entry of the zip directory", "none");
      }
      const size_t name_bytes = number(directory, at + 28, 2), extra_bytes = number(directory, at + 30, 2),
                   bytes = kEntryBytes + name_bytes + extra_bytes + number(directory, at + 32, 2);
      if (directory.size() - at < bytes) throw fault(directory_ + at, "an entry of the zip directory", "its begin");
      placed.push_back(entry_of(std::string_view(directory).substr(at, bytes), name_bytes, extra_bytes, at));
      at += bytes;
    }
    std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) { return a.begin < b.begin; });
    std::vector<ZipEntry> entries;
    uint64_t end = 0;
    for (Placed& each : placed) {
      if (each.begin < end)
        throw fault(each.begin, "the end of the entry before", "the zip entry" + quoted(each.entry));
      end = each.entry.offset + each.entry.bytes;
      entries.push_back(std::move(each.entry));
    }
    return entries;
  }

 private:
  struct Placed {
    uint64_t begin;  ///< of the local header
    ZipEntry entry;
  };

  static uint64_t number(std::string_view bytes, size_t at, size_t count) {
    uint64_t value = 0;
    for (size_t i = 0; i < count; ++i) value |= uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
    return value;
  }

  static std::string quoted(const ZipEntry& entry) { return " \"" + escape_text(entry.name) + "\""; }

  Error fault(uint64_t at, const std::string& expected, const std::string& found) const {
    return checkpoint_error({display_,
                             "",
                             "byte " + std::to_string(at),
                             expected,
                             found,
                             "is it a file of torch.save? It may have been cut: download it again",
                             {}});
  }

  std::string read(uint64_t at, uint64_t bytes) const {
    if (at > archive_.size() || bytes > archive_.size() - at) {
      throw fault(at, std::to_string(bytes) + " bytes", "the end of the file at " + std::to_string(archive_.size()));
    }
    std::string data(bytes, '\0');
    archive_.pread_exact(at, data.data(), data.size());
    return data;
  }

  void read_end() {
    const uint64_t size = archive_.size();
    if (size < kEndBytes || number(read(0, 4), 0, 4) != kLocalSignature) {
      throw checkpoint_error({display_,
                              "",
                              "no zip archive",
                              "one, which torch.save writes since PyTorch 1.6",
                              "a file of " + std::to_string(size) + " bytes",
                              "convert it to safetensors",
                              {}});
    }
    const uint64_t at = size - kEndBytes;
    const std::string end = read(at, kEndBytes);
    if (number(end, 0, 4) != kEndSignature) throw fault(at, "the end record of a zip archive", "none");
    count_ = number(end, 10, 2);
    directory_bytes_ = number(end, 12, 4);
    directory_ = number(end, 16, 4);
    if (count_ == 0xffff || directory_bytes_ == 0xffffffff || directory_ == 0xffffffff) read_end64(at);
    if (count_ > kMaxZipEntries || directory_bytes_ > kMaxZipDirectoryBytes) {
      throw fault(at,
                  "at most " + std::to_string(kMaxZipEntries) + " entries in a zip directory of at most " +
                      std::to_string(kMaxZipDirectoryBytes) + " bytes",
                  std::to_string(count_) + " in " + std::to_string(directory_bytes_));
    }
  }

  void read_end64(uint64_t end) {
    if (end < kLocatorBytes) throw fault(end, "a zip64 locator before", "none");
    const std::string locator = read(end - kLocatorBytes, kLocatorBytes);
    if (number(locator, 0, 4) != kLocatorSignature) throw fault(end - kLocatorBytes, "a zip64 locator", "none");
    const uint64_t at = number(locator, 8, 8);
    const std::string record = read(at, kEnd64Bytes);
    if (number(record, 0, 4) != kEnd64Signature) throw fault(at, "a zip64 end record", "none");
    count_ = number(record, 32, 8);
    directory_bytes_ = number(record, 40, 8);
    directory_ = number(record, 48, 8);
  }

  /// `record`: the entry in the directory, which begins `at` bytes in it.
  Placed entry_of(std::string_view record, size_t name_bytes, size_t extra_bytes, size_t at) const {
    ZipEntry entry{std::string(record.substr(kEntryBytes, name_bytes)), 0, number(record, 24, 4)};
    uint64_t packed = number(record, 20, 4), begin = number(record, 42, 4);
    if ((number(record, 8, 2) & 1) != 0)
      throw fault(directory_ + at, "no encrypted zip entry", quoted(entry).substr(1));
    if (number(record, 10, 2) != 0) throw fault(directory_ + at, "no compressed zip entry", quoted(entry).substr(1));
    const std::string_view extra = record.substr(kEntryBytes + name_bytes, extra_bytes);
    for (size_t field = 0; extra.size() - field >= 4;) {
      const size_t bytes = number(extra, field + 2, 2), end = field + 4 + bytes;
      if (end > extra.size()) throw fault(directory_ + at, "whole extra fields", "a part of one");
      size_t value = field + 4;
      if (number(extra, field, 2) == kZip64Field) {
        for (uint64_t* wide : {&entry.bytes, &packed, &begin}) {
          if (*wide != 0xffffffff) continue;
          if (end - value < 8) throw fault(directory_ + at, "a zip64 number of 8 bytes", std::to_string(end - value));
          *wide = number(extra, value, 8);
          value += 8;
        }
      }
      field = end;
    }
    if (packed != entry.bytes) {
      throw fault(directory_ + at, std::to_string(entry.bytes) + " bytes of" + quoted(entry), std::to_string(packed));
    }
    const std::string local = read(begin, kLocalBytes);
    if (number(local, 0, 4) != kLocalSignature) throw fault(begin, "the zip entry" + quoted(entry), "none");
    entry.offset = begin + kLocalBytes + number(local, 26, 2) + number(local, 28, 2);
    if (entry.offset > directory_ || entry.bytes > directory_ - entry.offset) {
      throw fault(entry.offset, std::to_string(entry.bytes) + " bytes of" + quoted(entry),
                  "the zip directory at " + std::to_string(directory_));
    }
    return {begin, std::move(entry)};
  }

  const File& archive_;
  const std::string& display_;
  uint64_t count_ = 0, directory_ = 0, directory_bytes_ = 0;
};

}  // namespace

std::vector<ZipEntry> read_zip_entries(const File& archive, const std::string& display) {
  return ZipReader(archive, display).entries();
}

}  // namespace sida
