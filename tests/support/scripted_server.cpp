#include "tests/support/scripted_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>

namespace keyferry::test {

Script& Script::add(Step step) {
  steps_.push_back(std::move(step));
  return *this;
}
Script& Script::expect(std::string bytes) {
  return add({Kind::kExpect, std::move(bytes), {}, {}});
}
Script& Script::expect_command(Command command) {
  return add({Kind::kCommand, {}, std::move(command), {}});
}
Script& Script::answer(Answer answer) {
  return add({Kind::kAnswer, {}, {}, std::move(answer)});
}
Script& Script::serve(Answer answer) {
  return add({Kind::kServe, {}, {}, std::move(answer)});
}
Script& Script::handshake(std::uint64_t client_id) {
  return add({Kind::kHandshake, {}, {}, {}, client_id});
}
Script& Script::send(std::string bytes) {
  return add({Kind::kSend, std::move(bytes), {}, {}});
}
Script& Script::hold() {
  return add({Kind::kHold, {}, {}, {}});
}
Script& Script::until_closed() {
  return add({Kind::kUntilClosed, {}, {}, {}});
}
Script& Script::close() {
  return add({Kind::kClose, {}, {}, {}});
}
Script& Script::reset() {
  return add({Kind::kReset, {}, {}, {}});
}

struct ScriptedServer::TlsContext {
  SSL_CTX* context = nullptr;
  ~TlsContext() { SSL_CTX_free(context); }
};

// Its own thread reads the socket; the mutex of the server guards `commands`, `reads`, `passes` and `ended`.
struct ScriptedServer::Peer {
  int fd = -1;
  SSL* ssl = nullptr;
  const Script* script = nullptr;
  std::size_t index = 0;
  std::string input;
  std::vector<Script::Command> commands;
  std::size_t reads = 0;
  std::size_t passes = 0;
  bool reset = false;
  bool ended = false;
  std::thread thread;

  ssize_t receive(char* to, std::size_t room) {
    if (ssl != nullptr) return SSL_read(ssl, to, static_cast<int>(room));
    return ::recv(fd, to, room, 0);
  }
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ssl != nullptr ? SSL_write(ssl, bytes.data(), static_cast<int>(bytes.size()))
                                          : ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
};

namespace {

std::runtime_error failed(const std::string& what) {
  return std::runtime_error("scripted server: " + what + ": " + std::strerror(errno));
}

// Takes one command (an array of bulk strings) off the front of `input`; none if it is not complete yet.
std::optional<Script::Command> parse_command(std::string& input) {
  std::size_t at = 0;
  const auto number = [&](char type) -> std::optional<std::size_t> {
    const std::size_t end = input.find("\r\n", at);
    if (end == std::string::npos) return std::nullopt;
    if (input[at] != type) throw std::runtime_error("not a command: " + input.substr(at, 64));
    const std::size_t value = std::stoul(input.substr(at + 1, end - at - 1));
    at = end + 2;
    return value;
  };
  const auto count = number('*');
  if (!count) return std::nullopt;
  Script::Command command;
  for (std::size_t i = 0; i < *count; ++i) {
    const auto length = number('$');
    if (!length || input.size() < at + *length + 2) return std::nullopt;
    command.push_back(input.substr(at, *length));
    at += *length + 2;
  }
  input.erase(0, at);
  return command;
}

std::string words(const Script::Command& command) {
  std::string text;
  for (const std::string& word : command) text += (text.empty() ? "" : " ") + word;
  return text;
}

SSL_CTX* make_context(const ServerTls& tls) {
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  bool good = SSL_CTX_use_certificate_chain_file(context, tls.cert.c_str()) == 1 &&
              SSL_CTX_use_PrivateKey_file(context, tls.key.c_str(), SSL_FILETYPE_PEM) == 1;
  if (!tls.client_ca.empty()) {
    good = good && SSL_CTX_load_verify_locations(context, tls.client_ca.c_str(), nullptr) == 1;
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  if (!good) {
    SSL_CTX_free(context);
    throw std::runtime_error("scripted server: cannot load " + tls.cert + ", " + tls.key + " or " + tls.client_ca);
  }
  return context;
}

}  // namespace

ScriptedServer::ScriptedServer(std::vector<Script> scripts, ServerTls tls, std::uint16_t port)
    : scripts_(std::move(scripts)) {
  if (!tls.cert.empty()) {
    tls_ = std::make_unique<TlsContext>();
    tls_->context = make_context(tls);
  }
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  stop_event_ = ::eventfd(0, EFD_CLOEXEC);
  const int on = 1;
  ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_, plain, length) != 0 || ::listen(listener_, 64) != 0 ||
      ::getsockname(listener_, plain, &length) != 0) {
    const std::runtime_error error = failed("cannot listen");
    ::close(listener_);
    ::close(stop_event_);
    throw error;
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_loop(); });
}

