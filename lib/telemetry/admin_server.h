#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/unique_function.h"

namespace keyferry::telemetry {

/// The answer of /readyz and /healthz: 200, or 503 with the reason as one line.
struct Health {
  bool ok = false;
  std::string reason;
};

/// Where the pages' contents come from. Each is called on the loop's thread and must not wait; one that throws makes
/// its page a 500.
struct AdminHandlers {
  using StatusDone = base::UniqueFunction<void(std::string)>;

  /// The text exposition, normally Registry::scrape().
  base::UniqueFunction<std::string()> metrics;
  base::UniqueFunction<Health()> ready;
  base::UniqueFunction<Health()> healthy;
  /// Gives JSON, now or later, by one call of `done` on the loop's thread. A `done` that comes after
  /// AdminLimits::status_time does nothing.
  base::UniqueFunction<void(StatusDone)> status_json;
  /// Which rows of a report are wanted, of which there may be very many: those whose number is greater, and not more of
  /// them. From "?after=N&limit=N".
  struct Rows {
    static constexpr std::size_t kMost = 5000;
    std::uint64_t after = 0;
    std::size_t limit = kMost;
  };
  /// Further pages of JSON by their path ("/clients.json"), made as status_json is.
  std::map<std::string, base::UniqueFunction<void(Rows, StatusDone)>, std::less<>> reports{};
  /// Ends the local client of that id: `done` with true, or with false if there is none. Empty: refused.
  using KillDone = base::UniqueFunction<void(bool)>;
  base::UniqueFunction<void(std::uint64_t id, KillDone)> kill{};
};

/// Of requests that change something; its value does not matter.
inline constexpr const char* kControlHeader = "X-Keyferry-Control";

struct AdminLimits {
  /// Connections at a time; one more is closed at once.
  std::size_t connections = 64;
  /// Bytes of a request's line and headers.
  std::uint32_t header_bytes = 8 * 1024;
  /// For one whole request to arrive (an idle connection counts as waiting for one), and again for its reply to be
  /// taken.
  base::Duration request_time = std::chrono::seconds(30);
  /// For status_json to answer.
  base::Duration status_time = std::chrono::seconds(5);
};

/// The admin HTTP listener: GET and HEAD of /metrics, /healthz, /readyz, /status.json and /status, the latter a page
/// made from the same JSON, and of the other reports. POST /kill?id=N ends a local client: only from this host, and
/// only with the header kControlHeader, which no web page of another origin can send. It takes no other input, so
/// nothing else that it serves can change the daemon. Our own on Boost.Beast, because an exporter library's would throw
/// at a taken port and has no health pages (R120, R121). Belongs to its loop's thread: made and destroyed there, or
/// while the loop does not run; destroyed before the loop is.
class AdminServer {
 public:
  /// Listens on a numeric address ("localhost" is 127.0.0.1); port 0 lets the kernel choose. The error names the
  /// address, the cause and the fix; it is up to the caller whether that is fatal (R120).
  static base::Result<std::unique_ptr<AdminServer>> start(base::Loop& loop, const std::string& host, std::uint16_t port,
                                                          AdminHandlers handlers, AdminLimits limits = {});
  ~AdminServer();
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;

  /// The port it listens on.
  std::uint16_t port() const;

  struct Impl;

 private:
  explicit AdminServer(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace keyferry::telemetry
