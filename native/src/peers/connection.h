#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

namespace sida {

/// The other side has closed the connection, is not there, or took longer than it may.
class ConnectionLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct PeerAddress {
  std::string host;  ///< name or number
  uint16_t port = 0;

  /// As in [::1]:7500.
  std::string text() const;
};

using Deadline = std::chrono::steady_clock::time_point;

/// A stream of bytes to another process. Its four verbs are all that expert peers need of a network, so that another
/// transport can stand in for TCP. One thread uses it at a time; close() may be called by any.
class Connection {
 public:
  virtual ~Connection() = default;

  /// Sends all bytes. Throws ConnectionLost, also where `deadline` passes first.
  virtual void send(std::span<const std::byte> bytes, Deadline deadline) = 0;
  /// Fills `bytes`. Throws ConnectionLost, also where `deadline` passes first.
  virtual void receive(std::span<std::byte> bytes, Deadline deadline) = 0;
  /// Whether the other side has sent something, or has closed, by `deadline`.
  virtual bool wait(Deadline deadline) = 0;
  /// Ends the calls of another thread.
  virtual void close() = 0;
};

/// Throws ConnectionLost.
std::unique_ptr<Connection> connect_tcp(const PeerAddress& address, Deadline deadline);

/// Accepts TCP connections.
class TcpListener {
 public:
  /// Port 0 takes any that is free. Throws cannot_run where the address cannot be had.
  explicit TcpListener(PeerAddress address);
  ~TcpListener();
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;

  uint16_t port() const { return port_; }
  /// The next connection and the host that it comes from; null once close() was called.
  std::unique_ptr<Connection> accept(std::string& from);
  void close();

 private:
  int socket_;
  int wake_[2];  ///< a pipe that ends accept()
  uint16_t port_ = 0;
};

}  // namespace sida