ScriptedServer::~ScriptedServer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const auto& peer : peers_) {
      if (!peer->ended) ::shutdown(peer->fd, SHUT_RDWR);
    }
  }
  changed_.notify_all();
  const std::uint64_t one = 1;
  static_cast<void>(!::write(stop_event_, &one, sizeof(one)));
  acceptor_.join();
  for (const auto& peer : peers_) peer->thread.join();
  ::close(listener_);
  ::close(stop_event_);
}

void ScriptedServer::accept_loop() {
  for (;;) {
    pollfd watched[2] = {{listener_, POLLIN, 0}, {stop_event_, POLLIN, 0}};
    if (::poll(watched, 2, -1) < 0 && errno != EINTR) return;
    if (watched[1].revents != 0) return;
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    const std::lock_guard lock(mutex_);
    if (stopping_) {
      ::close(fd);
      return;
    }
    auto peer = std::make_unique<Peer>();
    peer->fd = fd;
    peer->index = peers_.size();
    peer->script = &scripts_[std::min(peers_.size(), scripts_.size() - 1)];
    peers_.push_back(std::move(peer));
    Peer& made = *peers_.back();
    made.thread = std::thread([this, &made] { play(made); });
    changed_.notify_all();
  }
}

void ScriptedServer::play(Peer& peer) {
  bool up = true;
  // OpenSSL writes without MSG_NOSIGNAL.
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  if (tls_) {
    peer.ssl = SSL_new(tls_->context);
    SSL_set_fd(peer.ssl, peer.fd);
    up = SSL_accept(peer.ssl) == 1;
    if (up && SSL_session_reused(peer.ssl) == 1) {
      const std::lock_guard lock(mutex_);
      ++resumed_;
    }
  }
  try {
    for (const Script::Step& step : peer.script->steps_) {
      if (!up || !play_step(peer, step)) break;
    }
  } catch (const std::exception& error) {
    ADD_FAILURE() << "scripted server, connection " << peer.index << ": " << error.what();
  }
  const std::lock_guard lock(mutex_);
  if (peer.ssl != nullptr) {
    if (up && !peer.reset) SSL_shutdown(peer.ssl);
    SSL_free(peer.ssl);
    ERR_clear_error();
  }
  if (peer.reset) {
    const linger now{1, 0};
    ::setsockopt(peer.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  }
  ::close(peer.fd);
  peer.ended = true;
  changed_.notify_all();
}

bool ScriptedServer::expect_bytes(Peer& peer, const std::string& bytes) {
  const std::string_view wanted = bytes;
  std::size_t same = 0;
  for (;;) {
    const std::size_t next = std::min(peer.input.size(), wanted.size());
    const bool right = wanted.substr(same, next - same) == std::string_view(peer.input).substr(same, next - same);
    if (!right || next == wanted.size()) {
      same = right ? next : same;
      break;
    }
    same = next;
    char buffer[65536];
    const ssize_t got = peer.receive(buffer, sizeof(buffer));
    if (got <= 0) break;
    peer.input.append(buffer, static_cast<std::size_t>(got));
    const std::lock_guard lock(mutex_);
    ++peer.reads;
  }
  const std::lock_guard lock(mutex_);
  if (same < wanted.size() && !stopping_) {
    constexpr std::size_t kShown = 200;
    ADD_FAILURE() << "connection " << peer.index << ", after " << same << " bytes as expected, sent\n"
                  << peer.input.substr(same, kShown) << "\ninstead of\n"
                  << wanted.substr(same, kShown);
  }
  peer.input.erase(0, wanted.size());
  return same == wanted.size();
}

bool ScriptedServer::play_step(Peer& peer, const Script::Step& step) {
  Script::Command command;
  switch (step.kind) {
    case Script::Kind::kExpect:
      return expect_bytes(peer, step.bytes);
    case Script::Kind::kCommand: {
      const bool got = take_command(peer, command);
      const std::lock_guard lock(mutex_);
      if (command != step.command && !stopping_) {
        ADD_FAILURE() << "connection " << peer.index << " sent '" << words(command) << "' instead of '"
                      << words(step.command) << "'";
      }
      return got && command == step.command;
    }
    case Script::Kind::kAnswer:
      return take_command(peer, command) && peer.send(step.answer(command));
    case Script::Kind::kServe:
      while (take_command(peer, command) && peer.send(step.answer(command))) {
      }
      return true;
    case Script::Kind::kHandshake:
      handshake(peer, step.number);
      return true;
    case Script::Kind::kSend:
      return peer.send(step.bytes);
    case Script::Kind::kHold: {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || peer.passes > 0; });
      if (peer.passes > 0) --peer.passes;
      return !stopping_;
    }
    case Script::Kind::kUntilClosed: {
      char buffer[65536];
      while (peer.receive(buffer, sizeof(buffer)) > 0) {
        const std::lock_guard lock(mutex_);
        ++peer.reads;
      }
      return true;
    }
    case Script::Kind::kReset:
      peer.reset = true;
      return false;
    case Script::Kind::kClose:
      return false;
  }
  return false;
}

