#pragma once

#include <cstdint>
#include <memory>

namespace keyferry::gateway {

class Session;

/// A command that is more than one message forwarded: it has a connection, a lease or the client's input for itself.
/// Made and owned by its session, which starts it in program order; lives until it calls Session::operation_done().
/// Belongs to the worker's thread.
class Operation : public std::enable_shared_from_this<Operation> {
 public:
  /// Keeps the session alive: an answer from another thread may come after the client has gone.
  explicit Operation(Session& session);
  virtual ~Operation();
  virtual void start() = 0;
  /// The client is gone: nothing can be delivered any more. The operation gives back what it can at once and ends by
  /// operation_done() when nothing it holds is under way.
  virtual void client_gone() = 0;
  /// What was queued for the client has left, so that there is room for more.
  virtual void output_drained() {}

  /// The server's id of the connection that it has for itself; 0: none that it knows.
  virtual std::uint64_t server_id() const { return 0; }

  /// It may last as long as its client and holds nothing that others wait for: limits.stall and limits.client_idle are
  /// not for it.
  virtual bool patient() const { return false; }

  /// It takes no input until something comes that may never come.
  virtual bool blocked() const { return false; }

  /// A large GET: consecutive ones overlap, and lease in order (design: Session, Pool).
  virtual bool is_get() const { return false; }
  /// For GETs: it waits for its turn to ask for a lease; every earlier one holds its own or needs none.
  virtual bool wants_lease() const { return false; }
  virtual void ask_for_lease() {}
  /// For GETs: later ones may ask now.
  virtual bool past_lease() const { return true; }

 protected:
  Session& session_;

 private:
  std::shared_ptr<Session> keep_;
};

}  // namespace keyferry::gateway
