#pragma once

#include <memory>
#include <system_error>

#include "gateway/operation.h"
#include "upstream/connection.h"
#include "upstream/pools.h"

namespace keyferry::gateway {

/// From a command on whose replies can't be counted any more (SUBSCRIBE, MONITOR, CLIENT REPLY, SYNC ...) to the
/// client's end: bytes pass in both directions as they are, so that replies, pushes and silences stand where the server
/// put them (R10, R22). Where the listener has rules, commands are looked at on their way and one that breaks them ends
/// the client. What one side does not take is not read from the other; a subscriber that falls behind is the
/// server's to judge, by its own limits. Belongs to the worker's thread.
class RawPipe final : public Operation {
 public:
  /// `connection` was lent by `pool`; nothing is owed on it.
  RawPipe(Session& session, std::unique_ptr<upstream::Connection> connection, upstream::LendingPool& pool);
  ~RawPipe() override;

  void start() override;
  void client_gone() override;
  void output_drained() override;
  bool patient() const override { return true; }

 private:
  void to_server();
  std::size_t carried();
  void to_client();
  void mark_writes();
  void end();

  std::unique_ptr<upstream::Connection> connection_;
  upstream::LendingPool& pool_;
  bool reading_ = false;
};

}  // namespace keyferry::gateway
