#pragma once

#include <string>

#include "daemon/options.h"

namespace keyferry::daemon {

/// How packets leave this host for another: the address that they bear, in figures, and the interface that has it.
/// Empty `address`: `problem` says why there is no way.
struct NetworkWay {
  std::string address;
  std::string interface;
  std::string problem;
};

/// Sends nothing; blocks while the name is looked up.
NetworkWay way_to(const HostPort& server);

}  // namespace keyferry::daemon
