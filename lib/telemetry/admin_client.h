#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace keyferry::telemetry {

/// Gets one admin page, waiting for it (the operator's tool; not for the daemon's threads). `timeout` is for all of it.
/// At most 8 MiB are taken. The error names the address and the cause; a status other than 200 is an error that holds
/// the page's first line.
base::Result<std::string> fetch_page(const std::string& host, std::uint16_t port, const std::string& path,
                                     base::Duration timeout);

/// The same for a request that changes something: POST with kControlHeader.
base::Result<std::string> post_control(const std::string& host, std::uint16_t port, const std::string& target,
                                       base::Duration timeout);

}  // namespace keyferry::telemetry
