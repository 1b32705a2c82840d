// Keeps llama.cpp from copying weights into layouts of its own, so that they stay in the mapped file, as its own tools
// do with --no-repack; node-llama-cpp has no such option. It answers in place of ggml: no device has extra buffer
// types.
#include <string.h>

// The beginning of ggml's struct ggml_backend_reg, of ggml-backend-impl.h.
struct registry {
  int api_version;
  const char *(*get_name)(struct registry *);
  size_t (*get_device_count)(struct registry *);
  void *(*get_device)(struct registry *, size_t);
  void *(*get_proc_address)(struct registry *, const char *);
};

void *ggml_backend_reg_get_proc_address(struct registry *registry, const char *name) {
  if (registry->get_proc_address == 0 || strcmp(name, "ggml_backend_dev_get_extra_bufts") == 0) return 0;
  return registry->get_proc_address(registry, name);
}
