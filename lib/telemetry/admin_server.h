#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
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
};

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
/// made from the same JSON. Our own on Boost.Beast, because an exporter library's would throw at a taken port and has
/// no health pages (R120, R121). It takes no input, so nothing it serves can change the daemon. Belongs to its loop's
/// thread: made and destroyed there, or while the loop does not run; destroyed before the loop is.
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
