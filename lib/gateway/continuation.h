#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "transfer/engine.h"

namespace keyferry::gateway {

class Operation;

/// What a command wants of an operation that does a part of its work (BulkExchange, BlobGet): it judges what the server
/// says in one line before the client sees it, and goes on when the part is done. Belongs to the worker's thread; the
/// operation that it was given to owns it and calls it.
class Continuation {
 public:
  struct Judgement {
    enum class Kind : std::uint8_t {
      /// `bytes` are the reply.
      kDeliver,
      /// `bytes` are a command for the same connection, whose reply is judged again. A BulkExchange only.
      kSend,
      /// The reply is dropped and `operation` takes over.
      kHandOver,
    };
    Kind kind = Kind::kDeliver;
    std::string bytes;
    std::shared_ptr<Operation> operation;
  };

  virtual ~Continuation() = default;

  /// `line`: a whole reply of type '+', '-' or ':', with its CR LF. `value`: the value that was sent, for whom wants it
  /// again; empty if there is none.
  virtual Judgement judge(std::string_view line, transfer::Loan& value) {
    static_cast<void>(value);
    return {Judgement::Kind::kDeliver, std::string(line), nullptr};
  }
  /// The first byte of the reply is about to be delivered.
  virtual void begins() {}
  /// The part has ended: what the client is to have of it is delivered, or its client is gone (`delivered` false).
  /// Null: so ends the command's reply; else the operation that goes on with it.
  virtual std::shared_ptr<Operation> ended(bool delivered) {
    static_cast<void>(delivered);
    return nullptr;
  }
  /// No reply to be had, and nothing of one was delivered. Null: the client gets `text` ("ERR keyferry: ..."), which
  /// may be changed; else the operation that goes on.
  virtual std::shared_ptr<Operation> failed(std::string& text) {
    static_cast<void>(text);
    return nullptr;
  }
};

}  // namespace keyferry::gateway
