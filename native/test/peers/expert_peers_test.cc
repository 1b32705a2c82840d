// Experts that other processes hold. Answers have the bits of one machine at every split, also when a peer fails.
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "peers/expert_peer.h"
#include "peers/peer_visit.h"
#include "support/oracle_cases.h"

namespace {

using Clock = std::chrono::steady_clock;

const PeerSecrets kSecrets{"key", "model"};
/// Loads an expert of a fixture in half a millisecond, so that asking for it pays.
constexpr SimulatedLink kSlowLoads{.bandwidth = 8e6};

Deadline soon() { return Clock::now() + std::chrono::seconds(5); }

/// 1 where an expert's place in its layer is one of `shares`, of `of`.
std::vector<uint8_t> share_of(const Pack& pack, const std::vector<size_t>& shares, size_t of) {
  std::vector<uint8_t> held(pack.experts.experts());
  for (ExpertId id = 0; id < held.size(); ++id) {
    held[id] = std::ranges::count(shares, pack.experts.shape.place(id).index % of) > 0;
  }
  return held;
}

std::unique_ptr<ExpertPeer> start_peer(const PackedFixture& f, const std::vector<size_t>& shares, size_t of,
                                       ActivationFormat activations = ActivationFormat::kF32, uint16_t port = 0) {
  auto peer = std::make_unique<ExpertPeer>(ExpertPeerOptions{.pack = f.pack.path(),
                                                             .held = share_of(open_pack(f.pack.path()), shares, of),
                                                             .budget_bytes = uint64_t{1} << 30,
                                                             .threads = 2,
                                                             .activations = activations,
                                                             .address = {"127.0.0.1", port},
                                                             .secrets = kSecrets});
  while (peer->load(5) > 0) continue;
  peer->start();
  return peer;
}

EngineOptions options_with(const PackedFixture& f, double share, const std::vector<uint16_t>& ports,
                           ActivationFormat activations = ActivationFormat::kF32) {
  BatchLimits limits{64, 1024, 2};
  limits.activations = activations;
  EngineOptions options = f.options(limits, share);
  options.link = kSlowLoads;
  options.peers.secrets = kSecrets;
  for (const uint16_t port : ports) options.peers.peers.push_back({"127.0.0.1", port});
  return options;
}

struct Answer {
  std::vector<float> values;
  uint64_t by_peers = 0;
};

Answer answer(Engine& engine, const PackedFixture& f, size_t chunk = 5) {
  Answer result;
  if (engine.spec().stacks.size() > 1) {
    const Run out = run(engine, pass_of(0, f.list[0].ids, f.list[0].offsets, f.list[0].tokens));
    result = {out.hidden, out.stats.peer};
    release(engine, f.list[0].ids);
  } else {
    const std::vector<int32_t>& prompt = f.list[0].tokens;
    for (size_t begin = 0; begin < prompt.size(); begin += chunk) {
      const Run out = feed(engine, 1, part_of(prompt, begin, std::min(chunk, prompt.size() - begin)));
      result.values.insert(result.values.end(), out.logits.begin(), out.logits.end());
      result.by_peers += out.stats.peer;
    }
    release(engine, {1});
  }
  engine.check_integrity();
  return result;
}

TEST_CASE("expert peers: the bits of one machine at every split, budget and type of activations") {
  for (const auto& [name, activations] :
       grid(std::vector<const char*>{"olmoe-tiny", "gpt-oss-tiny", "gemma4-tiny", "deepseek-v3-tiny", "qwen3-next-tiny",
                                     "switch-tiny-untied"},
            std::vector{ActivationFormat::kF32, ActivationFormat::kBf16})) {
    const PackedFixture f(name, kBf16Format, kBf16Format);
    EngineOptions alone = options_with(f, 1, {}, activations);
    Engine one(alone);
    const Answer expected = answer(one, f);
    CHECK(expected.by_peers == 0);
    const auto second = start_peer(f, {1}, 2, activations);
    const auto third = start_peer(f, {1}, 3, activations), last = start_peer(f, {2}, 3, activations);
    const auto both = start_peer(f, {0, 1}, 2, activations);
    uint64_t by_peers = 0;
    for (const auto& [ports, share] :
         grid(std::vector<std::vector<uint16_t>>{{second->port()},
                                                 {third->port(), last->port()},
                                                 {both->port()},
                                                 {both->port(), second->port(), last->port()}},
              std::vector{0.5, 0.0})) {
      CASE(name, activation_format_name(activations), ports.size(), share);
      Engine engine(options_with(f, share, ports, activations));
      for (int turn = 0; turn < 2; ++turn) {
        const Answer with_peers = answer(engine, f);
        CHECK(same_bits(with_peers.values, expected.values));
        by_peers += with_peers.by_peers;
      }
      for (const PeerLinkStats& peer : engine.peers().stats()) CHECK(peer.failures == 0);
    }
    CHECK(by_peers > 0);
  }
}

/// Welcomes servers as a peer that holds all experts, and does as `answer` says when it is asked for some.
class FalsePeer {
 public:
  FalsePeer(const PackedFixture& f, std::function<void(Connection&)> answer)
      : thread_([this, experts = open_pack(f.pack.path()).experts.experts(), answer = std::move(answer)] {
          const PeerOffer offer{{.rows = 2048, .choices = 4096}, std::vector<uint8_t>(experts, 1)};
          std::string from;
          while (auto connection = listener_.accept(from)) {
            try {
              greet_server(*connection, kSecrets, offer, soon(), [] { return true; });
              while (echo(*connection)) continue;
              answer(*connection);
            } catch (const ConnectionLost&) {
            }
          }
        }) {}
  ~FalsePeer() {
    listener_.close();
    thread_.join();
  }
  uint16_t port() const { return listener_.port(); }
  /// Milliseconds that each round trip takes.
  std::atomic<int> delay = 0;

