#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "fabric/library.h"
#include "fabric/open.h"
#include "tests/unit/fabric/fabric_harness.h"
#include "tests/unit/fabric/initiator.h"

namespace keyferry::test {

/// The system's libfabric by its file, for a plain name finds whichever was loaded first.
inline std::string system_library() {
  static const std::string file = [] {
    const std::string name = fabric::Library::load("libfabric.so.1")->name();
    return name.substr(0, name.rfind(" ("));
  }();
  return file;
}

/// The system's libfabric, and the one that KEYFERRY_TEST_LIBFABRIC names.
inline std::vector<std::string> libraries() {
  std::vector<std::string> files{system_library()};
  const char* const other = std::getenv("KEYFERRY_TEST_LIBFABRIC");
  if (other != nullptr && *other != '\0') files.emplace_back(other);
  return files;
}

inline fabric::FabricOptions loopback(const std::string& library) {
  fabric::FabricOptions options;
  options.provider = "software";
  options.interfaces = {"lo"};
  options.family = AF_INET;
  options.library = library;
  return options;
}

/// Which library a test's Fabric runs on, and which its initiator.
struct Mixture {
  std::string target;
  std::string initiator;

  friend std::ostream& operator<<(std::ostream& out, const Mixture& mixture) {
    return out << mixture.target << " written by " << mixture.initiator;
  }
};

inline std::vector<Mixture> mixtures() {
  std::vector<Mixture> all;
  for (const std::string& target : libraries()) {
    for (const std::string& initiator : libraries()) all.push_back({target, initiator});
  }
  return all;
}

/// A Fabric on loopback with one endpoint, and somebody who writes and reads through it.
struct FabricFixture : testing::TestWithParam<Mixture> {
  FabricFixture() : fabric(fabric::open_fabric(loopback(GetParam().target))), server(GetParam().initiator) {
    endpoint = *open_endpoint(*fabric);
    peer = server.add_peer(endpoint.address);
  }

  std::unique_ptr<fabric::Fabric> fabric;
  Initiator server;
  fabric::Endpoint endpoint;
  fi_addr_t peer = FI_ADDR_UNSPEC;
};

/// Memory that a test registers. It takes the fixture's Fabric down before it goes, for until then bytes may move.
class Lent {
 public:
  Lent(FabricFixture& fixture, std::vector<std::byte> content) : bytes(std::move(content)), fixture_(fixture) {
    base::Result<fabric::Registration> result = register_memory(*fixture.fabric, bytes);
    if (result) {
      registration = *result;
    } else {
      ADD_FAILURE() << result.error().message;
    }
  }
  ~Lent() { fixture_.fabric.reset(); }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  /// The window at `offset` as the server sees it, with what it writes or where it reads to.
  Initiator::Window window(base::MutableBytes local, std::uint64_t offset = 0) const {
    return {registration.rkey, registration.wire_base + offset, local};
  }

  std::vector<std::byte> bytes;
  fabric::Registration registration;

 private:
  FabricFixture& fixture_;
};

/// While it lives, something is owed, so that the fabric thread polls.
class Owed {
 public:
  explicit Owed(std::unique_ptr<fabric::Fabric>& fabric) : fabric_(fabric) { fabric_->raise_owed(); }
  ~Owed() {
    if (fabric_) fabric_->lower_owed();
  }
  Owed(const Owed&) = delete;
  Owed& operator=(const Owed&) = delete;

 private:
  std::unique_ptr<fabric::Fabric>& fabric_;
};

}  // namespace keyferry::test