bool ScriptedServer::take_command(Peer& peer, Script::Command& command) {
  for (;;) {
    if (auto parsed = parse_command(peer.input)) {
      command = *parsed;
      const std::lock_guard lock(mutex_);
      peer.commands.push_back(std::move(*parsed));
      changed_.notify_all();
      return true;
    }
    char buffer[65536];
    const ssize_t got = peer.receive(buffer, sizeof(buffer));
    if (got <= 0) return false;
    peer.input.append(buffer, static_cast<std::size_t>(got));
    const std::lock_guard lock(mutex_);
    ++peer.reads;
  }
}

void ScriptedServer::handshake(Peer& peer, std::uint64_t client_id) {
  Script::Command command;
  while (take_command(peer, command)) {
    if (command[0] == "HELLO") {
      peer.send("%2\r\n$6\r\nserver\r\n$6\r\nvalkey\r\n$5\r\nproto\r\n:3\r\n");
    } else if (command == Script::Command{"CLIENT", "ID"}) {
      peer.send(":" + std::to_string(client_id) + "\r\n");
      return;
    } else {
      peer.send("+OK\r\n");
    }
  }
}

ScriptedServer::Peer& ScriptedServer::peer_at(std::unique_lock<std::mutex>& lock, std::size_t index) const {
  changed_.wait(lock, [&] { return peers_.size() > index; });
  return *peers_[index];
}

void ScriptedServer::go(std::size_t index) {
  std::unique_lock lock(mutex_);
  ++peer_at(lock, index).passes;
  changed_.notify_all();
}

void ScriptedServer::send_now(std::size_t index, std::string_view bytes) {
  std::unique_lock lock(mutex_);
  Peer& peer = peer_at(lock, index);
  if (!peer.ended) peer.send(bytes);
}

void ScriptedServer::wait_ended(std::size_t index) {
  std::unique_lock lock(mutex_);
  Peer& peer = peer_at(lock, index);
  changed_.wait(lock, [&] { return peer.ended; });
}

void ScriptedServer::wait_accepted(std::size_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return peers_.size() >= count; });
}

std::size_t ScriptedServer::resumed() const {
  const std::lock_guard lock(mutex_);
  return resumed_;
}

std::size_t ScriptedServer::accepted() const {
  const std::lock_guard lock(mutex_);
  return peers_.size();
}

std::size_t ScriptedServer::running() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(peers_.begin(), peers_.end(), [](const auto& peer) { return !peer->ended; }));
}

std::vector<Script::Command> ScriptedServer::commands(std::size_t index) const {
  std::unique_lock lock(mutex_);
  return peer_at(lock, index).commands;
}

std::size_t ScriptedServer::reads(std::size_t index) const {
  std::unique_lock lock(mutex_);
  return peer_at(lock, index).reads;
}

}  // namespace keyferry::test