 private:
  bool echo(Connection& connection) {
    PeerRequest request;
    connection.receive(value_buffer(request), soon());
    if (request.kind != PeerRequestKind::kEcho) return false;
    std::vector<std::byte> bytes(request.rows);
    connection.receive(bytes, soon());
    std::this_thread::sleep_for(std::chrono::milliseconds(delay));
    connection.send(bytes, soon());
    return true;
  }

  TcpListener listener_{{"127.0.0.1", 0}};
  std::thread thread_;
};

TEST_CASE("expert peers: one that is too slow does not keep its experts, and is asked once it is fast") {
  const PackedFixture f("olmoe-tiny");
  const Pack pack = open_pack(f.pack.path());
  FalsePeer peer(f, [](Connection& connection) { connection.close(); });
  peer.delay = 20;
  PeerLinks links({{{"127.0.0.1", peer.port()}}, kSecrets}, pack.experts, 8e6);
  Dispatch dispatch;
  dispatch.expert = {1};
  dispatch.alpha = {1};
  sort_choices(pack.spec.experts(), 1, {}, dispatch);
  const std::vector<uint8_t> absent(pack.spec.experts(), 1);
  const auto is_asked = [&] { return !PeerVisit(links, 0, dispatch, absent).asked().empty(); };
  std::vector<uint8_t> held;
  CHECK(links.take_held(held));
  CHECK(std::ranges::count(held, 1) == static_cast<ptrdiff_t>(held.size()));
  for (int visit = 0; visit < 8; ++visit) CHECK(!is_asked());
  CHECK(links.take_held(held));
  CHECK(std::ranges::count(held, 1) == 0);
  peer.delay = 0;
  const Deadline limit = Clock::now() + std::chrono::seconds(20);
  bool asked = false;
  while (!asked && Clock::now() < limit) {
    asked = is_asked();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  CHECK(asked);
  CHECK(links.take_held(held));
  CHECK(std::ranges::count(held, 1) == static_cast<ptrdiff_t>(held.size()));
}

TEST_CASE("expert peers: several that freeze take no longer than one, and are tried less and less often") {
  const PackedFixture f("olmoe-tiny");
  Engine one(options_with(f, 1, {}));
  const Answer expected = answer(one, f);
  const auto freeze = [](Connection& connection) {
    connection.wait(Clock::now());
    std::this_thread::sleep_for(std::chrono::seconds(1));
  };
  FalsePeer first(f, freeze), second(f, freeze), third(f, freeze);
  Engine engine(options_with(f, 0, {first.port(), second.port(), third.port()}));
  const auto begin = Clock::now();
  CHECK(same_bits(answer(engine, f).values, expected.values));
  CHECK(Clock::now() - begin < std::chrono::seconds(4));
}

TEST_CASE("expert peers: a peer without memory for another server tells it") {
  const PackedFixture f("olmoe-tiny");
  const Pack pack = open_pack(f.pack.path());
  const auto roomy = start_peer(f, {1}, 2);
  const auto connection = connect_tcp({"127.0.0.1", roomy->port()}, soon());
  static_cast<void>(greet_peer(*connection, kSecrets, pack.experts.experts(), soon()));
  ExpertPeer small({.pack = f.pack.path(),
                    .held = share_of(pack, {1}, 2),
                    .budget_bytes = roomy->used_bytes(),
                    .address = {"127.0.0.1", 0},
                    .secrets = kSecrets});
  while (small.load(100) > 0) continue;
  small.start();
  const auto admitted = connect_tcp({"127.0.0.1", small.port()}, soon());
  static_cast<void>(greet_peer(*admitted, kSecrets, pack.experts.experts(), soon()));
  const auto refused = connect_tcp({"127.0.0.1", small.port()}, soon());
  CHECK_THROWS_WITH_AS(static_cast<void>(greet_peer(*refused, kSecrets, pack.experts.experts(), soon())),
                       "it has no room for another server", ConnectionLost);
}

TEST_CASE("expert peers: silent strangers keep no server out") {
  const PackedFixture f("olmoe-tiny");
  const Pack pack = open_pack(f.pack.path());
  const auto peer = start_peer(f, {1}, 2);
  std::vector<std::unique_ptr<Connection>> strangers;
  for (int i = 0; i < 100; ++i) strangers.push_back(connect_tcp({"127.0.0.1", peer->port()}, soon()));
  const Deadline limit = Clock::now() + std::chrono::seconds(10);
  bool greeted = false;
  while (!greeted && Clock::now() < limit) {
    try {
      const auto connection = connect_tcp({"127.0.0.1", peer->port()}, soon());
      static_cast<void>(greet_peer(*connection, kSecrets, pack.experts.experts(), soon()));
      greeted = true;
    } catch (const ConnectionLost&) {
    }
  }
  CHECK(greeted);
}

TEST_CASE("expert peers: one that dies, freezes or stops in its answer changes no bit, and the pass goes on") {
  const PackedFixture f("olmoe-tiny");
  Engine one(options_with(f, 1, {}));
  const Answer expected = answer(one, f);
  const std::vector<std::function<void(Connection&)>> faults{
      [](Connection& connection) { connection.close(); },
      [](Connection& connection) {
        connection.wait(Clock::now() + std::chrono::seconds(1)),
            std::this_thread::sleep_for(std::chrono::milliseconds(600));
      },
      [](Connection& connection) {
        const PeerReply reply{};
        connection.send(value_bytes(reply), soon());
        connection.send(std::as_bytes(std::span("half of a row")), soon());
      },
      [](Connection& connection) {
        connection.send(std::as_bytes(std::span("x")), soon());
        std::this_thread::sleep_for(std::chrono::milliseconds(600));
      },
  };
  for (size_t fault = 0; fault < faults.size(); ++fault) {
    CASE(fault);
    const FalsePeer liar(f, faults[fault]);
    const auto honest = start_peer(f, {1}, 2);
    for (const double share : {0.5, 0.0}) {
      Engine engine(options_with(f, share, {liar.port(), honest->port()}));
      const auto begin = Clock::now();
      CHECK(same_bits(answer(engine, f).values, expected.values));
      CHECK(Clock::now() - begin < std::chrono::seconds(5));
      CHECK(engine.peers().stats()[0].failures >= 1);
      CHECK(!engine.peers().stats()[0].error.empty());
      CHECK(engine.peers().stats()[1].failures == 0);
    }
  }
}

TEST_CASE("expert peers: servers that share the peers of all experts, at the same time") {
  const PackedFixture f("olmoe-tiny");
  Engine one(options_with(f, 1, {}));
  const Answer expected = answer(one, f);
  const auto first = start_peer(f, {0}, 2), second = start_peer(f, {1}, 2);
  std::vector<Answer> answers(3);
  std::vector<std::thread> servers;
  for (Answer& own : answers) {
    servers.emplace_back([&] {
      Engine engine(options_with(f, 0, {first->port(), second->port()}));
      for (int turn = 0; turn < 4; ++turn) own = answer(engine, f);
    });
  }
  for (std::thread& server : servers) server.join();
  for (const Answer& own : answers) {
    CHECK(same_bits(own.values, expected.values));
    CHECK(own.by_peers > 0);
  }
}

TEST_CASE("expert peers: one that ends is found again when it is back") {
  const PackedFixture f("olmoe-tiny");
  Engine one(options_with(f, 1, {}));
  const Answer expected = answer(one, f);
  auto peer = start_peer(f, {0, 1}, 2);
  const uint16_t port = peer->port();
  Engine engine(options_with(f, 0, {port}));
  CHECK(answer(engine, f).by_peers > 0);
  peer = nullptr;
  const Answer without = answer(engine, f);
  CHECK(same_bits(without.values, expected.values));
  CHECK(without.by_peers == 0);
  peer = start_peer(f, {0, 1}, 2, ActivationFormat::kF32, port);
  const Deadline limit = soon();
  while (!engine.peers().stats()[0].connected && Clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const Answer again = answer(engine, f);
  CHECK(same_bits(again.values, expected.values));
  CHECK(again.by_peers > 0);
}

TEST_CASE("expert peers: another key or identity is refused on both sides") {
  const PackedFixture f("olmoe-tiny");
  const auto peer = start_peer(f, {1}, 2);
  for (const PeerSecrets& other : {PeerSecrets{"other", "model"}, PeerSecrets{"", "model"}, PeerSecrets{"key", "x"}}) {
    CASE(other.key, other.identity);
    EngineOptions options = options_with(f, 0, {peer->port()});
    options.peers.secrets = other;
    Engine engine(options);
    CHECK(answer(engine, f).by_peers == 0);
    const PeerLinkStats stats = engine.peers().stats()[0];
    CHECK(!stats.connected);
    CHECK(stats.error.find(other.key == "key" ? "another model" : "another key") != std::string::npos);
  }
  CHECK(peer->stats().refused >= 3);
  CHECK(peer->stats().last_refused ==
        "127.0.0.1: it serves another model, element type, or has other --activations or "
        "another version of sida");
  CHECK(peer->stats().requests == 0);
}

/// A connection that has passed the greeting.
std::unique_ptr<Connection> greeted(const ExpertPeer& peer, size_t experts) {
  auto connection = connect_tcp({"127.0.0.1", peer.port()}, soon());
  static_cast<void>(greet_peer(*connection, kSecrets, experts, soon()));
  return connection;
}

/// Whether the peer ends the connection without an answer.
bool is_ended(Connection& connection) {
  std::byte byte;
  try {
    connection.receive({&byte, 1}, soon());
  } catch (const ConnectionLost& lost) {
    return lost.what() != std::string("no answer in time");
  }
  return false;
}

TEST_CASE("expert peers: a malformed request ends its connection and nothing else") {
  const PackedFixture f("olmoe-tiny");
  const Pack pack = open_pack(f.pack.path());
  const auto peer = start_peer(f, {1}, 2);
  const auto request_of = [](PeerRequest request, const std::vector<AskedExpert>& experts,
                             const std::vector<uint32_t>& rest) {
    std::vector<std::byte> bytes;
    for (const auto part : {value_bytes(request), std::as_bytes(std::span(experts)), std::as_bytes(std::span(rest))}) {
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
    return bytes;
  };
  const uint32_t most = UINT32_MAX;
  const PeerRequest one{.layer = 0, .experts = 1, .choices = 1, .rows = 1};
  const PeerRequest two{.layer = 0, .experts = 2, .choices = 2, .rows = 1};
  const std::vector<std::vector<std::byte>> wrong{
      request_of({.kind = PeerRequestKind{7}}, {}, {}),
      request_of({.kind = PeerRequestKind::kEcho, .rows = most}, {}, {}),
      request_of({.layer = most, .experts = 1, .choices = 1, .rows = 1}, {}, {}),
      request_of({.layer = 0, .experts = most, .choices = 1, .rows = 1}, {}, {}),
      request_of({.layer = 0, .experts = 1, .choices = most, .rows = 1}, {}, {}),
      request_of({.layer = 0, .experts = 1, .choices = 1, .rows = most}, {}, {}),
      request_of({.layer = 0, .experts = 0, .choices = 0, .rows = 0}, {}, {}),
      request_of(one, {{0, 1}}, {0}),             // not held
      request_of(one, {{most, 1}}, {0}),          // no expert
      request_of(one, {{1, 2}}, {0}),             // more choices than follow
      request_of(one, {{1, 0}}, {0}),             // none
      request_of(one, {{1, 1}}, {1}),             // no such row
      request_of(two, {{1, 1}, {1, 1}}, {0, 0}),  // twice
      request_of(two, {{1, most}, {3, 3}}, {0, 0}),
  };
  for (size_t i = 0; i < wrong.size(); ++i) {
    CASE(i);
    const auto connection = greeted(*peer, pack.experts.experts());
    connection->send(wrong[i], soon());
    CHECK(is_ended(*connection));
  }
  for (const std::string text :
       {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n                      ", "sidaXP01 and no more"}) {
    const auto stranger = connect_tcp({"127.0.0.1", peer->port()}, soon());
    stranger->send(std::as_bytes(std::span(text)), soon());
    if (text[0] == 'G') CHECK(is_ended(*stranger));
  }
  CHECK(peer->stats().requests == 0);
  Engine one_machine(options_with(f, 1, {})), engine(options_with(f, 0, {peer->port()}));
  const Answer with_peer = answer(engine, f);
  CHECK(same_bits(with_peer.values, answer(one_machine, f).values));
  CHECK(with_peer.by_peers > 0);
}

TEST_CASE("expert peers: a budget below the share says what is needed, an address in use which one") {
  const PackedFixture f("olmoe-tiny");
  const Pack pack = open_pack(f.pack.path());
  ExpertPeerOptions options{.pack = f.pack.path(),
                            .held = share_of(pack, {1}, 2),
                            .budget_bytes = 4096,
                            .address = {"127.0.0.1", 0},
                            .secrets = kSecrets};
  uint64_t needed = 0;
  try {
    ExpertPeer peer(options);
  } catch (const Error& error) {
    CHECK(error.code() == "budget_too_small");
    needed = static_cast<uint64_t>(error.numbers().at("needed_bytes"));
  }
  options.budget_bytes = needed;
  ExpertPeer peer(options);
  while (peer.load(100) > 0) continue;
  CHECK(peer.used_bytes() <= needed);
  options.address.port = peer.port();
  CHECK_THROWS_WITH_AS(ExpertPeer{options}, doctest::Contains("Address already in use"), Error);
}

TEST_CASE("HMAC-SHA-256: the test cases of RFC 4231") {
  CHECK(hmac_sha256(std::string(20, '\x0b'), "Hi There") ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hmac_sha256("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

}  // namespace
