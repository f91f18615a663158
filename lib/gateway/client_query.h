#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/client_list.h"
#include "gateway/reply_slots.h"

namespace keyferry::gateway {

class Pin;
class Session;

/// CLIENT LIST, INFO or KILL of a client on a shared listener. The server judges the command (arity, ACL, filters),
/// without ending anybody, and tells what it knows of its connections; whom the filters mean is found out here, by the
/// gateway's ids, addresses and names, and clients end here, so that no connection that others share is touched (R7).
/// Lives until its reply is given. Belongs to the worker's thread.
class ClientQuery final : public std::enable_shared_from_this<ClientQuery> {
 public:
  /// `silent`: the client gets no reply (CLIENT REPLY).
  ClientQuery(Session& session, SlotTag tag, std::span<const std::string_view> args, bool silent);

  /// `pin`: the client's own connection, ready.
  void ask(Pin& pin);
  /// Its reply is given.
  bool over() const { return over_; }

 private:
  void answer(const std::string& reply);
  void tell(const std::string& text);
  void kill(const std::vector<LocalClient>& matching);
  void killed();
  void finish(const std::string& bytes);

  std::weak_ptr<Session> session_;
  const SlotTag tag_;
  const std::vector<std::string> args_;
  const bool lists_;
  const bool kills_;
  const bool silent_;
  std::string self_;
  std::string refusal_;
  base::TimePoint asked_{};
  std::size_t count_ = 0;
  std::size_t ending_ = 0;
  bool ends_itself_ = false;
  bool over_ = false;
};

}  // namespace keyferry::gateway
