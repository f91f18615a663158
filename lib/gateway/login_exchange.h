#pragma once

#include <memory>
#include <string>
#include <system_error>

#include "base/loop.h"
#include "base/unique_function.h"
#include "gateway/operation.h"
#include "gateway/reply_slots.h"
#include "resp/reply_scanner.h"
#include "upstream/connection.h"

namespace keyferry::gateway {

/// AUTH, and HELLO with AUTH: asked of the server as the first command of a connection made for it, whose reply is the
/// client's (R54). Nothing is compared here, and nothing that another client has proved counts. The connection is
/// closed afterwards and counts against limits.pinned_short meanwhile. A server that does not answer in the time that a
/// connection may take (limits.upstream_wait) ends it with an error: a login is the part of a handshake. Belongs to the
/// worker's thread.
class LoginExchange final : public Operation {
 public:
  /// `command`: whole, in RESP. `then` runs if the server agrees, before the client can see that.
  LoginExchange(Session& session, SlotTag tag, std::string command, base::Task then);
  ~LoginExchange() override;

  void start() override;
  void client_gone() override;

 private:
  void on_connection(base::Result<std::unique_ptr<upstream::Connection>> connection);
  void read();
  void on_reply(std::error_code error, std::string_view bytes);
  void fail(const std::string& reason);
  void end();

  SlotTag tag_;
  std::string command_;
  base::Task then_;
  std::unique_ptr<upstream::Connection> connection_;
  base::Timer limit_;
  resp::ReplyScanner scanner_;
  std::string reply_;
  bool gone_ = false;
};

}  // namespace keyferry::gateway
