#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "fabric_service.h"
#include "settings.h"

namespace keyferry::large_object {

/// A client that has done BLOB.RDMA_HELLO: its entry in every service's address vector. Immutable; transfers under way
/// keep it beyond the connection's end (blob-rdma spec 3.1, DRAINING).
struct Session {
  std::vector<std::unique_ptr<Peer>> peers;
};

using SessionRef = std::shared_ptr<const Session>;

/// All fabric services of this server. Main thread, except submit(), which is called there too but hands over to the
/// services' threads.
class Fabric {
 public:
  /// Null and the reason if there is no fabric to be had; the module then serves BLOB.TCP_* only (blob-rdma spec 3.8).
  static std::unique_ptr<Fabric> open(const Settings& settings, std::string& problem);

  [[nodiscard]] std::size_t size() const { return services_.size(); }
  [[nodiscard]] FabricService& service(std::size_t index) { return *services_[index]; }
  [[nodiscard]] Provider provider() const { return provider_; }
  /// "net of libfabric 1.17 (libfabric.so.1)".
  [[nodiscard]] const std::string& description() const { return description_; }

  /// Inserts the address in all services or in none. Null and the text behind "ERR session create: ".
  SessionRef create_session(std::span<const std::byte> address, std::string& problem);

  /// Gives each operation to a service: of two at random the one with less to do (blob-rdma spec 3.1).
  void submit(std::span<Operation> operations, const std::shared_ptr<OperationOwner>& owner);

  /// Before the process ends.
  void stop();

 private:
  Fabric() = default;

  std::size_t choose();

  std::unique_ptr<Libfabric> library_;
  std::vector<std::unique_ptr<FabricService>> services_;
  Provider provider_ = Provider::kOff;
  std::string description_;
  std::minstd_rand random_{std::random_device{}()};
};

/// Sessions by client id. Main thread.
using Sessions = std::unordered_map<std::uint64_t, SessionRef>;

}  // namespace keyferry::large_object
