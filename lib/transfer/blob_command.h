#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "resp/value.h"
#include "transfer/dialect.h"

// The wire form of the module's RDMA commands (blob-rdma spec 2.1 to 2.3). Pure functions: any thread.

namespace keyferry::transfer {

/// A range of registered memory as a command names it.
struct Window {
  std::uint64_t rkey = 0;
  /// What the provider's addressing makes of the place: a pointer or an offset (blob-rdma spec 4.4, C5).
  std::uint64_t addr = 0;
  std::uint64_t length = 0;
};

/// `address`: the endpoint's own, raw bytes as fi_getname gave them.
std::string hello_command(std::string_view address, const Dialect& dialect = dialects().front());
std::string set_command(std::string_view key, std::uint64_t total, std::optional<std::uint32_t> crc,
                        std::span<const Window> windows, const Dialect& dialect = dialects().front());
std::string get_command(std::string_view key, std::span<const Window> windows,
                        const Dialect& dialect = dialects().front());

/// What a reply to BLOB.RDMA_HELLO says.
struct HelloOutcome {
  enum class Kind : std::uint8_t {
    /// `addresses` holds every service's address, raw bytes; all have to be inserted before the session counts as open.
    kOpen,
    /// An error reply: there is no session. `reason` is for fallback_total, `text` is the server's.
    kRefused,
    /// The server may have a session that is of no use here: this connection never does another HELLO (C2).
    kUnsettled,
  };
  Kind kind = Kind::kUnsettled;
  std::vector<std::string> addresses;
  const char* reason = "";
  std::string text;
};

HelloOutcome parse_hello(const resp::Value& reply);

}  // namespace keyferry::transfer
