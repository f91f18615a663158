#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/loop.h"
#include "base/result.h"
#include "upstream/connection.h"

namespace keyferry::transfer {

/// Asks a node for a sign of life on a connection of its own while it owes replies for long (R35: never judged by how
/// long the bulk takes). An answer of any kind is life, BUSY, LOADING or being turned away included. Silence for `wait`
/// is not, nor a connection that can't be made; what went wrong on this side (no descriptor, no name) says nothing. The
/// connection is dialled when it is needed and dropped when nothing is owed. Engine's thread only.
class NodeProbe {
 public:
  struct Options {
    /// How long a reply is owed before the node is asked, and the pause between questions.
    base::Duration after;
    /// For dialling, and again for an answer.
    base::Duration wait;
  };
  /// Since when the reply that is owed longest is owed.
  using Owed = std::function<std::optional<base::TimePoint>()>;
  /// The node has failed a probe that began at `asked`.
  using Dead = std::function<void(base::TimePoint asked, std::string text)>;

  NodeProbe(base::Loop& loop, const upstream::ConnectOptions& connect, Options options, Owed owed, Dead dead);
  ~NodeProbe();

  /// Something is owed from now on.
  void watch();
  void stop();

 private:
  void look();
  void ask();
  void connected(base::Result<std::unique_ptr<upstream::Connection>> result);
  void ping();
  void read();
  void received(std::error_code error, std::string_view bytes);
  void go_on();
  void failed(std::string text);
  void drop();
  void again(base::Duration pause);
  template <typename Callable>
  auto guarded(Callable callable);

  base::Loop& loop_;
  upstream::ConnectOptions connect_;
  Options options_;
  Owed owed_;
  Dead dead_;
  base::Timer timer_;
  std::unique_ptr<upstream::Connection> connection_;
  bool watching_ = false;
  bool asking_ = false;
  base::TimePoint asked_;
  /// Answers of an earlier connection, or after this object, are dropped.
  std::shared_ptr<int> turn_ = std::make_shared<int>(0);
};

}  // namespace keyferry::transfer
