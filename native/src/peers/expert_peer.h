#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/pack.h"
#include "core/thread_pool.h"
#include "device/device_memory.h"
#include "expert/expert_file.h"
#include "ops/cpu/expert_ffn.h"
#include "peers/peer_wire.h"
#include "spec/activation_format.h"

namespace sida {

struct ExpertPeerOptions {
  std::string pack;           ///< packed model directory
  std::vector<uint8_t> held;  ///< (experts of all layers): 1 where the peer holds the expert
  uint64_t budget_bytes = 0;  ///< hard limit of its experts and buffers
  size_t threads = 1;
  ActivationFormat activations = ActivationFormat::kF32;
  PeerAddress address;  ///< to listen on
  PeerSecrets secrets;
};

struct ExpertPeerStats {
  uint64_t servers = 0;  ///< connected now
  uint64_t requests = 0;
  uint64_t refused = 0;  ///< connections
  std::string last_refused = {};
};

/// Holds a share of a model's experts in memory, without its dense weights, and computes them for servers that ask.
/// Computes on the CPU, one request at a time.
class ExpertPeer {
 public:
  /// Listens, but loads nothing and answers nobody. Throws budget_too_small with the bytes needed, pack_invalid,
  /// io_error, and cannot_run where the address cannot be had.
  explicit ExpertPeer(ExpertPeerOptions options);
  ~ExpertPeer();

  uint16_t port() const { return listener_.port(); }
  size_t held() const { return held_count_; }
  uint64_t used_bytes() const { return memory_.used(); }
  /// Loads at most `most` experts, and returns how many are still to be loaded. Throws io_error, out_of_memory.
  size_t load(size_t most);
  /// Answers servers from now on. Call it once all experts are loaded.
  void start();
  ExpertPeerStats stats() const;

 private:
  /// A connected server and the thread that answers it.
  struct Client {
    std::unique_ptr<Connection> connection;
    std::string from;
    std::thread thread;
    bool greeted = false;
    bool ended = false;
  };
  /// Memory of one server's requests.
  struct Buffers;

  void accept();
  void serve(Client& client);
  void answer(Connection& connection, Buffers& buffers);
  bool admit(Client& client, std::optional<Buffers>& buffers);
  void compute(const PeerRequest& request, Buffers& buffers);
  uint64_t buffer_bytes() const;

  ExpertPeerOptions options_;
  Pack pack_;
  std::unique_ptr<Backend> backend_;
  DeviceMemory memory_;
  std::unique_ptr<ExpertFile> disk_;
  PeerOffer offer_;
  size_t held_count_ = 0;
  ExpertId next_ = 0;  ///< to load
  std::vector<DeviceBuffer> blocks_;
  DeviceBuffer scratch_memory_;
  ExpertScratch scratch_;
  ThreadPool pool_;
  TcpListener listener_;
  std::mutex computing_;
  mutable std::mutex mutex_;  ///< of what follows
  std::list<Client> clients_;
  ExpertPeerStats stats_;
  bool stopping_ = false;
  std::thread acceptor_;
};

}  // namespace sida
