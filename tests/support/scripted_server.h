#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

// A server for unit tests of whatever talks RESP upstream. It listens on 127.0.0.1 and plays a script to each
// connection, from threads of its own, so that a test drives its loop and nothing else:
//
//   ScriptedServer server({Script().handshake().expect_command({"GET", "k"}).send("$1\r\nv\r\n").close()});
//   options.address = {"127.0.0.1", server.port()};
//
// The n-th connection plays the n-th script, later ones the last. What a client sends against its script fails the test
// that runs.

namespace keyferry::test {

class ScriptedServer;

/// What one connection does, step by step. A script that has ended closes its connection, as close() does. A plain
/// value.
class Script {
 public:
  using Command = std::vector<std::string>;
  using Answer = std::function<std::string(const Command&)>;

  /// The client has to send exactly these bytes next.
  Script& expect(std::string bytes);
  /// The client has to send exactly this command next.
  Script& expect_command(Command command);
  /// Takes the next command, whatever it is, and sends what `answer` makes of it. Runs on the connection's thread.
  Script& answer(Answer answer);
  /// As answer(), for every command until the client closes.
  Script& serve(Answer answer);
  /// Answers what a new connection of Keyferry asks first, up to CLIENT ID: HELLO with a map, CLIENT ID with
  /// `client_id`, the rest with +OK.
  Script& handshake(std::uint64_t client_id = 7);
  Script& send(std::string bytes);
  /// Goes on when ScriptedServer::go() has been called once more for this connection than hold()s passed.
  Script& hold();
  /// Reads and ignores everything until the client closes.
  Script& until_closed();
  /// An orderly end.
  Script& close();
  /// An end by RST.
  Script& reset();

 private:
  friend class ScriptedServer;
  enum class Kind { kExpect, kCommand, kAnswer, kServe, kHandshake, kSend, kHold, kUntilClosed, kClose, kReset };
  struct Step {
    Kind kind;
    std::string bytes;
    Command command;
    Answer answer;
    std::uint64_t number = 0;
  };
  Script& add(Step step);
  std::vector<Step> steps_;
};

/// The certificate a server shows: paths of PEM files. Empty: plain TCP.
struct ServerTls {
  std::string cert;
  std::string key;
  /// Given: a client certificate signed by it is required.
  std::string client_ca;
};

/// Listens from its construction on. The test's thread calls; one thread accepts and each connection has its own;
/// mutex_ guards what they share (the log of commands and the holds), and the destructor ends all of them.
class ScriptedServer {
 public:
  /// `port` 0: any free one. Throws std::runtime_error when it can't listen or the certificate can't be loaded.
  explicit ScriptedServer(std::vector<Script> scripts, ServerTls tls = {}, std::uint16_t port = 0);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  std::uint16_t port() const { return port_; }
  /// Lets one hold() of connection `index` (0 = the first one accepted) pass; may be called before it is reached.
  void go(std::size_t index = 0);
  /// Sends out of the script's turn.
  void send_now(std::size_t index, std::string_view bytes);
  /// Waits until that connection's script has ended or its client has closed.
  void wait_ended(std::size_t index = 0);
  /// Waits until `count` connections have been accepted.
  void wait_accepted(std::size_t count);
  std::size_t accepted() const;
  /// Connections whose script has not ended.
  std::size_t running() const;
  /// Every command taken by connection `index` (the handshake's too), as far as expect_command, answer, serve and
  /// handshake took them.
  std::vector<Script::Command> commands(std::size_t index = 0) const;
  /// Connections that took up an earlier TLS session.
  std::size_t resumed() const;
  /// How many reads it took to get what the connection sent so far.
  std::size_t reads(std::size_t index = 0) const;

 private:
  struct Peer;
  struct TlsContext;
  void accept_loop();
  void play(Peer& peer);
  bool play_step(Peer& peer, const Script::Step& step);
  bool expect_bytes(Peer& peer, const std::string& bytes);
  bool take_command(Peer& peer, Script::Command& command);
  void handshake(Peer& peer, std::uint64_t client_id);
  Peer& peer_at(std::unique_lock<std::mutex>& lock, std::size_t index) const;

  std::vector<Script> scripts_;
  std::unique_ptr<TlsContext> tls_;
  int listener_ = -1;
  int stop_event_ = -1;
  std::uint16_t port_ = 0;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool stopping_ = false;
  std::size_t resumed_ = 0;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::thread acceptor_;
};

}  // namespace keyferry::test
