#pragma once

// Only for sources that already include Boost.Asio.

#include <boost/asio/ssl.hpp>

#include <memory>

#include "base/result.h"
#include "upstream/connection.h"

namespace keyferry::upstream {

/// The authorities, certificate and key of `options`, loaded. Kept for the calling thread and loaded anew when one of
/// the files has changed (R57); reading the system's authorities at every connect would hold up the loop.
base::Result<std::shared_ptr<boost::asio::ssl::context>> tls_context(const TlsOptions& options);

}  // namespace keyferry::upstream
