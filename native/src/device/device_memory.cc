#include "device/device_memory.h"

#include <string>
#include <utility>

#include "core/error.h"

namespace sida {

DeviceBuffer::DeviceBuffer(DeviceMemory& memory, size_t bytes, Touch touch)
    : memory_(&memory),
      data_(memory.allocate(device_bytes(bytes), memory.taken(bytes), touch)),
      bytes_(device_bytes(bytes)),
      taken_(memory.taken(bytes)) {}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(taken_, other.taken_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) memory_->release(data_, bytes_, taken_);
}

std::byte* DeviceMemory::allocate(size_t bytes, uint64_t taken, Touch touch) {
  if (bytes == 0) return nullptr;
  if (used_ + taken > budget_) {
    throw Error("budget_too_small",
                "the device budget of " + std::to_string(budget_) + " bytes has no room for " + std::to_string(taken) +
                    " more: " + std::to_string(used_) + " are in use",
                {{"budget_bytes", static_cast<double>(budget_)}, {"needed_bytes", static_cast<double>(used_ + taken)}});
  }
  std::byte* data = backend_.allocate(bytes, touch);
  if (data == nullptr) {
    throw Error("out_of_memory", "the machine has no " + std::to_string(bytes) + " bytes left for the device",
                {{"bytes", static_cast<double>(bytes)}});
  }
  used_ += taken;
  if (used_ > peak_) peak_ = used_.load();
  return data;
}

void DeviceMemory::release(std::byte* data, size_t bytes, uint64_t taken) {
  backend_.deallocate(data, bytes);
  used_ -= taken;
}

void DeviceMemory::set_budget(uint64_t budget) {
  if (used_ > budget) {
    throw Error("internal", "the budget was set to " + std::to_string(budget) + " bytes while " +
                                std::to_string(used_) + " are in use. This is a bug.");
  }
  budget_ = budget;
}

}  // namespace sida
