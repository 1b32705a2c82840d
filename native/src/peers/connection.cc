#include "peers/connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace sida {
namespace {

using Clock = std::chrono::steady_clock;

/// Milliseconds for poll(), rounded up, so that it does not spin before the deadline.
int milliseconds_until(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

std::string why(int error) { return std::strerror(error); }

/// Whether `events` or an error came before the deadline; the next call on the socket tells the error.
bool poll_until(int socket, short events, Deadline deadline) {
  for (;;) {
    pollfd entry{socket, events, 0};
    const int ready = poll(&entry, 1, milliseconds_until(deadline));
    if (ready > 0 || (ready < 0 && errno != EINTR)) return true;
    if (Clock::now() >= deadline) return false;
  }
}

class TcpConnection final : public Connection {
 public:
  explicit TcpConnection(int socket) : socket_(socket) {
    const int on = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    // A machine that vanished is noticed within a minute.
    const int idle = 30, interval = 10, probes = 3;
    setsockopt(socket_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(socket_, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(socket_, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(socket_, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  }
  ~TcpConnection() override { ::close(socket_); }

  void send(std::span<const std::byte> bytes, Deadline deadline) override {
    move(bytes.size(), POLLOUT, deadline, [&](size_t done) {
      return ::send(socket_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    });
  }

  void receive(std::span<std::byte> bytes, Deadline deadline) override {
    move(bytes.size(), POLLIN, deadline,
         [&](size_t done) { return ::recv(socket_, bytes.data() + done, bytes.size() - done, MSG_DONTWAIT); });
  }

  bool wait(Deadline deadline) override { return poll_until(socket_, POLLIN, deadline); }

  void close() override { shutdown(socket_, SHUT_RDWR); }

 private:
  template <class Step>
  void move(size_t bytes, short events, Deadline deadline, const Step& step) {
    for (size_t done = 0; done < bytes;) {
      const ssize_t moved = step(done);
      if (moved > 0) {
        done += static_cast<size_t>(moved);
      } else if (moved == 0) {
        throw ConnectionLost("the connection was closed");
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        if (!poll_until(socket_, events, deadline)) throw ConnectionLost("no answer in time");
      } else if (errno != EINTR) {
        throw ConnectionLost(why(errno));
      }
    }
  }

  int socket_;
};

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// Null, and `error`, where the name has no address.
Addresses resolve(const PeerAddress& address, int flags, std::string& error) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (code != 0) error = gai_strerror(code);
  return {code == 0 ? found : nullptr, &freeaddrinfo};
}

/// A connected socket, or −1 and `error`.
int connect_to(const addrinfo& entry, Deadline deadline, std::string& error) {
  const int socket = ::socket(entry.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int failure = socket < 0 ? errno : 0;
  if (failure == 0 && connect(socket, entry.ai_addr, entry.ai_addrlen) != 0) {
    failure = errno;
    if (failure == EINPROGRESS) {
      failure = ETIMEDOUT;
      socklen_t size = sizeof failure;
      if (poll_until(socket, POLLOUT, deadline)) getsockopt(socket, SOL_SOCKET, SO_ERROR, &failure, &size);
    }
  }
  if (failure == 0) return socket;
  error = why(failure);
  if (socket >= 0) ::close(socket);
  return -1;
}

std::string text_of(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST];
  const auto* any = reinterpret_cast<const sockaddr*>(&address);
  return getnameinfo(any, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) == 0 ? host : "unknown";
}

}  // namespace

std::string PeerAddress::text() const {
  const bool number = host.find(':') != std::string::npos;
  return (number ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::unique_ptr<Connection> connect_tcp(const PeerAddress& address, Deadline deadline) {
  std::string error;
  const Addresses addresses = resolve(address, 0, error);
  for (const addrinfo* entry = addresses.get(); entry != nullptr; entry = entry->ai_next) {
    // One address that does not answer leaves time for the next.
    const Deadline own = entry->ai_next == nullptr ? deadline : Clock::now() + (deadline - Clock::now()) / 2;
    const int socket = connect_to(*entry, own, error);
    if (socket >= 0) return std::make_unique<TcpConnection>(socket);
  }
  throw ConnectionLost(error);
}

TcpListener::TcpListener(PeerAddress address) : socket_(-1), wake_{-1, -1} {
  std::string error;
  const Addresses addresses = resolve(address, AI_PASSIVE, error);
  const addrinfo* entry = addresses.get();
  if (entry != nullptr) {
    socket_ = ::socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int on = 1;
    if (socket_ >= 0) setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (socket_ < 0 || bind(socket_, entry->ai_addr, entry->ai_addrlen) != 0 || listen(socket_, 16) != 0 ||
        pipe2(wake_, O_CLOEXEC) != 0) {
      error = why(errno);
    }
  }
  if (!error.empty()) {
    if (socket_ >= 0) ::close(socket_);
    throw Error("cannot_run", "cannot listen on " + address.text() + ": " + error);
  }
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  getsockname(socket_, reinterpret_cast<sockaddr*>(&bound), &size);
  port_ = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                            : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

TcpListener::~TcpListener() {
  for (const int open : {socket_, wake_[0], wake_[1]}) {
    if (open >= 0) ::close(open);
  }
}

std::unique_ptr<Connection> TcpListener::accept(std::string& from) {
  for (;;) {
    pollfd entries[2] = {{socket_, POLLIN, 0}, {wake_[0], POLLIN, 0}};
    if (poll(entries, 2, -1) < 0 && errno != EINTR) return nullptr;
    if (entries[1].revents != 0) return nullptr;
    if (entries[0].revents == 0) continue;
    sockaddr_storage other{};
    socklen_t size = sizeof other;
    const int socket = accept4(socket_, reinterpret_cast<sockaddr*>(&other), &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket >= 0) {
      from = text_of(other, size);
      return std::make_unique<TcpConnection>(socket);
    }
    // Out of descriptors: the connection waits until one is free.
    if (errno == EMFILE || errno == ENFILE) poll(entries + 1, 1, 100);
  }
}

void TcpListener::close() {
  const char byte = 0;
  if (::write(wake_[1], &byte, 1) < 0) return;
}

}  // namespace sida
