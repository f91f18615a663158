#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gateway/blob_set.h"

namespace keyferry::gateway {

/// SET of a large value under `transfer.offload`: received like a BlobSet, then the words behind the value decide. With
/// none, or an expiry alone, it is stored as a large object, the expiry set behind it on the same connection. Where the
/// key holds another type, which BLOB.*_SET refuses, the object is stored beside it and takes its place by RENAME, so
/// that a reader never finds neither. Whatever else the words say the server's own SET does from the same memory: the
/// value is a string then (lib/gateway/OFFLOAD.md). Belongs to the worker's thread.
class OffloadSet final : public BlobSet {
 public:
  /// `more`: words follow the value.
  OffloadSet(Session& session, SlotTag tag, std::string key, std::uint64_t length, bool patient, bool more);

  /// The value goes to the server as a plain SET as it comes; the parser has just offered it. Counted with its reason,
  /// unless that is empty (a small value is no fallback).
  static std::shared_ptr<Operation> streamed(Session& session, SlotTag tag, const std::string& key,
                                             std::string_view reason);

 protected:
  void no_room_now() override;
  void body_here() override;
  void on_result(transfer::SetResult result) override;

 private:
  void read_words();
  void decide();
  void refused(transfer::SetResult result);
  void lost(const transfer::SetResult& result);
  void answer(std::string_view bytes);

  bool more_;
  std::vector<std::string> words_;
  transfer::StoreExtras extras_;
  /// Where the object waits that is to take the key's place; empty: it is stored there at once.
  std::string beside_;
};

}  // namespace keyferry::gateway
