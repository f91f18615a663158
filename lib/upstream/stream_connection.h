#pragma once

#include <memory>

#include "base/stream.h"
#include "upstream/connection.h"

namespace keyferry::upstream {

/// The one kind of Connection: over any base::Stream. Inside of this folder. Its state is shared with the handlers
/// under way, so that the buffers outlive it.
class StreamConnection final : public Connection {
 public:
  /// Bytes one read gives at most.
  static constexpr std::size_t kReadRoom = 64 * base::kKiB;

  StreamConnection(base::Loop& loop, ConnectOptions options, std::unique_ptr<base::Stream> stream, Carrier carrier,
                   int family);
  ~StreamConnection() override;

  void write(std::vector<base::ConstBytes> pieces, base::UniqueFunction<void(std::error_code)> done) override;
  void read(base::UniqueFunction<void(std::error_code, std::string_view)> done) override;
  void watch(base::Task stirred) override;
  void close() override;
  const ConnectOptions& options() const override { return options_; }
  Carrier carrier() const override { return carrier_; }
  int family() const override { return family_; }
  std::uint64_t client_id() const override { return client_id_; }

  void set_client_id(std::uint64_t id) { client_id_ = id; }

 private:
  struct State;
  ConnectOptions options_;
  Carrier carrier_;
  int family_;
  std::uint64_t client_id_ = 0;
  std::shared_ptr<State> state_;
};

}  // namespace keyferry::upstream
