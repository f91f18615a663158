#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/client_directory.h"

namespace keyferry::gateway {

/// One local client, for an operator.
struct ClientReport {
  ClientFacts facts;
  /// The server's id of the connection that carries its commands now, 0 if none does; whether nobody else has it.
  std::uint64_t server_id = 0;
  bool own = false;
  /// Commands without a complete reply.
  std::size_t owed = 0;
};

/// One connection to the server, and whom it is for.
struct ChannelReport {
  /// 0: the server has not told it yet.
  std::uint64_t server_id = 0;
  /// shared, bulk, own (a client's), idle (of those that are lent).
  std::string_view kind;
  /// open, connecting, waiting (for room), retired; of a shared one.
  std::string_view state = "open";
  std::string user;
  int database = 0;
  /// 0: not known.
  int protocol = 0;
  /// tcp, tls, rdma; empty: not known.
  std::string_view transport;
  /// Replies that it owes.
  std::size_t owed = 0;
  /// The gateway's ids of the local clients on it; those that were served by it last are on a shared one.
  std::vector<std::uint64_t> clients;
};

/// What a worker is doing, at one moment. A plain value; lanes are the engine's to tell (Engine::status).
struct WorkerReport {
  std::vector<ClientReport> clients;
  std::vector<ChannelReport> channels;
};

}  // namespace keyferry::gateway
